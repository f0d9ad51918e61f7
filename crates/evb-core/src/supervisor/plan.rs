//! [`RunPlan`]: the configuration of a run.
// tidy: long because each field and each error has its documentation.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::{FirstReadouts, Group, SourceLoss};
use crate::{
    alignment::GuardedClocks,
    id::{BuilderId, Epoch, Peer, RunId, RunNumber, SourceId},
    live::FEW_HEARTBEATS,
    set::MAX_SOURCES,
    trigger::TriggerKind,
    units::{Bytes, Frequency},
    wire::control::{MAX_BUILDERS, MAX_NAME, MAX_OUTSTANDING, MAX_SLOTS, RunParameters, Welcome, is_name},
};

/// The failures that written entries of the journal must survive. They determine when the journal
/// is synced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JournalFsync {
    /// Entries survive a killed process, because the kernel has them.
    #[default]
    None,
    /// Entries also survive a power cut: they are on the disk before the supervisor sends anything
    /// that depends on them. This costs a disk's latency in each turn.
    Commit,
}

/// Rule by which the builder of the next event is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssignmentPolicy {
    /// Builders take turns; a builder without a free slot is skipped.
    #[default]
    RoundRobin,
    /// The next event goes to the builder with the most free slots.
    LeastLoaded,
}

/// Action when a source is found to deliver fragments of other events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSlip {
    /// The run goes on, with a problem in its report.
    #[default]
    Report,
    /// The run is paused, so that an operator can look at the source.
    Pause,
    /// The run ends.
    Stop,
}

