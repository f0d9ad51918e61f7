//! [`RunPlan`]: what a run is to be.

use core::time::Duration;

use crate::{
    id::{BuilderId, Epoch, RunNumber, SourceId},
    set::MAX_SOURCES,
    trigger::TriggerKind,
    units::Frequency,
    wire::control::{MAX_BUILDERS, MAX_OUTSTANDING, MAX_SLOTS, RunParameters, Welcome},
};

/// Which builder gets the next event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssignmentPolicy {
    /// One after the other, skipping those without a free slot.
    #[default]
    RoundRobin,
    /// The one with the most free slots.
    LeastLoaded,
}

/// What becomes of events when a source goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceLoss {
    /// They go on without it, incomplete where they miss it.
    #[default]
    Incomplete,
    /// They wait until it is back.
    Wait,
}

/// What a run is to be: who takes part, what triggers it, how long it goes on and how long it waits.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// The run number for people.
    pub run: RunNumber,
    /// This life of the run; fresh for every start of a supervisor.
    pub epoch: Epoch,
    /// Equal on hosts that share the supervisor's clock; empty if unknown.
    pub boot_id: String,
    /// The sources that must register; ascending, at most [`MAX_SOURCES`].
    pub sources: Vec<SourceId>,
    /// The builders that must register; ascending.
    pub builders: Vec<BuilderId>,
    /// What makes events happen.
    pub trigger: TriggerKind,
    /// Which builder gets the next event.
    pub policy: AssignmentPolicy,
    /// So many consecutive events go to one builder, as long as it has slots.
    pub run_length: u32,
    /// Events outstanding per builder.
    pub slots: u32,
    /// How long builders wait for fragments that are not announced.
    pub deadline: Duration,
    /// How long sources keep fragments without a decision.
    pub orphan_timeout: Duration,
    /// How often both sides of a control connection speak at least.
    pub heartbeat: Duration,
    /// How often sources and builders report so far; zero: only at the end.
    pub report_period: Duration,
    /// After so much silence a source is down and a builder gets no more events.
    pub down_after: Duration,
    /// After so long without any source or any builder the run fails.
    pub give_up_after: Duration,
    /// What becomes of events when a source goes away.
    pub on_source_loss: SourceLoss,
    /// A builder gives events to its sink only so long after a heartbeat of its own that was answered; after two leases of
    /// silence its events are given to others.
    pub lease: Duration,
    /// How long peers that have lost the supervisor try to reach it.
    pub patience: Duration,
    /// Whether a journal is kept: what it needs comes out as [`Output::Journal`](super::Output::Journal).
    pub journal: bool,
    /// How long all peers together may take to register and connect their lanes.
    pub start_timeout: Duration,
    /// At the end of the run, how long beyond the deadline outstanding events are waited for.
    pub drain_grace: Duration,
    /// At the end of the run, how long peers may take for their final report.
    pub report_timeout: Duration,
    /// The run ends when so many events are assigned.
    pub events: Option<u64>,
    /// The run ends so long after its first trigger could come.
    pub duration: Option<Duration>,
    /// When all peers are ready, the run waits for [`SupervisorCore::begin`](super::SupervisorCore::begin), however long.
    pub hold: bool,
}

/// Why a plan cannot be carried out: the configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An event builder without sources builds nothing.
    #[error("the run has no source; configure at least one")]
    NoSource,
    /// There must be somebody to build.
    #[error("the run has no builder; configure at least one")]
    NoBuilder,
    /// Per-event sets have a fixed size.
    #[error("the run has {count} sources; at most {MAX_SOURCES} are possible")]
    TooManySources {
        /// How many were configured.
        count: usize,
    },
    /// Sources hold a lane to each builder, in sets of a fixed size.
    #[error("the run has {count} builders; at most {MAX_BUILDERS} are possible")]
    TooManyBuilders {
        /// How many were configured.
        count: usize,
    },
    /// Builders set all slots up before the first event.
    #[error("`slots` is {slots}; at most {MAX_SLOTS} are possible")]
    TooManySlots {
        /// How many were configured.
        slots: u32,
    },
    /// Sources are told of all outstanding events when one of their builders is lost.
    #[error(
        "{slots} slots at each of {builders} builders may hold more than {MAX_OUTSTANDING} events; use fewer `slots` or builders"
    )]
    TooManyOutstanding {
        /// How many slots were configured.
        slots: u32,
        /// And how many builders.
        builders: usize,
    },
    /// Ids identify.
    #[error("the ids of the {role}s must be ascending and different; {id} is not")]
    Order {
        /// Source or builder.
        role: &'static str,
        /// The first id out of order.
        id: u16,
    },
    /// No slot, no event.
    #[error("`{key}` must be above zero")]
    Zero {
        /// The name of the value.
        key: &'static str,
    },
}

