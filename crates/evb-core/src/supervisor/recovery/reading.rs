//! [`Reading`]: restores the supervisor's state from the entries of a journal.

use crate::{
    alignment::GuardedClocks,
    id::{EventId, RunNumber, SourceId},
    ledger::Annotation,
    quantities::counted,
    supervisor::{
        Phase, RecoverError, RunPlan, SupervisorCore,
        alignment::Misaligned,
        books::Books,
        exclusions::Exclusions,
        journal::{What, sums},
        nonsense::{Nonsense, builder_id, content, epoch, nonsense, text},
        outstanding::OutstandingEvent,
        roster::Seat,
    },
    time::Instant,
    trigger::numbers::TriggerNumbers,
    units::Frequency,
    wire::{
        control::{MAX_BUILDERS, MAX_SLOTS, Verdict},
        journal::{
            Accounted, Change, Decided, Entry, Lost, Membership, Reassigned, Registered, Resumed,
            RosterChange, Totals,
        },
    },
};

/// State of the supervisor after the entries that have been read.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The restored state machine; its times are those of the entries.
    core: SupervisorCore,
    /// Boot id of the host whose clock the times of the entries refer to.
    boot_id: String,
    last: Instant,
    /// True while only entries have been read that [`What::Totals`] may follow.
    untouched: bool,
}

impl Reading {
    /// Begins to read a journal with its first entry, which names the run and its peers. A journal
    /// with other sources than the plan is refused.
    pub(super) fn begin(plan: &RunPlan, entry: &Entry) -> Result<Self, RecoverError> {
        let Some(What::Begun(begun)) = &entry.what else { return Err(RecoverError::NoBeginning) };
        let senseless = |Nonsense(problem)| RecoverError::Senseless { number: 1, problem };
        let (_, at) = content(entry).map_err(senseless)?;
        let run = RunNumber::new(begun.run);
        if !plan.sources.iter().map(|id| u32::from(id.number())).eq(begun.sources.iter().copied()) {
            return Err(RecoverError::OtherSources(run));
        }
        let plan = RunPlan {
            run,
            // A journal of evb 0.1 has no id: every supervisor derives the same one.
            run_id: begun.run_id,
            epoch: epoch(begun.epoch).map_err(senseless)?,
            builders: begun
                .builders
                .iter()
                .map(|id| builder_id(*id))
                .collect::<Result<_, _>>()
                .map_err(senseless)?,
            // Entries that are read from the journal must not be written to it again.
            journal: false,
            ..plan.clone()
        };
        plan.check()?;
        let core = SupervisorCore::waiting(plan, begun.seed, at);
        Ok(Self { core, boot_id: begun.boot_id.clone(), last: at, untouched: true })
    }

    /// Applies one entry to the supervisor that is restored. Totals may come only before all other
    /// entries.
    pub(super) fn read(&mut self, entry: &Entry) -> Result<(), Nonsense> {
        let (what, at) = content(entry)?;
        match what {
            What::Totals(totals) if self.untouched => self.recall_totals(totals, at)?,
            What::Resumed(resumed) => self.go_on_by(&resumed.boot_id, at),
            what => self.recall(what, at)?,
        }
        // Only a change of the epoch may come before totals.
        self.untouched &= matches!(what, What::Epoch(_));
        self.last = self.last.max(at);
        Ok(())
    }

    /// Continues with another clock at the time `now`. If both clocks are the same, times stay as
    /// they are; otherwise times are shifted so that `now` follows the last entry at once.
    fn go_on_by(&mut self, boot_id: &str, now: Instant) {
        let same = !boot_id.is_empty() && self.boot_id == boot_id && self.last <= now;
        if !same {
            let nanos = now.as_nanos().wrapping_sub(self.last.as_nanos()) as i64;
            if let Some(begun) = &mut self.core.begun {
                begun.begun_ns = begun.begun_ns.wrapping_add_signed(nanos);
            }
            self.core.books.shift_times(nanos);
            self.core.roster.shift_times(nanos);
            self.core.assigner.shift_times(nanos);
            boot_id.clone_into(&mut self.boot_id);
            self.last = now;
        }
    }

    /// Ends the reading: returns a supervisor that continues the run, and waits until its peers
    /// have registered again.
    pub(super) fn finish(mut self, now: Instant) -> SupervisorCore {
        let boot_id = self.core.plan.boot_id.clone();
        self.go_on_by(&boot_id, now);
        let mut core = self.core;
        core.roster.address(&mut core.outbox);
        core.outbox.set_scale(core.begun().utc_zero_ns());
        core.outbox.keep_journal();
        core.outbox.journal(What::Resumed(Resumed { boot_id }), now);
        core.outbox.raise_epoch(now);
        core.assigner.require_confirmations();
        core.roster.hear_everybody(now);
        Exclusions { core: &mut core }.plan_again();
        core.pulse.restart(now);
        let (run, decided) = (core.plan.run, core.outbox.decided());
        // A recovered run has taken all triggers up to this number.
        core.intake.numbers = TriggerNumbers::after(decided);
        if !core.books.is_started() {
            tracing::info!(%run, "waiting for the sources and builders of run {run}, which had not started when the supervisor ended: they register again by themselves while they are running, so start those that are not");
            core.books.stop(None);
            core.phase = Phase::Gathering { until: now + core.plan.start_timeout };
            return core;
        }
        // The run in the journal has begun, so it does not wait for an operator.
        core.plan.hold = false;
        let (epoch, outstanding) = (core.outbox.epoch(), core.assigner.outstanding());
        let left = counted(outstanding, "event");
        tracing::info!(%run, %epoch, "recovering run {run} from its journal, with {decided} triggers so far and {left} still to be built: its sources and builders register again by themselves while they are running, so start those that are not");
        core.phase = Phase::Recovering { until: now + core.plan.two_leases() };
        core.intake.restart(core.books.triggered(), now);
        core
    }

