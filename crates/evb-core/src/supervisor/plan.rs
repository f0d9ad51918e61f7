//! [`RunPlan`]: the plan of a run.

use core::time::Duration;

use crate::{
    id::{BuilderId, Epoch, RunNumber, SourceId},
    set::MAX_SOURCES,
    trigger::TriggerKind,
    units::{Bytes, Frequency},
    wire::control::{MAX_BUILDERS, MAX_OUTSTANDING, MAX_SLOTS, RunParameters, Welcome},
};

/// The choice of the builder that gets the next event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssignmentPolicy {
    /// Builders in turn, skipping those without a free slot.
    #[default]
    RoundRobin,
    /// The builder with the most free slots.
    LeastLoaded,
}

/// The treatment of events while a source is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceLoss {
    /// Events are built without the source, and are incomplete if they lack its fragments.
    #[default]
    Incomplete,
    /// Events wait until the source is back.
    Wait,
}

/// The plan of a run: its peers, its trigger, its length, and its time limits.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// The run number for operators.
    pub run: RunNumber,
    /// The run's epoch, which is new at every start of a supervisor.
    pub epoch: Epoch,
    /// The supervisor's boot id, which is equal on hosts that share its clock; empty if unknown.
    pub boot_id: String,
    /// The sources that must register; ascending, at most [`MAX_SOURCES`].
    pub sources: Vec<SourceId>,
    /// The builders that must register; ascending.
    pub builders: Vec<BuilderId>,
    /// The kind of trigger.
    pub trigger: TriggerKind,
    /// The choice of the builder that gets the next event.
    pub policy: AssignmentPolicy,
    /// Number of consecutive events that go to one builder while it has slots.
    pub run_length: u32,
    /// Events outstanding per builder. The default of 16 suits events of unknown size; where the
    /// size is known, [`Self::usual_slots`] has the number that keeps a builder busy.
    pub slots: u32,
    /// Time that builders wait for fragments that are not announced.
    pub deadline: Duration,
    /// Time that sources keep fragments without a decision.
    pub orphan_timeout: Duration,
    /// Longest time between two messages of either side of a control connection.
    pub heartbeat: Duration,
    /// Time between interim reports of sources and builders; zero for none.
    pub report_period: Duration,
    /// Silence after which a source is down and a builder gets no more events.
    pub down_after: Duration,
    /// Time without any source or any builder after which the run fails.
    pub give_up_after: Duration,
    /// The treatment of events while a source is away.
    pub on_source_loss: SourceLoss,
    /// Validity of a builder's lease. A builder gives events to its sink only for this long after a
    /// heartbeat of its own that was answered; after two leases of silence, its events are given to
    /// others.
    pub lease: Duration,
    /// Time for which peers that have lost the supervisor try to reach it.
    pub patience: Duration,
    /// True if a journal is kept; its entries come out as
    /// [`Output::Journal`](super::Output::Journal).
    pub journal: bool,
    /// Time that all peers together may take to register and connect their lanes.
    pub start_timeout: Duration,
    /// Time beyond the deadline for which the run waits for outstanding events at its end.
    pub drain_grace: Duration,
    /// Time that peers may take for their final report at the end of the run.
    pub report_timeout: Duration,
    /// Number of assigned events after which the run ends.
    pub events: Option<u64>,
    /// Time from the first possible trigger after which the run ends.
    pub duration: Option<Duration>,
    /// True if the run waits for [`SupervisorCore::begin`](super::SupervisorCore::begin), without a
    /// time limit, when all peers are ready.
    pub hold: bool,
}

/// The reason why a plan cannot be carried out: an error in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The run has no source.
    #[error("the run has no source; configure at least one")]
    NoSource,
    /// The run has no builder.
    #[error("the run has no builder; configure at least one")]
    NoBuilder,
    /// The run has too many sources: per-event sets have a fixed size.
    #[error("the run has {count} sources; at most {MAX_SOURCES} are possible")]
    TooManySources {
        /// Number of configured sources.
        count: usize,
    },
    /// The run has too many builders: sources hold a lane to each builder, in sets of a fixed size.
    #[error("the run has {count} builders; at most {MAX_BUILDERS} are possible")]
    TooManyBuilders {
        /// Number of configured builders.
        count: usize,
    },
    /// The builders have too many slots: they set up all slots before the first event.
    #[error("`slots` is {slots}; at most {MAX_SLOTS} are possible")]
    TooManySlots {
        /// Number of configured slots.
        slots: u32,
    },
    /// All slots together are too many: sources are told of all outstanding events when a builder
    /// is lost.
    #[error(
        "{slots} slots at each of {builders} builders may hold more than {MAX_OUTSTANDING} events; use fewer `slots` or builders"
    )]
    TooManyOutstanding {
        /// Number of configured slots.
        slots: u32,
        /// Number of configured builders.
        builders: usize,
    },
    /// The ids of a role are not ascending, or not unique.
    #[error("the ids of the {role}s must be ascending and different; {id} is not")]
    Order {
        /// The role: source or builder.
        role: &'static str,
        /// The first id out of order.
        id: u16,
    },
    /// A value must be above zero.
    #[error("`{key}` must be above zero")]
    Zero {
        /// The name of the value.
        key: &'static str,
    },
}

