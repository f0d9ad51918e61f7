//! [`SupervisorCore`]: takes triggers, assigns events, learns what became of them, and closes the ledger.
//!
//! A run goes through these states: peers register and connect their lanes (`Configured`), triggers come (`Running`),
//! no more triggers come and what is outstanding is settled (`Stopping`), peers report, and the ledger is closed (`Ended`).
//!
//! ```text
//!   triggers ──► Intake ──┐                     ┌──► Outbox ──► journal, then peers
//!   peers ─────► Roster ──┼─► SupervisorCore ───┤
//!   completions ──────────┘   wires them        └──► Assigner (slots, outstanding events), Books (what became of them)
//! ```

mod plan;
mod output;
mod change;
mod words;
mod index;
mod journal;
mod nonsense;
mod phase;
mod pulse;
mod intake;
mod outstanding;
mod slots;
mod live;
mod dead_time;
mod findings;
mod tally;
mod outbox;
mod books;
mod seats;
mod roster;
mod admission;
mod assigner;
mod summary;
mod survey;
mod snapshot;
mod assigning;
mod membership;
mod recovery;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod stall_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod fault_model;

use crate::{
    id::{EventId, Peer},
    time::{Instant, earlier},
    units::Frequency,
    wire::{
        control::{Control, Finish, RunEnd, Stop, control::Message},
        journal::{Entry, Started},
    },
};

pub use change::{ChangeError, NotReady};
pub use live::{BuilderLive, LatencySurvey, SourceLive};
pub use output::{Output, Progress, Recipients, RunState};
pub use plan::{AssignmentPolicy, PlanError, RunPlan, SourceLoss};
pub use recovery::{RecoverError, Recovery, unfinished};
pub use survey::{BuilderSurvey, Presence, SourceSurvey, Survey};

use assigner::Assigner;
use books::Books;
use intake::Intake;
use journal::What;
use outbox::Outbox;
use phase::Phase;
use pulse::Pulse;
use roster::{Roster, Seat};
use summary::Summary;
use words::{kind, role, short};

/// The supervisor's machine.
///
/// Inputs: [`register`](Self::register), [`handle_message`](Self::handle_message),
/// [`handle_disconnect`](Self::handle_disconnect), [`trigger`](Self::trigger), [`stop`](Self::stop),
/// [`handle_timeout`](Self::handle_timeout). After inputs that share one `now`, call [`poll`](Self::poll) until `None`:
/// all decisions of that turn leave in one message.
#[derive(Clone, Debug)]
pub struct SupervisorCore {
    plan: RunPlan,
    phase: Phase,
    pulse: Pulse,
    intake: Intake,
    roster: Roster,
    assigner: Assigner,
    books: Books,
    outbox: Outbox,
}

impl SupervisorCore {
    /// A supervisor that waits for its peers. The seed fixes random triggers.
    ///
    /// # Errors
    /// [`PlanError`]: the plan cannot be carried out.
    pub fn new(plan: RunPlan, seed: u64, now: Instant) -> Result<Self, PlanError> {
        plan.check()?;
        let mut core = Self::waiting(plan, seed, now);
        core.outbox.journal(What::Begun(snapshot::begun(&core.plan, seed)), now);
        Ok(core)
    }

    fn waiting(plan: RunPlan, seed: u64, now: Instant) -> Self {
        Self {
            phase: Phase::Gathering { until: now + plan.start_timeout },
            pulse: Pulse::new(now, plan.heartbeat),
            intake: Intake::new(plan.trigger, seed, now),
            roster: Roster::new(&plan),
            assigner: Assigner::new(&plan),
            books: Books::new(plan.sources.len(), plan.builders.len()),
            outbox: Outbox::new(&plan),
            plan,
        }
    }

