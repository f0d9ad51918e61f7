//! [`SupervisorCore`]: takes triggers, assigns events, learns what became of them, and closes the ledger.
//!
//! A run goes through these states: peers register and connect their lanes (`Configured`), triggers come (`Running`),
//! no more triggers come and what is outstanding is settled (`Stopping`), peers report, and the ledger is closed (`Ended`).

mod plan;
mod words;
mod outstanding;
mod slots;
mod live;
mod seats;
mod dead_time;
mod journal;
mod outbox;
mod incarnation;
mod registration;
mod holdings;
mod reassigning;
mod stalling;
mod steering;
mod joining;
mod assigning;
mod liveness;
mod ending;
mod recall;
mod totals;
mod recovery;
mod summary;
mod survey;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod fault_model;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::{BuilderId, Epoch, EventId, Peer, SourceId},
    ledger::{EventCounts, RunReport},
    set::SourceSet,
    time::{Instant, earlier},
    trigger::{Trigger, TriggerKind},
    undo,
    units::Frequency,
    wire::{
        control::{Control, control::Message},
        journal::Entry,
    },
};

pub use live::{BuilderLive, LatencySurvey, SourceLive};
pub use plan::{AssignmentPolicy, PlanError, RunPlan, SourceLoss};
pub use recovery::{RecoverError, Recovery, unfinished};
pub use registration::NotReady;
pub use steering::ChangeError;
pub use survey::{BuilderSurvey, Presence, SourceSurvey, Survey};

use dead_time::DeadTime;
use ending::Findings;
use liveness::Pulse;
use outbox::Outbox;
use outstanding::{HOMELESS, Outstanding};
use seats::{BuilderSeat, SourceSeat};
use slots::Slots;
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
    seed: u64,
    phase: Phase,
    sources: Vec<SourceSeat>,
    builders: Vec<BuilderSeat>,
    /// Who is connected and sends.
    up: SourceSet,
    /// Who is away, and events wait for it.
    awaited: SourceSet,
    roster_version: u32,
    /// By version, whose fragments events have; as long as an event of that version is outstanding.
    expected: BTreeMap<u32, SourceSet>,
    trigger: Trigger,
    /// External triggers that are not decided yet.
    pending: u64,
    /// Time of the last decision that inhibited.
    inhibited_at: Option<Instant>,
    slots: Slots,
    outstanding: Outstanding,
    /// Outstanding events without a builder.
    homeless: BTreeSet<u64>,
    /// The last answer that a builder was asked for.
    answer: u32,
    outbox: Outbox,
    /// Of assignments from now on; at least the plan's.
    epoch: Epoch,
    pulse: Pulse,
    dead_time: DeadTime,
    paused: bool,
    /// Since when the journal takes nothing.
    stalled: Option<Instant>,
    /// The trigger's rate, if somebody has set it.
    rate: Option<Frequency>,
    tally: Tally,
    findings: Findings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gathering {
        until: Instant,
    },
    Running {
        until: Option<Instant>,
    },
    /// Goes on with a run of before, when its peers are back.
    Recovering {
        until: Instant,
    },
    Draining {
        until: Instant,
    },
    Reporting {
        until: Instant,
    },
    Ended,
}

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// Everybody who is registered and connected.
    Everyone,
    /// These sources, by their position in the roster.
    Sources(SourceSet),
    /// One source.
    Source(SourceId),
    /// One builder.
    Builder(BuilderId),
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is rare, never kept, and boxed would cost an allocation each"
)]
pub enum Output {
    /// Send a message. Messages to one peer keep their order.
    Send {
        /// To whom; a peer without a connection misses it.
        to: Recipients,
        /// What.
        message: Control,
    },
    /// Close the peer's connection: the machine has taken leave of it already.
    Drop {
        /// Whose connection.
        peer: Peer,
        /// For the log.
        reason: String,
    },
    /// Write this down before anything that comes later is sent; only where the plan wants a journal.
    Journal(Box<Entry>),
    /// The ledger is closed. Flush all connections, and end.
    Ended(Box<RunReport>),
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Waiting for peers to register and to connect their lanes.
    #[default]
    Configured,
    /// Triggers come.
    Running,
    /// Triggers are not taken, everything else goes on.
    Paused,
    /// The supervisor goes on with a run of before, and waits for its peers.
    Recovering,
    /// No more triggers; what is outstanding is settled.
    Stopping,
    /// The ledger is closed.
    Ended,
}