    /// Applies any entry except the first one, [`What::Totals`], and [`What::Resumed`].
    fn recall(&mut self, what: &What, at: Instant) -> Result<(), Nonsense> {
        let core = &mut self.core;
        match what {
            What::Begun(_) => return nonsense("the run begins a second time"),
            What::Totals(_) => return nonsense("totals stand at the beginning of a journal only"),
            What::Ended(_) | What::Resumed(_) => {}
            What::Begin(begin) => {
                core.plan.run = RunNumber::new(begin.run);
                core.annotation = Annotation { kind: begin.kind.clone(), comment: begin.comment.clone() };
                core.begun = Some(begin.clone());
                core.verdicts().adopt_clocks(GuardedClocks::of(begin).clocks);
            }
            What::Epoch(number) => core.outbox.recall_epoch(epoch(*number)?),
            What::Registered(registered) => self.recall_registration(registered)?,
            What::Started(_) if core.books.is_started() => return nonsense("the run starts a second time"),
            What::Started(_) => core.books.start(at),
            What::Roster(change) => self.recall_roster(change, at)?,
            What::Decided(decided) => self.recall_decisions(decided, at)?,
            What::Reassigned(reassigned) => self.recall_reassignment(reassigned)?,
            What::Accounted(accounted) => self.recall_completions(accounted, at)?,
            What::Over(builder) => {
                let index = core.roster.recall_over(*builder)?;
                core.books.take_away(index, core.assigner.unassign(index));
            }
            What::Lost(lost) => self.recall_loss(lost)?,
            What::Membership(membership) => self.recall_membership(membership)?,
            What::Finding(finding) => core.books.recall_finding(finding),
            What::Episode(episode) => core.books.recall_episode(episode),
            What::Exclusion(entry) => core.books.recall_exclusion(entry),
            What::Judged(judged) => {
                if let (Some(watch), Ok(source)) = (&mut core.watch, u16::try_from(judged.source)) {
                    let (since, sentence) = (EventId::new(judged.since), judged.sentence.clone());
                    let known = judged.is_misaligned.then_some(Misaligned { since, sentence });
                    watch.set_misaligned(SourceId::new(source), known);
                }
            }
            What::Paused(paused) => core.intake.set_paused(*paused),
            What::Stopping(_) => core.books.stop(Some(at)),
            What::Rate(hertz) => {
                let Some(rate) = Frequency::from_hertz(*hertz) else {
                    return nonsense(format!("{hertz} Hz is not a possible trigger rate"));
                };
                // If the present configuration has a trigger without a rate, the rate from the
                // journal is ignored.
                core.intake.set_rate(rate);
            }
        }
        Ok(())
    }

    /// Restores the registration of a peer. A new process of a builder begins a new incarnation.
    fn recall_registration(&mut self, registered: &Registered) -> Result<(), Nonsense> {
        let core = &mut self.core;
        if let (Seat::Builder(index), true) = core.roster.recall_registration(registered)? {
            if core.books.outstanding(index) > 0 {
                return nonsense("a new process of a builder registers while the old one still has events");
            }
            core.books.begin_incarnation(index);
        }
        Ok(())
    }

    fn recall_roster(&mut self, change: &RosterChange, at: Instant) -> Result<(), Nonsense> {
        let core = &mut self.core;
        core.roster.recall_change(change, &core.assigner.versions(), core.books.is_started(), at)
    }