/// The plan of a run: its peers, its trigger, its length, and its time limits.
///
/// ```
/// use evb_core::{id::*, supervisor::RunPlan, trigger::TriggerKind};
///
/// let sources = (1..=8).map(SourceId::new).collect();
/// let builders = (1..=2).map(BuilderId::new).collect();
/// let mut plan = RunPlan::new(RunNumber::new(42), Epoch::new(1), sources, builders);
/// plan.trigger = TriggerKind::Poisson { rate: "2 kHz".parse()? };
/// plan.events = Some(1_000_000);
/// plan.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// Run number for operators.
    pub run: RunNumber,
    /// True if the run must have the number [`Self::run`]; otherwise the run gets this or a higher
    /// number, which no builder's storage knows.
    pub fixed_number: bool,
    /// Id of the run, which it keeps when another supervisor takes over. If the id is
    /// [`RunId::UNKNOWN`], the supervisor makes one.
    pub run_id: RunId,
    /// Epoch of the run, which is new at every start of a run.
    pub epoch: Epoch,
    /// Boot id of the supervisor's host; peers with the same boot id share its clock. Empty if
    /// unknown.
    pub boot_id: String,
    /// Sources that must register; ascending, at most [`MAX_SOURCES`].
    pub sources: Vec<SourceId>,
    /// Builders that must register; ascending.
    pub builders: Vec<BuilderId>,
    /// Names of the sources that have one: at most [`MAX_NAME`] bytes each, without control
    /// characters. Names appear with the ids in logs, reports and event files.
    pub source_names: BTreeMap<SourceId, String>,
    /// Names of the builders that have one, within the same limits; a builder may join later.
    pub builder_names: BTreeMap<BuilderId, String>,
    /// Clocks of the sources whose timestamps are compared. A source that has none here may declare
    /// its own when it registers.
    pub clocks: GuardedClocks,
    /// Sources without which events are complete: an event waits for them until its deadline at
    /// most, and not at all while they are away.
    pub expendable: BTreeSet<SourceId>,
    /// Sources that send fragments of some events only and owe none, with the time for which an
    /// event that has all other fragments waits for them.
    pub sporadic: BTreeMap<SourceId, Duration>,
    /// Sources that owe no fragments from the first event on, with the operator's reason. An
    /// operator can include them.
    pub excluded: BTreeMap<SourceId, String>,
    /// Groups of sources of which a least number must take part; each has another name.
    pub groups: Vec<Group>,
    /// Action when a source is found to deliver fragments of other events.
    pub on_slip: OnSlip,
    /// Kind of trigger.
    pub trigger: TriggerKind,
    /// Rule by which the builder of the next event is chosen.
    pub policy: AssignmentPolicy,
    /// Number of consecutive events that go to one builder, as long as it has free slots.
    pub run_length: u32,
    /// Events outstanding per builder. The default of 16 suits events of unknown size; for a known
    /// size, [`Self::usual_slots`] returns the number that keeps a builder busy.
    pub slots: u32,
    /// Time for which builders wait for fragments that have not been announced.
    pub deadline: Duration,
    /// Time for which sources keep fragments without a decision.
    pub orphan_timeout: Duration,
    /// Longest time between two messages in either direction of a control connection. In a run with
    /// more than 250 sources, the heartbeats of sources are up to four times as far apart.
    pub heartbeat: Duration,
    /// Time between interim reports of sources and builders; zero for no interim reports.
    pub report_period: Duration,
    /// Time of silence after which a source counts as down, and a builder gets no more events. In a
    /// run with more than 64 sources, a source has at least three of its heartbeats' periods.
    pub down_after: Duration,
    /// Time without any source or any builder after which the run fails.
    pub give_up_after: Duration,
    /// Rule for events that are triggered while a source is away.
    pub on_source_loss: SourceLoss,
    /// Rule for the start of a run while sources have no readout yet.
    pub first_readouts: FirstReadouts,
    /// Validity of a builder's lease. A builder gives events to its sink only for this time after
    /// it sent a heartbeat that the supervisor answered. After two leases of silence, the
    /// supervisor gives the builder's events to other builders.
    pub lease: Duration,
    /// Time for which peers that have lost the supervisor try to reach it.
    pub patience: Duration,
    /// True if a journal is kept; [`Output::Journal`](super::Output::Journal) then carries its
    /// entries.
    pub journal: bool,
    /// Time within which all peers must register and connect their lanes.
    pub start_timeout: Duration,
    /// Time within which all peers must have prepared for the first event, when the run begins.
    pub begin_timeout: Duration,
    /// Time beyond `deadline` for which the run waits for progress of outstanding events at its
    /// end.
    pub drain_grace: Duration,
    /// Time for which the supervisor waits for the peers' final reports at the end of the run.
    pub report_timeout: Duration,
    /// Number of assigned events after which the run ends; `None` for no limit.
    pub events: Option<u64>,
    /// Duration of the run from the first possible trigger; `None` for no limit.
    pub duration: Option<Duration>,
    /// True if the run waits for [`SupervisorCore::begin`](super::SupervisorCore::begin) when all
    /// peers are ready. That wait has no time limit.
    pub hold: bool,
    /// True if the run begins only after
    /// [`SupervisorRole::permit`](super::SupervisorRole::permit), or when `begin_timeout` is over.
    pub asks_permission: bool,
}