    /// A message from a registered peer (docs/protocol.md CTRL-4).
    pub fn handle_message(&mut self, peer: Peer, message: Control, now: Instant) {
        let Some(seat) = self.heard(peer, now) else { return };
        let Some(message) = message.message else {
            return self.expel(peer, "it sent a control message without content, or of a later version", now);
        };
        match (seat, message) {
            (_, Message::Heartbeat(heartbeat)) => self.handle_heartbeat(seat, &heartbeat, now),
            (Seat::Builder(index), Message::Completions(completions)) => {
                self.handle_completions(index, completions, now);
            }
            // It has opened slots: now sources may announce (docs/protocol.md RUN-22).
            (Seat::Builder(index), Message::Accepted(accepted)) => {
                if self.assigner.accept(index, accepted.answer) {
                    self.send_holdings(&self.roster.connected_sources());
                }
            }
            (Seat::Source(index), Message::Ready(_)) => self.handle_ready(index, now),
            (_, Message::Triggers(_)) if !self.intake.is_external() => {
                self.expel(peer, "it sent triggers, and this run's trigger is not external", now);
            }
            (_, Message::Triggers(triggers)) => {
                self.trigger(triggers.count, now);
            }
            // Nobody has begun this run: who does not want it leaves it to the others.
            (_, Message::Stop(_)) if self.plan.hold => self.let_go(seat),
            (_, Message::Stop(stop)) => self.stop(&format!("{peer}: {}", short(&stop.cause)), now),
            (_, Message::Report(report)) => self.handle_report(peer, seat, report, now),
            (_, other) => {
                let reason = format!("it sent {}, which a {} does not send", kind(&other), role(peer));
                self.expel(peer, &reason, now);
            }
        }
    }