impl RunPlan {
    /// Creates a plan with the default policy and times: as fast as possible, until it is stopped.
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

    /// Returns the number of slots that keeps a builder busy when triggers come as fast as
    /// possible: events of the size `event` that fill the bytes `under_way` towards it, one that
    /// arrives, and one at the sink. Larger events need fewer slots, and with fewer slots more of
    /// the bytes stay in processor caches.
    ///
    /// ```
    /// use evb_core::{supervisor::RunPlan, units::Bytes};
    ///
    /// // The default budget of a builder is 8 MiB.
    /// assert_eq!(RunPlan::usual_slots(Bytes::kib(4), Bytes::mib(8)), 256);
    /// assert_eq!(RunPlan::usual_slots(Bytes::mib(1), Bytes::mib(8)), 10);
    /// ```
    pub fn usual_slots(event: Bytes, under_way: Bytes) -> u32 {
        let events = under_way.count().div_ceil(event.count().max(1));
        let slots = events.saturating_add(SLOTS_BESIDE).clamp(FEWEST_SLOTS.into(), MOST_SLOTS.into());
        u32::try_from(slots).unwrap_or(MOST_SLOTS)
    }

    /// Checks that the plan can be carried out.
    ///
    /// # Errors
    /// The first fault of the plan.
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

/// The fewest usual slots: one event that arrives, one at the sink, and two under way.
const FEWEST_SLOTS: u32 = 4;

/// The most usual slots; more would only add to the wait in queues.
pub const MOST_SLOTS: u32 = 256;

/// Events beyond those under way: one that arrives, and one at the sink.
pub const SLOTS_BESIDE: u64 = 2;

/// Batches into which a builder's slots are divided: while one is free, the other keeps its lanes
/// busy.
const BATCHES_IN_SLOTS: u32 = 2;

impl RunPlan {
    /// Returns twice the time for which a builder may give events to its sink after a heartbeat.
    pub(super) fn two_leases(&self) -> Duration {
        self.lease.saturating_mul(2)
    }

    /// Returns the time that the run waits for a source or a builder when none is left: longer if
    /// only the network may have failed.
    pub(super) fn absence_limit(&self, silent: bool) -> Duration {
        if silent { self.patience.max(self.give_up_after) } else { self.give_up_after }
    }

    /// Returns the time for which the run waits for outstanding events at its end.
    pub(super) fn drain_time(&self) -> Duration {
        self.deadline + self.drain_grace
    }

    /// Returns true if a host shares the supervisor's clock.
    pub(super) fn shares_clock(&self, boot_id: &str) -> bool {
        !boot_id.is_empty() && boot_id == self.boot_id
    }

    /// Returns the reply to a peer that registers.
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

    /// Returns true if the slots of that many builders hold no more events than sources can be told
    /// of.
    pub(super) const fn fits(&self, builders: usize) -> bool {
        builders.saturating_mul(self.slots as usize) <= MAX_OUTSTANDING
    }

    /// Returns the number of a builder's slots that become free at once. If free slots are the
    /// trigger, no trigger waits for a slot, so decisions and announcements can come once for a
    /// batch of events.
    pub(super) fn slots_at_a_time(&self) -> u32 {
        match self.trigger {
            TriggerKind::AsFastAsPossible => (self.slots / BATCHES_IN_SLOTS).max(1),
            _ => 1,
        }
    }
}

/// Returns the same trigger at another rate; `None` if it has no rate.
pub(super) fn with_rate(trigger: TriggerKind, rate: Frequency) -> Option<TriggerKind> {
    match trigger {
        TriggerKind::Periodic { .. } => Some(TriggerKind::Periodic { rate }),
        TriggerKind::Poisson { .. } => Some(TriggerKind::Poisson { rate }),
        TriggerKind::Gaussian { sigma, .. } => Some(TriggerKind::Gaussian { rate, sigma }),
        TriggerKind::Burst { count, .. } => Some(TriggerKind::Burst { rate, count }),
        TriggerKind::AsFastAsPossible | TriggerKind::External => None,
    }
}