    /// Restores decisions, and the trigger times of the assigned events.
    fn recall_decisions(&mut self, decided: &Decided, at: Instant) -> Result<(), Nonsense> {
        let core = &mut self.core;
        let Some(decisions) = &decided.decisions else { return nonsense("the decisions are missing") };
        if !core.books.is_started() {
            return nonsense("the decisions come before the start of the run");
        }
        if decisions.first != core.outbox.decided() + 1 {
            return nonsense("the decisions do not continue from the last ones");
        }
        let mut times = sums(&decided.triggered_ns);
        let mut inhibited = 0;
        for (first, events, verdict) in decisions.verdicts()? {
            let events = u64::from(events);
            let is_inhibited = verdict == Verdict::Inhibited;
            core.books.recall_triggers(events, if is_inhibited { events } else { 0 })?;
            match verdict {
                Verdict::Inhibited => inhibited += events,
                Verdict::Closed | Verdict::Excluded => {
                    return nonsense("a decision closes its event");
                }
                Verdict::Assigned(id) => {
                    let builder = core.roster.recalled_alive(id.number().into())?;
                    for event in first.number()..first.number() + events {
                        let Some(triggered_ns) = times.next() else {
                            return nonsense("an assigned event has no trigger time");
                        };
                        let version = decided.roster_version;
                        let entry = OutstandingEvent {
                            event,
                            triggered_ns,
                            version,
                            confirmation: 0,
                            builder: Some(builder),
                        };
                        core.assigner.recall(entry, core.books.triggered(), &core.roster)?;
                        core.books.recall_assignment(builder)?;
                    }
                }
            }
        }
        if times.next().is_some() {
            return nonsense("there are more trigger times than assigned events");
        }
        core.books.recall_blames(&decided.blames, inhibited)?;
        core.outbox.recall(core.books.triggered());
        core.books.note_trigger(at);
        Ok(())
    }

    /// Restores that unassigned events were assigned to another builder.
    fn recall_reassignment(&mut self, reassigned: &Reassigned) -> Result<(), Nonsense> {
        let core = &mut self.core;
        let index = core.roster.recalled_alive(reassigned.builder)?;
        for event in sums(&reassigned.events) {
            core.assigner.recall_reassignment(event, index)?;
            core.books.recall_assignment(index)?;
        }
        Ok(())
    }

    /// Restores that a builder has completed events.
    fn recall_completions(&mut self, accounted: &Accounted, at: Instant) -> Result<(), Nonsense> {
        let core = &mut self.core;
        let index = core.roster.recalled_builder(accounted.builder)?;
        let Some(completions) = &accounted.completions else {
            return nonsense("the completions are missing");
        };
        if !core.books.goes_on_from(index, completions.before) {
            return nonsense("the completions do not continue from the last ones");
        }
        core.dispatch().account(index, completions, at);
        Ok(())
    }

    fn recall_loss(&mut self, lost: &Lost) -> Result<(), Nonsense> {
        let core = &mut self.core;
        let builders: Vec<_> =
            sums(&lost.events).map(|event| core.assigner.recall_loss(event)).collect::<Result<_, _>>()?;
        core.books.lose(builders.into_iter(), text(&lost.cause));
        Ok(())
    }

    fn recall_membership(&mut self, membership: &Membership) -> Result<(), Nonsense> {
        if membership.change == Change::Added {
            self.recall_seat(membership.builder)?;
        }
        self.core.roster.recall_membership(membership.builder, membership.change)
    }

    /// Adds a seat for that builder, unless it has one.
    fn recall_seat(&mut self, builder: u32) -> Result<(), Nonsense> {
        let id = builder_id(builder)?;
        if self.core.roster.builder_index(id).is_none() {
            if self.core.roster.builders().len() >= MAX_BUILDERS {
                return nonsense("there are more builders than a run can have");
            }
            self.core.membership().make_seat(id);
        }
        Ok(())
    }

    /// Restores the totals of an earlier state. No entry that changes totals may have been read
    /// before.
    fn recall_totals(&mut self, totals: &Totals, at: Instant) -> Result<(), Nonsense> {
        self.core.books.recall(totals, at)?;
        self.core.outbox.recall(totals.triggered);
        self.core.roster.recall(totals)?;
        for (index, own) in self.core.roster.sources().positions().zip(&totals.sources) {
            self.core.roster.recall_source(index, own, at)?;
            self.core.books.recall_source(index, own)?;
        }
        for (position, own) in totals.builders.iter().enumerate() {
            self.recall_seat(own.id)?;
            let index = self.core.roster.recalled_builder(own.id)?;
            if self.core.roster.builders().positions().nth(position) != Some(index) {
                return nonsense("the totals list the builders in another order");
            }
            self.core.roster.recall_builder(index, own)?;
            self.core.books.recall_builder(index, own)?;
        }
        let core = &mut self.core;
        if totals.builders.len() != core.roster.builders().len() {
            return nonsense("the totals lack a builder");
        }
        for held in &totals.held {
            core.assigner.recall_held(held, core.books.triggered(), &core.roster)?;
        }
        core.books.recall_blames(&totals.blames, totals.inhibited)?;
        check_books(&core.books, core.assigner.outstanding(), &core.assigner.counts(&core.roster))?;
        core.books.recall_losses(totals)
    }
}

/// Checks that the outcomes of all events add up to the number of triggers, and that each builder's
/// counts match its outstanding events.
fn check_books(books: &Books, outstanding: u64, held: &[u64]) -> Result<(), Nonsense> {
    if books.counts().open() != Some(outstanding) {
        return nonsense("the counts of events do not add up to the triggers");
    }
    let fits = |(own, held): (u64, &u64)| own == *held && *held <= u64::from(MAX_SLOTS);
    if books.all_outstanding().zip(held).all(fits) {
        Ok(())
    } else {
        nonsense("the counts of a builder do not match its outstanding events")
    }
}