impl RunPlan {
    /// A plan with the default policy and times: as fast as possible, until it is stopped.
    pub fn new(run: RunNumber, epoch: Epoch, sources: Vec<SourceId>, builders: Vec<BuilderId>) -> Self {
        Self {
            run,
            epoch,
            boot_id: String::new(),
            sources,
            builders,
            trigger: TriggerKind::AsFastAsPossible,
            policy: AssignmentPolicy::RoundRobin,
            run_length: 1,
            slots: 16,
            deadline: Duration::from_secs(2),
            orphan_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_millis(250),
            report_period: Duration::from_secs(1),
            down_after: Duration::from_secs(1),
            give_up_after: Duration::from_secs(10),
            on_source_loss: SourceLoss::Incomplete,
            lease: Duration::from_secs(1),
            patience: Duration::from_secs(90),
            journal: false,
            start_timeout: Duration::from_secs(30),
            drain_grace: Duration::from_secs(5),
            report_timeout: Duration::from_secs(5),
            events: None,
            duration: None,
            hold: false,
        }
    }

    /// Whether it can be carried out.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.sources.is_empty() {
            return Err(PlanError::NoSource);
        }
        if self.builders.is_empty() {
            return Err(PlanError::NoBuilder);
        }
        if self.sources.len() > MAX_SOURCES {
            return Err(PlanError::TooManySources { count: self.sources.len() });
        }
        if self.builders.len() > MAX_BUILDERS {
            return Err(PlanError::TooManyBuilders { count: self.builders.len() });
        }
        if self.slots > MAX_SLOTS {
            return Err(PlanError::TooManySlots { slots: self.slots });
        }
        let (slots, builders) = (self.slots, self.builders.len());
        if !self.fits(builders) {
            return Err(PlanError::TooManyOutstanding { slots, builders });
        }
        if let Some([_, id]) = self.sources.array_windows().find(|[a, b]| a >= b) {
            return Err(PlanError::Order { role: "source", id: id.number() });
        }
        if let Some([_, id]) = self.builders.array_windows().find(|[a, b]| a >= b) {
            return Err(PlanError::Order { role: "builder", id: id.number() });
        }
        let zeros = [
            ("slots", self.slots == 0),
            ("run_length", self.run_length == 0),
            ("heartbeat", self.heartbeat.is_zero()),
            ("down_after", self.down_after.is_zero()),
            ("lease", self.lease.is_zero()),
        ];
        zeros.into_iter().find(|(_, zero)| *zero).map_or(Ok(()), |(key, _)| Err(PlanError::Zero { key }))
    }
}

/// A quarter of a builder's slots: what stays is enough to keep its lanes busy meanwhile.
const BATCHES_IN_SLOTS: u32 = 2;

impl RunPlan {
    /// Returns how long a builder may still give events to its sink after it was heard, and as long again.
    pub(super) fn two_leases(&self) -> Duration {
        self.lease.saturating_mul(2)
    }

    /// Returns how long the run waits while nobody of a kind is left: longer where it may be the network alone that is gone.
    pub(super) fn absence_limit(&self, silent: bool) -> Duration {
        if silent { self.patience.max(self.give_up_after) } else { self.give_up_after }
    }

    /// Returns how long outstanding events are waited for at the end of the run.
    pub(super) fn drain_time(&self) -> Duration {
        self.deadline + self.drain_grace
    }

    /// Returns true if a host has the supervisor's clock.
    pub(super) fn shares_clock(&self, boot_id: &str) -> bool {
        !boot_id.is_empty() && boot_id == self.boot_id
    }

    /// Returns what a peer is told when it registers.
    pub(super) fn welcome(&self, incarnation: u32, decided: u64, shared_clock: bool) -> Welcome {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let parameters = RunParameters {
            slots: self.slots,
            deadline_ns: nanos(self.deadline),
            orphan_timeout_ns: nanos(self.orphan_timeout),
            heartbeat_ns: nanos(self.heartbeat),
            decided,
            shared_clock,
            lease_ns: nanos(self.lease),
            patience_ns: nanos(self.patience),
            report_ns: nanos(self.report_period),
        };
        Welcome {
            epoch: self.epoch.number(),
            run: self.run.number(),
            parameters: Some(parameters),
            incarnation,
            ..Welcome::default()
        }
    }

    /// Whether the slots of so many builders hold no more events than sources can be told of.
    pub(super) const fn fits(&self, builders: usize) -> bool {
        builders.saturating_mul(self.slots as usize) <= MAX_OUTSTANDING
    }

    /// How many slots of a builder become free at once. Where it is free slots that trigger, nobody waits for one: so
    /// decisions, announcements and all that they wake up come once for a batch of events, not once for each.
    pub(super) fn slots_at_a_time(&self) -> u32 {
        match self.trigger {
            TriggerKind::AsFastAsPossible => (self.slots / BATCHES_IN_SLOTS).max(1),
            _ => 1,
        }
    }
}

/// The same trigger at another rate; `None` where it has none.
pub(super) fn with_rate(trigger: TriggerKind, rate: Frequency) -> Option<TriggerKind> {
    match trigger {
        TriggerKind::Periodic { .. } => Some(TriggerKind::Periodic { rate }),
        TriggerKind::Poisson { .. } => Some(TriggerKind::Poisson { rate }),
        TriggerKind::Gaussian { sigma, .. } => Some(TriggerKind::Gaussian { rate, sigma }),
        TriggerKind::Burst { count, .. } => Some(TriggerKind::Burst { rate, count }),
        TriggerKind::AsFastAsPossible | TriggerKind::External => None,
    }
}