/// Reason why a run with this plan is impossible: an error in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The run has no source.
    #[error("the run has no source; configure at least one")]
    NoSource,
    /// A source that is expendable, sporadic or excluded is not in the run.
    #[error(
        "source {0} is listed as expendable, sporadic or excluded, but is no source of the run: take it out of that list, or add it to the sources"
    )]
    UnknownSource(SourceId),
    /// No source owes fragments.
    #[error(
        "every source is expendable, sporadic (`owes = \"none\"`) or excluded, so that events may be empty: let at least one be essential"
    )]
    NothingOwed,
    /// A group is impossible.
    #[error("group {name}: {reason}")]
    Group {
        /// Name of the group.
        name: String,
        /// Reason, with a remedy.
        reason: &'static str,
    },
    /// The run has no builder.
    #[error("the run has no builder; configure at least one")]
    NoBuilder,
    /// The run has too many sources. Sets of sources, which are kept for each event, have a fixed
    /// size.
    #[error("the run has {count} sources, but at most {MAX_SOURCES} are possible: configure fewer")]
    TooManySources {
        /// Number of configured sources.
        count: usize,
    },
    /// The run has too many builders. Each source keeps a lane to each builder, in sets of a fixed
    /// size.
    #[error("the run has {count} builders, but at most {MAX_BUILDERS} are possible: configure fewer")]
    TooManyBuilders {
        /// Number of configured builders.
        count: usize,
    },
    /// The builders have too many slots. Builders allocate all slots before the first event.
    #[error("`slots` is {slots}, but at most {MAX_SLOTS} are possible: configure fewer")]
    TooManySlots {
        /// Number of configured slots.
        slots: u32,
    },
    /// All builders together have too many slots. The limit exists because one message tells
    /// sources of all outstanding events when a builder is lost.
    #[error(
        "{slots} slots at each of {builders} builders may hold more than {MAX_OUTSTANDING} events, the most of a run; use fewer `slots` or builders"
    )]
    TooManyOutstanding {
        /// Number of configured slots.
        slots: u32,
        /// Number of configured builders.
        builders: usize,
    },
    /// The ids of the sources or of the builders are not ascending, or not unique.
    #[error(
        "the ids of the {role}s must be ascending and different, but {id} is not: list each {role} once, in ascending order"
    )]
    Order {
        /// Name of the role: source or builder.
        role: &'static str,
        /// First id that is out of order.
        id: u16,
    },
    /// A name is empty, is too long, has control characters, or belongs to no source of the run.
    #[error(
        "the name of {role} {id} cannot be used: write 1 to {MAX_NAME} bytes without control characters, and name only {role}s that are in the run"
    )]
    Name {
        /// Name of the role: source or builder.
        role: &'static str,
        /// Id of the source or builder.
        id: u16,
    },
    /// A value is zero that must be above zero.
    #[error("`{key}` of the run is zero, but must be above zero: give a larger value")]
    Zero {
        /// Name of the value.
        key: &'static str,
    },
}

impl RunPlan {
    /// Creates a plan with default values. Triggers come as fast as slots become free, until the
    /// run is stopped.
    pub fn new(run: RunNumber, epoch: Epoch, sources: Vec<SourceId>, builders: Vec<BuilderId>) -> Self {
        Self {
            run,
            fixed_number: false,
            run_id: RunId::UNKNOWN,
            epoch,
            boot_id: String::new(),
            sources,
            builders,
            source_names: BTreeMap::new(),
            builder_names: BTreeMap::new(),
            clocks: GuardedClocks::default(),
            expendable: BTreeSet::new(),
            sporadic: BTreeMap::new(),
            excluded: BTreeMap::new(),
            groups: Vec::new(),
            on_slip: OnSlip::Report,
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
            first_readouts: FirstReadouts::Warn,
            lease: Duration::from_secs(1),
            patience: Duration::from_secs(90),
            journal: false,
            start_timeout: Duration::from_secs(30),
            begin_timeout: Duration::from_secs(10),
            drain_grace: Duration::from_secs(5),
            report_timeout: Duration::from_secs(5),
            events: None,
            duration: None,
            hold: false,
            asks_permission: false,
        }
    }

    /// Returns the number of slots that keeps a builder busy when triggers come as fast as
    /// possible: as many events of the size `event` as fill the `under_way` bytes that are being
    /// transferred to the builder, one event that is complete soon, and one at the sink. Larger
    /// events need fewer slots, and with fewer slots more of the bytes stay in processor caches.
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

    /// Checks the plan for contradictions and against the limits.
    ///
    /// # Errors
    /// Returns the first error in the plan.
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
        self.check_owing()?;
        self.check_groups()?;
        self.check_names()?;
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

impl RunPlan {
    /// Checks that only sources of the run are expendable, sporadic or excluded, and that at least
    /// one source owes fragments.
    fn check_owing(&self) -> Result<(), PlanError> {
        let listed = self.expendable.iter().chain(self.sporadic.keys()).chain(self.excluded.keys());
        if let Some(id) = listed.into_iter().find(|id| self.sources.binary_search(id).is_err()) {
            return Err(PlanError::UnknownSource(*id));
        }
        let spares = |id: &SourceId| self.expendable.contains(id) || self.sporadic.contains_key(id);
        let owes = |id: &SourceId| !spares(id) && !self.excluded.contains_key(id);
        if self.sources.iter().any(owes) { Ok(()) } else { Err(PlanError::NothingOwed) }
    }