    /// The time has come that [`next_timeout`](Self::next_timeout) named, or any other.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.pulse.is_due(now) && self.phase != Phase::Ended {
            self.beat(now);
        }
        match self.phase {
            Phase::Gathering { until } if self.is_over(until, now) && !self.plan.hold => {
                self.fail_to_start(now)
            }
            Phase::Running { until } => {
                self.take_due_triggers(now, until);
                // Triggers that came in time are all taken first, however late we are.
                let due = self.own_trigger_due();
                let over = |until| now >= until && due.is_none_or(|due| due > until);
                if until.is_some_and(over) {
                    self.stop_running("its duration is over", now);
                }
            }
            Phase::Recovering { until } if self.is_over(until, now) => self.go_on(now),
            Phase::Recovering { .. } => self.take_due_triggers(now, None),
            Phase::Draining { until } if self.is_over(until, now) => self.give_outstanding_up(now),
            Phase::Reporting { until } if self.is_over(until, now) => self.close_ledger(now),
            _ => {}
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Gathering { .. } if self.plan.hold => None,
            Phase::Gathering { until } | Phase::Draining { until } | Phase::Reporting { until } => {
                self.running(until)
            }
            Phase::Recovering { until } => earlier(self.running(until), self.next_decision()),
            Phase::Running { until } => earlier(until, self.next_decision()),
            Phase::Ended => return None,
        };
        earlier(phase, Some(self.pulse.next()))
    }

    /// Returns the limit, unless it stands still.
    fn running(&self, limit: Instant) -> Option<Instant> {
        Some(limit).filter(|_| !self.outbox.is_stalled())
    }

    /// Returns true if the limit has passed and does not stand still.
    fn is_over(&self, limit: Instant, now: Instant) -> bool {
        self.running(limit).is_some_and(|limit| now >= limit)
    }

    /// The next thing to do. Call it until `None` after inputs that share one `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if let Some(output) = self.outbox.pop() {
            return Some(output);
        }
        self.reassign(now);
        self.assign_freely(now);
        self.answer_completions();
        self.dismiss_builders();
        if self.phase.is_draining() && self.assigner.is_idle() {
            self.finish(now);
        }
        self.outbox.close_batches_if_written();
        self.outbox.pop()
    }

    /// Lets a run begin that its plan holds back.
    ///
    /// # Errors
    /// [`NotReady`]: somebody is missing, or it has begun.
    pub fn begin(&mut self, now: Instant) -> Result<(), NotReady> {
        if !self.phase.is_gathering() {
            return Err(NotReady::Begun);
        }
        let missing = self.roster.absent();
        if !missing.is_empty() {
            return Err(NotReady::Missing(missing));
        }
        let waiting = self.roster.unconnected();
        if !waiting.is_empty() {
            return Err(NotReady::Unconnected(waiting));
        }
        self.plan.hold = false;
        self.start_if_ready(now);
        Ok(())
    }

    fn start_if_ready(&mut self, now: Instant) {
        if self.plan.hold || !self.roster.is_ready() {
            return;
        }
        let (sources, builders) = (self.roster.sources().len(), self.roster.builders().len());
        tracing::info!(run = %self.plan.run, sources, builders, "running");
        self.phase = Phase::Running { until: self.plan.duration.map(|duration| now + duration) };
        self.books.start(now);
        self.outbox.journal(What::Started(Started {}), now);
        self.roster.hear_everybody(now);
        self.intake.start(now);
        self.assigner.open();
        self.offer_all_slots(now);
    }

    fn fail_to_start(&mut self, now: Instant) {
        let words = |peers: Vec<Peer>| peers.iter().map(Peer::to_string).collect::<Vec<_>>().join(", ");
        let absent = self.roster.absent();
        let limit = self.plan.start_timeout.as_secs_f64();
        let problem = if absent.is_empty() {
            let waiting = words(self.roster.unconnected());
            format!("after {limit} s, lanes to the builders were still not connected by: {waiting}")
        } else {
            format!("after {limit} s, still missing: {}", words(absent))
        };
        self.begin_draining(&problem, now);
        self.failure(problem, now);
    }

    /// Takes no triggers until [`resume`](Self::resume). Those that come from elsewhere are inhibited, those of the run's own
    /// clock do not happen.
    ///
    /// # Errors
    /// [`ChangeError`]: it is not running, or paused already.
    pub fn pause(&mut self, now: Instant) -> Result<(), ChangeError> {
        if self.intake.is_paused() && self.phase.is_running() {
            return Err(ChangeError::Paused);
        }
        self.settle_pending(now);
        if !self.phase.is_running() {
            return Err(ChangeError::NotRunning);
        }
        self.set_paused(true, now);
        Ok(())
    }

    /// Takes triggers again.
    ///
    /// # Errors
    /// [`ChangeError`]: it is not running, or not paused.
    pub fn resume(&mut self, now: Instant) -> Result<(), ChangeError> {
        if !self.phase.is_running() {
            return Err(ChangeError::NotRunning);
        }
        if !self.intake.is_paused() {
            return Err(ChangeError::NotPaused);
        }
        self.set_paused(false, now);
        self.intake.restart(self.books.triggered(), now);
        Ok(())
    }

    fn set_paused(&mut self, paused: bool, now: Instant) {
        tracing::info!(run = %self.plan.run, paused, "triggers");
        self.intake.set_paused(paused);
        self.outbox.journal(What::Paused(paused), now);
    }

    /// Sets the mean rate of the run's own trigger, from now on; a held run may be changed as well.
    ///
    /// # Errors
    /// [`ChangeError::NoRate`]: it has none.
    pub fn set_rate(&mut self, rate: Frequency, now: Instant) -> Result<(), ChangeError> {
        if !self.intake.set_rate(rate) {
            return Err(ChangeError::NoRate);
        }
        tracing::info!(run = %self.plan.run, %rate, "trigger rate");
        self.outbox.journal(What::Rate(rate.hertz()), now);
        self.intake.restart(self.books.triggered(), now);
        Ok(())
    }

    /// No more triggers; settle what is outstanding, and end.
    pub fn stop(&mut self, cause: &str, now: Instant) {
        match self.phase {
            Phase::Gathering { .. } => {
                self.problem(format!("stopped before it began: {cause}"), now);
                self.begin_draining(cause, now);
            }
            Phase::Running { .. } => self.stop_running(cause, now),
            // First those that do not come back are replaced, which may take longer than a drain.
            Phase::Recovering { .. } => self.stop_when_recovered(cause, now),
            Phase::Draining { .. } | Phase::Reporting { .. } | Phase::Ended => {}
        }
    }

    fn stop_running(&mut self, cause: &str, now: Instant) {
        self.settle_pending(now);
        if self.phase.is_running() {
            self.begin_draining(cause, now);
        }
    }

    /// No more triggers; the drain begins when the run goes on.
    fn stop_when_recovered(&mut self, cause: &str, now: Instant) {
        if !self.books.is_stopped() {
            tracing::info!(run = %self.plan.run, cause, "stops when peers are back");
            self.outbox.journal(What::Stopping(cause.to_owned()), now);
            self.settle_pending(now);
            self.books.stop(Some(now));
            self.intake.forget();
        }
    }

    fn begin_draining(&mut self, cause: &str, now: Instant) {
        tracing::info!(run = %self.plan.run, cause, outstanding = self.assigner.outstanding(), "stopping");
        self.outbox.journal(What::Stopping(cause.to_owned()), now);
        self.phase = Phase::Draining { until: now + self.plan.drain_time() };
        self.intake.forget();
        self.assigner.close(now);
        self.books.stop(Some(now));
        self.outbox.send(Recipients::Everyone, Message::Stop(Stop { cause: cause.to_owned() }));
        if self.roster.stop_waiting() {
            self.publish_roster(now);
        }
    }

    /// While something is settled, what is left has its time from now on: a sink may be slow, and nothing is lost for that.
    fn prolong_drain(&mut self, now: Instant) {
        self.phase.drain_until(now + self.plan.drain_time());
    }

    /// The drain took too long: what is outstanding is lost, and its builder is named.
    fn give_outstanding_up(&mut self, now: Instant) {
        let waited = self.plan.drain_time().as_secs_f64();
        self.lose_unassigned("no builder had a slot for them before the end", now);
        for index in self.roster.builders().positions() {
            let id = self.roster.builder(index).id;
            let cause =
                format!("builder {id} settled nothing for the last {waited} s after the end of triggers");
            self.lose_events(index, cause, now);
        }
        self.finish(now);
    }

    fn finish(&mut self, now: Instant) {
        self.books.drain(now);
        self.outbox.send(Recipients::Everyone, Message::Finish(Finish {}));
        self.phase = Phase::Reporting { until: now + self.plan.report_timeout };
        if !self.books.is_started() {
            // Nothing was counted, and peers that never saw a roster have no report to give.
            return self.close_ledger(now);
        }
        self.close_if_all_reported(now);
    }

    fn close_ledger(&mut self, now: Instant) {
        self.phase = Phase::Ended;
        let drained = self.books.times().drained.unwrap_or(now);
        self.roster.end_absences(self.books.assigned(), drained);
        let (plan, roster, assigner, books) = (&self.plan, &self.roster, &self.assigner, &self.books);
        let report = Summary { plan, roster, assigner, books, drained }.report();
        self.books.close(report.exit_code);
        self.outbox.journal(What::Ended(report.exit_code.into()), now);
        let end = RunEnd { exit_code: report.exit_code.into(), verdict: report.verdict.clone() };
        self.outbox.send(Recipients::Everyone, Message::RunEnd(end));
        self.outbox.push(Output::Ended(Box::new(report)));
    }

    /// Goes on with a run of before, as soon as everybody is back.
    fn check_recovered(&mut self, now: Instant) {
        if self.phase.is_recovering() && self.roster.is_back() {
            self.go_on(now);
        }
    }

    /// Requirements: docs/protocol.md RUN-23.
    fn go_on(&mut self, now: Instant) {
        const CAUSE: &str = "it did not come back to a new supervisor";
        self.outbox.close_batches();
        let stopped = self.books.times().last_trigger_possible;
        self.phase = Phase::Running { until: None };
        for index in self.roster.sources().positions() {
            if self.roster.source(index).connection.is_none() {
                self.lower(index, CAUSE, now);
            }
        }
        if self.roster.up().is_empty() {
            self.pulse.lose_sources(now, self.plan.absence_limit(true));
        }
        for index in self.roster.builders().positions() {
            let seat = self.roster.builder(index);
            if seat.is_alive() && seat.connection.is_none() {
                self.end_incarnation(index, CAUSE, now);
            }
        }
        self.roster.hear_everybody(now);
        if self.roster.lacks_builders() {
            // Nobody knows whether they are dead, or cut off.
            self.pulse.lose_builders(now + self.plan.absence_limit(true));
        }
        self.offer_all_slots(now);
        self.intake.restart(self.books.triggered(), now);
        tracing::info!(run = %self.plan.run, outstanding = self.assigner.outstanding(), "peers are back");
        if stopped.is_some() {
            self.begin_draining("triggers had ended before", now);
            self.books.stop(stopped);
        } else if let Some((started, duration)) = self.books.times().started.zip(self.plan.duration) {
            self.phase = Phase::Running { until: Some((started + duration).max(now)) };
        }
    }

    /// The journal takes nothing: until [`journal_goes_on`](Self::journal_goes_on), nobody hears of what is decided, so triggers
    /// are inhibited, and limits of time stand still for those who cannot be told.
    pub fn stall_journal(&mut self, now: Instant) {
        self.outbox.stall(now);
    }

    /// The journal takes entries again, or is kept no more.
    pub fn journal_goes_on(&mut self, now: Instant) {
        let Some(time) = self.outbox.go_on(now) else { return };
        self.phase.put_off(time);
        self.pulse.put_off(time);
        self.roster.put_off_joining(time);
    }

    /// The journal cannot be kept any more: nothing is written down from here on, and the report says why.
    pub fn abandon_journal(&mut self, problem: String) {
        self.outbox.abandon_journal();
        self.problem(problem, Instant::ZERO);
    }

    /// Entries that stand for all that came out so far. Ask for them when [`poll`](Self::poll) has answered `None`, and
    /// replace the journal with them.
    pub fn snapshot(&self, now: Instant) -> Vec<Entry> {
        snapshot::entries(self, now)
    }

    /// A cheap look at the run.
    pub fn progress(&self) -> Progress {
        Progress {
            state: match self.phase {
                Phase::Gathering { .. } => RunState::Configured,
                Phase::Running { .. } if self.intake.is_paused() => RunState::Paused,
                Phase::Running { .. } => RunState::Running,
                Phase::Recovering { .. } => RunState::Recovering,
                Phase::Draining { .. } | Phase::Reporting { .. } => RunState::Stopping,
                Phase::Ended => RunState::Ended,
            },
            events: self.books.counts(),
            outstanding: self.assigner.outstanding(),
            sources_up: self.roster.up().len() as u32,
            builders_up: self.roster.builders().iter().filter(|seat| seat.is_active()).count() as u32,
            ready: self.roster.is_ready(),
        }
    }

    /// A look at everybody; costs more than [`progress`](Self::progress).
    pub fn survey(&self, now: Instant) -> Survey {
        survey::survey(&self.plan, &self.roster, &self.assigner, &self.books, now)
    }

    /// Everybody who may take part: sources in the order of the roster, then builders.
    pub fn peers(&self) -> Vec<Peer> {
        self.roster.peers()
    }

    /// The highest event id that has a decision.
    pub fn decided(&self) -> EventId {
        EventId::new(self.outbox.decided())
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        self.roster.invariants();
        self.assigner.invariants(&self.roster);
        self.books.invariants();
        let (open, outstanding) = (self.books.counts().open(), self.assigner.outstanding());
        assert_eq!(open, Some(outstanding), "every trigger is inhibited, settled or outstanding");
        let addressed = self.outbox.addressed();
        assert_eq!(addressed, (*self.roster.up(), self.roster.version()), "decisions go to those who are up");
        for (index, held) in self.roster.builders().positions().zip(self.assigner.counts(&self.roster)) {
            assert_eq!(self.books.outstanding(index), held, "books and slots agree: {index:?}");
        }
    }

    /// Notes what was not as it should be.
    fn problem(&mut self, problem: String, now: Instant) {
        self.books.problem(problem, &mut self.outbox, now);
    }

    /// The same, and the run cannot begin or go on.
    fn failure(&mut self, problem: String, now: Instant) {
        self.books.failure(problem, &mut self.outbox, now);
    }
}