/// A cheap look at the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Where the run stands.
    pub state: RunState,
    /// Since the run began.
    pub events: EventCounts,
    /// Assigned and not settled.
    pub outstanding: u64,
    /// Connected sources whose fragments are expected.
    pub sources_up: u32,
    /// Builders that get events.
    pub builders_up: u32,
    /// All peers are registered and all lanes connected.
    pub ready: bool,
}

/// The run in numbers, as the supervisor itself counts it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    triggered: u64,
    inhibited: u64,
    complete: u64,
    incomplete: u64,
    rejected: u64,
    lost: u64,
    started: Option<Instant>,
    first_trigger: Option<Instant>,
    last_trigger_possible: Option<Instant>,
    last_completion: Option<Instant>,
    drained: Option<Instant>,
    /// When the ledger is closed.
    exit_code: Option<u8>,
}

impl SupervisorCore {
    /// A supervisor that waits for its peers. The seed fixes random triggers.
    ///
    /// # Errors
    /// [`PlanError`]: the plan cannot be carried out.
    pub fn new(plan: RunPlan, seed: u64, now: Instant) -> Result<Self, PlanError> {
        plan.check()?;
        let mut core = Self::waiting(plan, seed, now);
        core.journal_beginning(now);
        Ok(core)
    }

    fn waiting(plan: RunPlan, seed: u64, now: Instant) -> Self {
        let sources = plan.sources.iter().map(|id| SourceSeat::new(*id)).collect();
        let builders = plan.builders.iter().map(|id| BuilderSeat::new(*id)).collect();
        Self {
            seed,
            phase: Phase::Gathering { until: now + plan.start_timeout },
            sources,
            builders,
            up: SourceSet::default(),
            awaited: SourceSet::default(),
            roster_version: 0,
            expected: BTreeMap::new(),
            trigger: Trigger::new(plan.trigger, seed, now),
            pending: 0,
            inhibited_at: None,
            slots: Slots::new(plan.builders.len(), plan.policy, plan.run_length)
                .in_batches(plan.slots_at_a_time()),
            outstanding: Outstanding::new(),
            homeless: BTreeSet::new(),
            answer: 0,
            outbox: Outbox::new(&plan.builders, plan.journal),
            epoch: plan.epoch,
            pulse: Pulse::new(now, plan.heartbeat),
            dead_time: DeadTime::default(),
            paused: false,
            stalled: None,
            rate: None,
            tally: Tally::default(),
            findings: Findings::default(),
            plan,
        }
    }

    /// A message from a registered peer (docs/protocol.md CTRL-4).
    pub fn handle_message(&mut self, peer: Peer, message: Control, now: Instant) {
        if !self.heard(peer, now) {
            return;
        }
        let Some(message) = message.message else {
            return self.expel(peer, "it sent a control message without content, or of a later version", now);
        };
        match (peer, message) {
            (_, Message::Heartbeat(heartbeat)) => self.handle_heartbeat(peer, &heartbeat, now),
            (Peer::Builder(id), Message::Completions(completions)) => {
                self.handle_completions(id, completions, now);
            }
            (Peer::Builder(id), Message::Accepted(accepted)) => self.handle_accepted(id, accepted.answer),
            (Peer::Source(id), Message::Ready(_)) => self.handle_ready(id, now),
            (_, Message::Triggers(_)) if self.plan.trigger != TriggerKind::External => {
                self.expel(peer, "it sent triggers, and this run's trigger is not external", now);
            }
            (_, Message::Triggers(triggers)) => {
                self.trigger(triggers.count, now);
            }
            // Nobody has begun this run: who does not want it leaves it to the others.
            (_, Message::Stop(_)) if self.plan.hold => self.let_go(peer),
            (_, Message::Stop(stop)) => self.stop(&format!("{peer}: {}", short(&stop.cause)), now),
            (_, Message::Report(report)) => self.handle_report(peer, report, now),
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
                    self.settle_pending(now);
                    if self.is_running() {
                        self.begin_draining("its duration is over", now);
                    }
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

    /// The next thing to do. Call it until `None` after inputs that share one `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if let Some(output) = self.outbox.pop() {
            return Some(output);
        }
        self.place_homeless(now);
        self.assign_freely(now);
        self.answer_completions();
        self.dismiss_builders();
        self.drain_if_done(now);
        // What is decided while nothing is written down goes into as few entries as possible.
        if self.stalled.is_none() {
            self.close_batches();
        }
        self.outbox.pop()
    }