    /// Checks the name, the sources and the least number of each group.
    fn check_groups(&self) -> Result<(), PlanError> {
        let mut names = BTreeSet::new();
        for Group { name, sources, at_least } in &self.groups {
            let reason = if !is_name(name) {
                "its name is not possible: use 1 to 64 bytes without control characters"
            } else if !names.insert(name) {
                "another group has the same name: give it another one"
            } else if sources.iter().any(|id| self.sources.binary_search(id).is_err()) {
                "one of its sources is not in the run: list sources of the run"
            } else if *at_least as usize > sources.len() {
                "it has fewer sources than its least number: lower `at_least`"
            } else {
                continue;
            };
            return Err(PlanError::Group { name: name.clone(), reason });
        }
        Ok(())
    }

    /// Checks that names are possible, and that only sources of the run have names. Builders may
    /// join later.
    fn check_names(&self) -> Result<(), PlanError> {
        let sources = self.source_names.iter().map(|(id, name)| {
            (self.sources.binary_search(id).is_ok() && is_name(name), "source", id.number())
        });
        let builders = self.builder_names.iter().map(|(id, name)| (is_name(name), "builder", id.number()));
        match sources.chain(builders).find(|(is_allowed, ..)| !is_allowed) {
            Some((_, role, id)) => Err(PlanError::Name { role, id }),
            None => Ok(()),
        }
    }

    /// Returns the name of a peer; empty if it has none.
    pub(super) fn name_of(&self, peer: Peer) -> &str {
        let name = match peer {
            Peer::Supervisor => None,
            Peer::Source(id) => self.source_names.get(&id),
            Peer::Builder(id) => self.builder_names.get(&id),
        };
        name.map_or("", String::as_str)
    }

    /// Returns a peer with its name, if it has one: `source 3 (TPC crate 1)`.
    pub fn named(&self, peer: Peer) -> String {
        peer.named(self.name_of(peer))
    }
}

/// Least result of [`RunPlan::usual_slots`]: one event that is complete soon, one at the sink, and
/// two that are being transferred.
const FEWEST_SLOTS: u32 = 4;

/// Highest result of [`RunPlan::usual_slots`]; more slots would only lengthen the wait in queues.
pub const MOST_SLOTS: u32 = 256;

/// Slots in addition to those for events that are being transferred: one event that is complete
/// soon, and one at the sink.
pub const SLOTS_BESIDE: u64 = 2;

/// Number of batches into which a builder's slots are divided. While the slots of one batch become
/// free, the events of the other batch keep the lanes busy.
const BATCHES_IN_SLOTS: u32 = 2;

/// Most periods between two heartbeats of a source, so that a source that fails is noticed within
/// seconds.
const MOST_PERIODS: usize = 16;

/// Number of periods of its own heartbeats after which a silent source counts as down.
const PERIODS_UNTIL_DOWN: u32 = 3;

/// Number of sources up to which decisions are sent at once.
const FEW_SOURCES: usize = 256;

/// Time between decisions for each source that gets them, if there are more than [`FEW_SOURCES`]:
/// all sources together get at most 500 000 messages per second.
const TIME_PER_DECISION: Duration = Duration::from_micros(2);

impl RunPlan {
    /// Returns the number of periods of heartbeats between two heartbeats of a source. With many
    /// sources, each sends and gets its heartbeats and sends its reports more rarely, so that an
    /// idle system of thousands of sources needs little processor time.
    pub(super) fn periods_of_source(&self) -> usize {
        self.sources.len().div_ceil(FEW_HEARTBEATS).clamp(1, MOST_PERIODS)
    }

    /// Returns the longest time between two messages in either direction of a source's connection.
    pub(super) fn heartbeat_of_source(&self) -> Duration {
        self.heartbeat.saturating_mul(self.periods_of_source() as u32)
    }

