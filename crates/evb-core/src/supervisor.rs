//! [`SupervisorCore`]: takes triggers, assigns events to builders, records the outcomes of events,
//! and closes the ledger.
//!
//! A run goes through these states: peers register and connect their lanes (`Configured`), triggers
//! arrive (`Running`), triggers have ended and outstanding events are settled (`Stopping`), peers
//! report, and the ledger is closed (`Ended`).
//!
//! ```text
//!   triggers ──► Intake ──┐                     ┌──► Outbox ──► journal, then peers
//!   peers ─────► Roster ──┼─► SupervisorCore ───┤
//!   completions ──────────┘   wires them        └──► Assigner (slots, outstanding events),
//!                                                    Books (outcomes of events)
//! ```
// tidy: long because all inputs of one machine stand together.

mod absence;
mod groups;
mod plan;
mod peer_names;
mod change;
mod builders;
mod journal;
mod nonsense;
mod phase;
mod output;
mod pulse;
mod intake;
mod outstanding;
mod slots;
mod lanes;
mod live;
mod dead_time;
mod findings;
mod tally;
mod scale;
mod outbox;
mod books;
mod seats;
mod roster;
mod culprits;
mod roster_updates;
mod alignment;
mod admission;
mod assigner;
mod announcements;
mod source_findings;
mod summary;
mod survey;
mod snapshot;
mod dispatch;
mod membership;
mod exclusions;
mod least_numbers;
mod beginning;
mod verdicts;
mod phases;
mod peers;
mod recovery;
mod role;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod missing_tests;
#[cfg(test)]
mod stall_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod pause_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod fault_model;

use crate::{
    alignment::{Episode, GuardedClocks},
    id::{EventId, Peer, RunId},
    ledger::Annotation,
    time::{Instant, WallClock, earlier},
    units::Frequency,
    wire::{
        control::{Begin, Control, Message},
        journal::Entry,
    },
};

pub use absence::{FirstReadouts, SourceLoss};
pub use alignment::{AlignmentState, AlignmentSurvey};
pub use change::{BeginError, ChangeError, NotReady, OwingRequest, RunChange, RunOver};
pub use groups::{Group, TooFew};
pub use live::{BuilderLive, FilterSurvey, LatencySurvey, SourceLive, TapSurvey};
pub use output::{Output, Progress, Recipients, RunState};
pub use plan::{AssignmentPolicy, JournalFsync, MOST_SLOTS, OnSlip, PlanError, RunPlan, SLOTS_BESIDE};
pub use recovery::{RecoverError, Recovery, unfinished};
pub use role::{JournalWrite, Keeper, SupervisorOutput, SupervisorRole};
pub use survey::{BuilderSurvey, FrontEndSurvey, GroupSurvey, Presence, SourceSurvey, Survey};

use alignment::AlignmentWatch;
use assigner::Assigner;
use beginning::{Beginning, Permission};
use books::Books;
use dispatch::{Dispatch, counts_triggers, next_decision};
use exclusions::{Exclusions, PlannedChanges};
use intake::Intake;
use journal::What;
use membership::{PeerMembership, begin_of};
use outbox::Outbox;
use peer_names::{not_its_to_send, short};
use phase::Phase;
use pulse::Pulse;
use roster::{Roster, Seat, too_few_to_begin};
use roster_updates::RosterUpdates;
use scale::WallWatch;
use verdicts::Verdicts;

/// State machine of the supervisor.
///
/// Inputs: [`register`](Self::register), [`handle_message`](Self::handle_message),
/// [`handle_disconnect`](Self::handle_disconnect), [`trigger`](Self::trigger),
/// [`stop`](Self::stop), [`handle_timeout`](Self::handle_timeout). After inputs that share one
/// `now`, call [`poll`](Self::poll) until it returns `None`; so all decisions of that turn are sent
/// in one message.
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
    due: RosterUpdates,
    wall: WallWatch,
    /// The operator's annotation of the run.
    annotation: Annotation,
    /// Message that told peers about the beginning of the run; `None` before that.
    begun: Option<Begin>,
    /// Sources without a readout when the run was called to begin.
    without_readout: Vec<Peer>,
    permission: Permission,
    /// Inquiries about timestamps, if the run has clocks.
    watch: Option<Box<AlignmentWatch>>,
    /// Clocks that the plan had before sources declared theirs.
    planned: GuardedClocks,
    planned_changes: PlannedChanges,
}

const NOT_EXTERNAL: &str = "it sent triggers, but the trigger of this run is not external; set `kind = \"external\"` for the trigger, or let it send none";

const PAUSED: &str = "paused, and takes no triggers until it is resumed";

const RESUMED: &str = "resumed, and takes triggers again";