    /// No more triggers; settle what is outstanding, and end.
    pub fn stop(&mut self, cause: &str, now: Instant) {
        match self.phase {
            Phase::Gathering { .. } => {
                self.problem(format!("stopped before it began: {cause}"), now);
                self.begin_draining(cause, now);
            }
            Phase::Running { .. } => {
                self.settle_pending(now);
                if self.is_running() {
                    self.begin_draining(cause, now);
                }
            }
            // First those that do not come back are replaced, which may take longer than a drain.
            Phase::Recovering { .. } if undo::is_undone(undo::Fix::F1e823b) => {
                self.begin_draining(cause, now)
            }
            Phase::Recovering { .. } => self.stop_when_recovered(cause, now),
            Phase::Draining { .. } | Phase::Reporting { .. } | Phase::Ended => {}
        }
    }

    /// A cheap look at the run.
    pub fn progress(&self) -> Progress {
        Progress {
            state: match self.phase {
                Phase::Gathering { .. } => RunState::Configured,
                Phase::Running { .. } if self.paused => RunState::Paused,
                Phase::Running { .. } => RunState::Running,
                Phase::Recovering { .. } => RunState::Recovering,
                Phase::Draining { .. } | Phase::Reporting { .. } => RunState::Stopping,
                Phase::Ended => RunState::Ended,
            },
            events: self.event_counts(),
            outstanding: self.outstanding.len() as u64,
            sources_up: self.up.len() as u32,
            builders_up: self.builders.iter().filter(|seat| seat.is_active()).count() as u32,
            ready: self.is_ready(),
        }
    }

    /// Everybody who may take part: sources in the order of the roster, then builders.
    pub fn peers(&self) -> Vec<Peer> {
        let sources = self.sources.iter().map(|seat| Peer::Source(seat.id));
        sources.chain(self.builders.iter().map(|seat| Peer::Builder(seat.id))).collect()
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
        self.slots.invariants();
        self.outstanding.invariants();
        let (open, outstanding) = (self.event_counts().open(), self.outstanding.len() as u64);
        assert_eq!(open, Some(outstanding), "every trigger is inhibited, settled or outstanding");
        let mut homeless = 0;
        for place in self.outstanding.iter() {
            let builder = usize::from(place.builder);
            assert!(place.builder == HOMELESS || builder < self.builders.len(), "{place:?}");
            assert!(self.expected.contains_key(&place.version), "{place:?}");
            homeless += usize::from(place.builder == HOMELESS && self.homeless.contains(&place.event));
        }
        assert_eq!(homeless, self.homeless.len(), "events without a builder are outstanding");
    }

    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Whether events are assigned or settled, or will be.
    fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Recovering { .. } | Phase::Draining { .. })
    }

    fn is_under_way_or_reporting(&self) -> bool {
        self.is_under_way() || matches!(self.phase, Phase::Reporting { .. })
    }

    /// Whether builders may be given events: new ones, or those of a builder that is gone.
    fn is_settling(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Draining { .. })
    }

    fn close_batches(&mut self) {
        let blames = &mut self.dead_time;
        self.outbox.close_batches(self.up, self.roster_version, self.epoch, || blames.take_fresh());
    }

    /// Whose fragments the events of a roster version have.
    fn expected_by(&self, version: u32) -> SourceSet {
        self.expected.get(&version).copied().unwrap_or_default()
    }

    fn source_ids(&self, set: SourceSet) -> Vec<u32> {
        set.iter().map(|index| self.sources[index].id.number().into()).collect()
    }

    /// Sends a message behind all decisions so far.
    fn send(&mut self, to: Recipients, message: Message) {
        self.close_batches();
        self.outbox.send(to, message);
    }

    /// Sends what depends on nothing that was decided, and may overtake it.
    fn send_ahead(&mut self, to: Recipients, message: Message) {
        if self.stalled.is_none() {
            self.close_batches();
        }
        self.outbox.send_ahead(to, message);
    }

    fn event_counts(&self) -> EventCounts {
        let tally = &self.tally;
        EventCounts {
            triggered: tally.triggered,
            inhibited: tally.inhibited,
            assigned: tally.triggered - tally.inhibited,
            complete: tally.complete,
            incomplete: tally.incomplete,
            rejected: tally.rejected,
            lost: tally.lost,
            written: 0,
        }
    }
}