    /// Returns the time of silence after which a source counts as down.
    pub(super) fn source_down_after(&self) -> Duration {
        match self.periods_of_source() {
            1 => self.down_after,
            _ => self.down_after.max(self.heartbeat_of_source().saturating_mul(PERIODS_UNTIL_DOWN)),
        }
    }

    /// Returns true if the run may collect decisions, because it has many sources.
    #[inline]
    pub(super) fn collects_decisions(&self) -> bool {
        self.sources.len() > FEW_SOURCES
    }

    /// Returns the time for which decisions are collected into one message, if that many sources
    /// get it.
    pub(super) fn batch_time(&self, sources: usize) -> Duration {
        if sources > FEW_SOURCES { TIME_PER_DECISION * sources as u32 } else { Duration::ZERO }
    }

    /// Returns the duration of two leases. After that much silence, a builder has certainly stopped
    /// writing.
    pub(super) fn two_leases(&self) -> Duration {
        self.lease.saturating_mul(2)
    }

    /// Returns the time for which a run without any source or any builder waits for one to return.
    /// The time is longer if only the network may have failed.
    pub(super) fn absence_limit(&self, silent: bool) -> Duration {
        if silent { self.patience.max(self.give_up_after) } else { self.give_up_after }
    }

    /// Returns the time for which the run waits for progress of outstanding events at its end.
    pub(super) fn drain_time(&self) -> Duration {
        self.deadline + self.drain_grace
    }

    /// Returns true if the host with that boot id shares the supervisor's clock.
    pub(super) fn shares_clock(&self, boot_id: &str) -> bool {
        !boot_id.is_empty() && boot_id == self.boot_id
    }

    /// Returns the reply to a peer that is admitted and sends a heartbeat that often. If the
    /// heartbeats of sources are rare, all peers report at most as often.
    pub(super) fn welcome(
        &self,
        heartbeat: Duration,
        incarnation: u32,
        decided: u64,
        shared_clock: bool,
        under_way: bool,
    ) -> Welcome {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let of_source = self.heartbeat_of_source();
        let is_rare = of_source > self.heartbeat && !self.report_period.is_zero();
        let report = if is_rare { self.report_period.max(of_source) } else { self.report_period };
        let parameters = RunParameters {
            slots: self.slots,
            deadline_ns: nanos(self.deadline),
            orphan_timeout_ns: nanos(self.orphan_timeout),
            heartbeat_ns: nanos(heartbeat),
            decided,
            shared_clock,
            lease_ns: nanos(self.lease),
            patience_ns: nanos(self.patience),
            report_ns: nanos(report),
            under_way,
        };
        Welcome {
            epoch: self.epoch.number(),
            run: self.run.number(),
            run_id: self.run_id,
            parameters: Some(parameters),
            incarnation,
            ..Welcome::default()
        }
    }

    /// Returns true if the slots of that many builders are no more than the events of which one
    /// message can tell sources.
    pub(super) const fn fits(&self, builders: usize) -> bool {
        builders.saturating_mul(self.slots as usize) <= MAX_OUTSTANDING
    }

    /// Returns the number of a builder's slots that are offered at once. If free slots are the
    /// trigger, no trigger waits for a slot; so slots can be offered in batches, which saves
    /// messages for decisions and announcements.
    pub(super) fn slots_at_a_time(&self) -> u32 {
        match self.trigger {
            TriggerKind::AsFastAsPossible => (self.slots / BATCHES_IN_SLOTS).max(1),
            _ => 1,
        }
    }
}

/// Returns the same kind of trigger at another rate; `None` if this kind has no rate.
pub(super) fn with_rate(trigger: TriggerKind, rate: Frequency) -> Option<TriggerKind> {
    match trigger {
        TriggerKind::Periodic { .. } => Some(TriggerKind::Periodic { rate }),
        TriggerKind::Poisson { .. } => Some(TriggerKind::Poisson { rate }),
        TriggerKind::AsFastAsPossible | TriggerKind::External => None,
    }
}