impl SupervisorCore {
    /// Creates a supervisor that waits for its peers. All random triggers follow from `seed`.
    ///
    /// # Errors
    /// Returns [`PlanError`] if the plan contradicts itself or a limit.
    pub fn new(plan: RunPlan, seed: u64, now: Instant) -> Result<Self, PlanError> {
        plan.check()?;
        let mut core = Self::waiting(plan, seed, now);
        core.outbox.journal(What::Begun(snapshot::begun(&core.plan, seed)), now);
        Exclusions { core: &mut core }.note_those_of_the_plan(now);
        Ok(core)
    }

    /// Creates a supervisor that waits for the peers of the plan.
    fn waiting(mut plan: RunPlan, seed: u64, now: Instant) -> Self {
        if !plan.run_id.is_known() {
            plan.run_id = RunId::derived(plan.epoch, plan.run);
        }
        Self {
            phase: Phase::Gathering { until: now + plan.start_timeout },
            pulse: Pulse::new(now, plan.heartbeat),
            intake: Intake::new(plan.trigger, seed, now),
            roster: Roster::new(&plan),
            assigner: Assigner::new(&plan),
            books: Books::new(plan.sources.len(), plan.builders.len()),
            outbox: Outbox::new(&plan),
            due: RosterUpdates::default(),
            wall: WallWatch::default(),
            annotation: Annotation::default(),
            begun: None,
            without_readout: Vec::new(),
            permission: Permission::default(),
            watch: AlignmentWatch::new(&plan.clocks).map(Box::new),
            planned: plan.clocks.clone(),
            planned_changes: PlannedChanges::default(),
            plan,
        }
    }

    /// Returns the parts of the supervisor that handle events.
    fn dispatch(&mut self) -> Dispatch<'_> {
        let Self { plan, phase, roster, intake, assigner, books, outbox, watch, planned_changes, .. } = self;
        let (watch, limit) = (watch.as_deref_mut(), planned_changes.limit());
        Dispatch { plan, phase: *phase, roster, intake, assigner, books, outbox, watch, limit }
    }

    /// Returns the parts of the supervisor that handle events, for decisions: these come under the
    /// newest roster, which is sent first.
    fn deciding(&mut self, now: Instant) -> Dispatch<'_> {
        Exclusions { core: self }.apply_due();
        if !self.due.is_empty() {
            self.membership().publish(now);
            least_numbers::count(self, now);
        }
        self.dispatch()
    }

    /// Returns the parts of the supervisor that change when a peer joins or leaves.
    fn membership(&mut self) -> PeerMembership<'_> {
        let Self { plan, phase, pulse, roster, assigner, books, outbox, due, begun, .. } = self;
        PeerMembership { plan, phase, pulse, roster, assigner, books, outbox, due, begun }
    }

    /// Returns the part of the supervisor that watches whether timestamps agree.
    pub(crate) fn verdicts(&mut self) -> Verdicts<'_> {
        Verdicts { core: self }
    }

    /// Returns true if the run has taken triggers, or could.
    pub fn has_begun(&self) -> bool {
        self.books.is_started()
    }

    /// Returns the message that tells the peers of the run about its beginning.
    pub fn begun(&self) -> Begin {
        begin_of(&self.plan, self.begun.as_ref())
    }

    /// Handles a message from a registered peer (docs/reference/protocol.md CTRL-4).
    pub fn handle_message(&mut self, peer: Peer, message: Control, now: Instant) {
        let Some(seat) = self.membership().heard(peer, now) else { return };
        let Some(message) = message.message else {
            return self.expel(peer, "it sent a control message without content, or of a later version", now);
        };
        match (seat, message) {
            (_, Message::Heartbeat(heartbeat)) => self.membership().handle_heartbeat(seat, &heartbeat, now),
            (Seat::Builder(index), Message::Completions(completions)) => {
                match self.dispatch().settle(index, completions, now) {
                    Ok(true) => self.prolong_drain(now),
                    Ok(false) => {}
                    Err(reason) => self.expel(peer, &reason, now),
                }
            }
            // The builder has opened slots for these events, so the sources may now announce
            // fragments to it (docs/reference/protocol.md RUN-22).
            (Seat::Builder(index), Message::Accepted(accepted)) => {
                if self.assigner.accept(index, accepted.answer) {
                    self.membership().tell_sources();
                }
            }
            (Seat::Builder(_), Message::Alignment(told)) => self.verdicts().handle_doubts(peer, &told, now),
            (Seat::Source(_), Message::Readings(told)) => self.verdicts().handle_readings(peer, &told, now),
            (Seat::Source(index), Message::Ready(_)) => self.handle_ready(index, now),
            (Seat::Source(index), Message::Readout(told)) => self.handle_readout(index, told, now),
            (_, Message::Begun(begun)) => self.handle_begun(peer, seat, &begun, now),
            (_, Message::Leaving(leaving)) => self.handle_leaving(peer, seat, &leaving.reason, now),
            (_, Message::Triggers(_)) if !self.intake.is_external() => {
                self.expel(peer, NOT_EXTERNAL, now);
            }
            (_, Message::Triggers(triggers)) => {
                self.trigger(triggers.count, now);
            }
            // A held run has not begun: a peer that asks to stop leaves alone.
            (_, Message::Stop(_)) if self.plan.hold => self.membership().let_go(peer, seat),
            (_, Message::Stop(stop)) => {
                self.stop(&format!("{}: {}", self.plan.named(peer), short(&stop.cause)), now)
            }
            (_, Message::Report(report)) => self.handle_report(peer, seat, report, now),
            (_, other) => {
                self.expel(peer, &not_its_to_send(&other, peer), now);
            }
        }
    }

    /// Compares a reading of the wall clock at `now` with the run's scale of UTC, which begins with
    /// the last reading before the start. The driver reads the clock about once a second.
    pub fn handle_wall_clock(&mut self, reading: WallClock, now: Instant) {
        let begin = self.begun.as_ref().filter(|_| self.books.is_started());
        if let Some(remark) = self.wall.compare(reading, now, begin) {
            tracing::warn!(run = %self.plan.run, "run {}: {remark}", self.plan.run);
            self.books.remark(remark, &mut self.outbox, now);
        }
    }

    /// Takes `count` external triggers that happened at `now`. Returns the number of triggers
    /// taken, which is 0 unless the run is running and its trigger is external.
    /// Requirements: docs/reference/protocol.md RUN-16.
    pub fn trigger(&mut self, count: u64, now: Instant) -> u64 {
        if !counts_triggers(self.phase, &self.books) || !self.intake.is_external() {
            return 0;
        }
        let accepted = self.intake.add(count);
        let decided = self.deciding(now).take_pending(now);
        self.drain_if_over(decided, now);
        accepted
    }

    /// Handles the passage of time. May be called at any time, and must be called at the time that
    /// [`next_timeout`](Self::next_timeout) returns.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.pulse.is_due(now) && self.phase != Phase::Ended {
            self.beat(now);
        }
        match self.phase {
            Phase::Gathering { until } if self.is_over(until, now) && !self.plan.hold => {
                self.stop_gathering(now)
            }
            Phase::Beginning { until } if self.is_over(until, now) => {
                let waited = Beginning { core: self }.stop_waiting(now);
                Beginning { core: self }.settle(waited, now);
            }
            Phase::Running { until } => {
                let taken = self.deciding(now).take_due(now, until);
                self.drain_if_over(taken, now);
                // Even a late call takes all triggers from before the end of the run's duration.
                let due = self.own_trigger_due();
                let is_over = |until| now >= until && due.is_none_or(|due| due > until);
                if until.is_some_and(is_over) {
                    self.stop_running("the run's duration is over", now);
                }
            }
            Phase::Recovering { until } if self.is_over(until, now) => self.go_on(now),
            Phase::Recovering { .. } => {
                let taken = self.deciding(now).take_due(now, None);
                self.drain_if_over(taken, now);
            }
            Phase::Draining { until, .. } if self.is_over(until, now) => self.give_outstanding_up(now),
            Phase::Reporting { until } if self.is_over(until, now) => self.close_ledger(now),
            _ => {}
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Gathering { .. } if self.plan.hold => None,
            Phase::Gathering { until }
            | Phase::Beginning { until }
            | Phase::Draining { until, .. }
            | Phase::Reporting { until } => self.running(until),
            Phase::Recovering { until } => earlier(self.running(until), next_decision(self)),
            Phase::Running { until } => earlier(until, next_decision(self)),
            Phase::Ended => return None,
        };
        let inquiry = self.watch.as_ref().and_then(|watch| watch.next_timeout());
        earlier(earlier(phase, inquiry), Some(self.pulse.next()))
    }

    /// Returns the time of the next trigger of the run's own clock, if the run takes triggers.
    fn own_trigger_due(&self) -> Option<Instant> {
        self.intake.next_due().filter(|_| counts_triggers(self.phase, &self.books))
    }

    /// Returns the time limit; `None` while a stalled journal suspends all time limits.
    fn running(&self, limit: Instant) -> Option<Instant> {
        Some(limit).filter(|_| !self.outbox.is_stalled())
    }

    /// Returns true if the time limit has passed and is not suspended.
    fn is_over(&self, limit: Instant, now: Instant) -> bool {
        self.running(limit).is_some_and(|limit| now >= limit)
    }

    /// Returns the next action. After inputs that share one `now`, call it until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if let Some(output) = self.outbox.pop() {
            return Some(output);
        }
        if self.deciding(now).reassign(now) {
            self.prolong_drain(now);
        }
        let taken = self.dispatch().assign_freely(now);
        self.drain_if_over(taken, now);
        self.dispatch().answer_completions();
        self.verdicts().advance(now);
        self.membership().dismiss_builders();
        if self.phase.is_draining() && self.assigner.is_idle() {
            self.finish(now);
        }
        self.outbox.close_batches_if_written();
        self.outbox.pop()
    }

    /// Takes no more triggers until [`resume`](Self::resume). External triggers are inhibited in
    /// the meantime; the run's own clock generates none.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the run is not running, or is paused already.
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

    /// Takes triggers again after [`pause`](Self::pause).
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the run is not running, or not paused, or if too few sources of a
    /// group take part.
    pub fn resume(&mut self, now: Instant) -> Result<(), ChangeError> {
        if !self.phase.is_running() {
            return Err(ChangeError::NotRunning);
        }
        least_numbers::check_resume(self)?;
        if !self.intake.is_paused() {
            return Err(ChangeError::NotPaused);
        }
        self.set_paused(false, now);
        self.intake.restart(self.books.triggered(), now);
        Ok(())
    }

    fn set_paused(&mut self, paused: bool, now: Instant) {
        tracing::info!(paused, "run {} is {}", self.plan.run, if paused { PAUSED } else { RESUMED });
        self.intake.set_paused(paused);
        self.outbox.journal(What::Paused(paused), now);
        self.pulse.hasten(now);
    }

    /// Sets the mean rate of the run's own trigger from now on, also of a held run.
    ///
    /// # Errors
    /// Returns [`ChangeError::NoRate`] if this kind of trigger has no rate.
    pub fn set_rate(&mut self, rate: Frequency, now: Instant) -> Result<(), ChangeError> {
        if !self.intake.set_rate(rate) {
            return Err(ChangeError::NoRate);
        }
        tracing::info!(run = %self.plan.run, %rate, "run {}: the trigger rate is now {rate}, as an operator asked: nothing needs to be done", self.plan.run);
        self.outbox.journal(What::Rate(rate.hertz()), now);
        self.intake.restart(self.books.triggered(), now);
        Ok(())
    }

    /// Notes that the journal cannot be written at present. Until
    /// [`journal_goes_on`](Self::journal_goes_on), no decision can be sent, so triggers are
    /// inhibited; and time limits are suspended, because peers cannot be told of their end.
    pub fn stall_journal(&mut self, now: Instant) {
        self.outbox.stall(now);
    }

    /// Notes that the journal can be written again, or is no longer kept.
    pub fn journal_goes_on(&mut self, now: Instant) {
        let Some(time) = self.outbox.go_on(now) else { return };
        self.phase.put_off(time);
        self.pulse.put_off(time);
        self.roster.put_off_joining(time);
    }

    /// Stops keeping the journal: no further entry is written, and the report states `problem`.
    pub fn abandon_journal(&mut self, problem: String) {
        self.outbox.abandon_journal();
        self.books.problem(problem, &mut self.outbox, Instant::ZERO);
    }

    /// Returns entries that describe the present state and replace all earlier ones in the journal.
    /// Call `snapshot` after [`poll`](Self::poll) has returned `None`.
    pub fn snapshot(&self, now: Instant) -> Vec<Entry> {
        snapshot::entries(self, now)
    }

    /// Returns a short summary of the run, which costs little to compute.
    pub fn progress(&self) -> Progress {
        let has_readouts = beginning::without_front_ends(&self.roster).is_empty();
        let ready = self.roster.is_ready() && too_few_to_begin(&self.plan, &self.roster).is_none();
        Progress { run: beginning::provisional_number(self), has_readouts, ready, ..Progress::of(self) }
    }

    /// Returns the state of all peers; [`progress`](Self::progress) costs less to compute.
    pub fn survey(&self, now: Instant) -> Survey {
        let run = beginning::provisional_number(self).number();
        Survey { run, groups: least_numbers::survey(self, now), ..survey::survey(self, now) }
    }

    /// Returns the problems so far, without the losses, and the episodes of wrong timestamps.
    pub fn found(&self) -> (&[String], &[Episode]) {
        (self.books.findings().said().0, self.books.findings().episodes())
    }

    /// Returns all peers that may take part: sources in the order of the roster, then builders.
    pub fn peers(&self) -> Vec<Peer> {
        self.roster.peers()
    }

    /// Returns the highest event id for which there is a decision; 0 if there is none yet.
    pub fn decided(&self) -> EventId {
        EventId::new(self.outbox.decided())
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        self.roster.invariants();
        self.assigner.invariants(&self.roster);
        self.books.invariants();
        self.outbox.invariants();
        least_numbers::invariants(self);
        dispatch::invariants(self);
    }

    /// Records a problem because of which the run cannot begin or continue.
    fn failure(&mut self, problem: String, now: Instant) {
        self.books.failure(problem, &mut self.outbox, now);
    }
}
