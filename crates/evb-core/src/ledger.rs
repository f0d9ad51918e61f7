//! [`RunReport`]: the closed ledger of a run. The fields of the report have the names that `evbd
//! run --summary` uses.

mod percentiles;
mod contradiction;
mod counter;
mod display;
mod grant_path;
mod network;
mod owing;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    counter_table::{counted, lane_counters, metric, select, source_counters, unused},
    event::Cause,
    id::{Peer, RunId, SourceId},
    time::{ClockState, Utc},
    trigger::numbers::AnnouncementCounts,
    wire::control::{BuilderReport, LaneReport, SourceReport},
};

pub use contradiction::Contradiction;
pub(crate) use counter::{Counted, unused_of};
pub use counter::{Counter, IGNORED_TRIGGERS, Metric, Rank};
pub use grant_path::{AnswerPath, DerivedRest, GrantPath, RunPath};
pub use network::{DatagramCounts, NetworkCounts, RefusalCounts};
pub use owing::OwingChange;
pub use paths::PathSummary;
pub use percentiles::{Latency, Percentiles, Spread};

/// The outcomes of a run's triggers. In a closed ledger, triggered = inhibited + complete +
/// incomplete + rejected + lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Number of triggers, which is also the highest event id.
    pub triggered: u64,
    /// Triggers for which no builder had a free slot: dead time.
    pub inhibited: u64,
    /// Events given to a builder.
    pub assigned: u64,
    /// Events with a fragment of every source that owes them one.
    pub complete: u64,
    /// Events without a fragment of a source that owes them one.
    pub incomplete: u64,
    /// Lost events; [`RunReport::problems`] names the cause of each loss and the peer at fault.
    pub lost: u64,
    /// Events rejected by a filter.
    pub rejected: u64,
    /// Events accepted by a sink, by the builders' reports.
    pub written: u64,
}

/// An operator's notes on a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// Kind of the run, such as `physics` or `calibration`; empty if not given.
    pub kind: String,
    /// Comment on the run; empty if not given.
    pub comment: String,
}

impl Annotation {
    /// Largest length of `kind`, in bytes.
    pub const MAX_KIND: usize = 64;
    /// Largest length of `comment`, in bytes.
    pub const MAX_COMMENT: usize = 4096;

    /// Returns true if neither `kind` nor `comment` is too long.
    pub fn fits(&self) -> bool {
        self.kind.len() <= Self::MAX_KIND && self.comment.len() <= Self::MAX_COMMENT
    }
}

/// Amounts of data in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByteCounts {
    /// Payload bytes of the events that sinks accepted.
    pub payload: u64,
}

/// Rates from the first trigger to the last completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Complete and incomplete events per second.
    pub events_per_s: f64,
    /// Payload bytes of complete and incomplete events per second.
    pub payload_bytes_per_s: f64,
}

macro_rules! source_summary {
    ($($rows:tt)*) => { counted! {
        /// One source's part in the run, from its own report and from those of the builders.
        ///
        /// ```
        /// use evb_core::ledger::SourceSummary;
        ///
        /// let source = |id, last| SourceSummary { id, last, ..SourceSummary::default() };
        /// let sources = [source(1, 120), source(2, 850), source(3, 30)];
        /// let slowest = sources.iter().max_by_key(|source| source.last);
        /// assert_eq!(slowest.map(|source| source.id), Some(2));
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct SourceSummary {
            /// Id of the source.
            pub id: u16,
            /// Name of the source; empty if it has none, or if this process does not know it.
            pub name: String,
            /// True if the source's final report arrived.
            pub reported: bool,
            /// Incomplete events without a fragment of the source.
            pub missing: u64,
            /// The number of these events by the cause for which the fragment is missing.
            pub missing_by_cause: BTreeMap<Cause, u64>,
            /// Complete events without a fragment of the source, which did not owe one.
            pub absent: u64,
            /// The number of these events by the cause: the source was excluded, or is expendable.
            pub absent_by_cause: BTreeMap<Cause, u64>,
            /// True if events are complete without the source.
            pub expendable: bool,
            /// True if the source sends fragments of some events only, and owes none.
            pub sporadic: bool,
            /// True if the source was excluded at the end of the run.
            pub excluded: bool,
            /// Events at the end of the run, in a row, for which readout pushed no fragment; 0
            /// without the source's final report.
            pub missing_at_end: u64,
            /// The first of the contradictions that [`Self::contradictions`] counts.
            pub contradiction: Option<Contradiction>,
            /// Mean delay of the source's last fragments behind the previous fragments of their
            /// events, µs.
            pub last_by_mean_us: f64,
            /// Counts of the source's datagrams.
            pub datagrams: DatagramCounts,
            /// Accuracy with which the source kept its rates.
            pub pacing: PacingSummary,
            /// Durations of the source's stages between a grant and its data.
            pub grant_path_us: AnswerPath,
            /// Total time for which the source was down.
            pub down_s: f64,
        }
        $($rows)*
    } };
}

/// Passes the counters of a source's report, and then those of its lanes, to [`source_summary`].
macro_rules! with_lanes {
    ($rows:tt) => {
        lane_counters! { select! { report source_summary! { SourceReport $rows LaneReport } {} } }
    };
}

source_counters! { select! { report with_lanes! {} {} } }

impl SourceSummary {
    /// Returns the part of a source by its own report, and by the sums of the builders' reports
    /// about its lanes.
    pub fn of(id: u16, own: &SourceReport, lanes: &LaneReport) -> Self {
        let mut summary = Self {
            id,
            contradiction: own.contradiction.map(Into::into),
            last_by_mean_us: fraction(lanes.last_by_ns as f64 / 1e3, lanes.last as f64),
            datagrams: NetworkCounts::of([own], [lanes], []).datagrams,
            pacing: PacingSummary::of(own),
            grant_path_us: AnswerPath::of(own),
            ..Self::default()
        };
        summary.copy(own);
        summary.copy(lanes);
        summary.unexpected = summary.unexpected.saturating_add(lanes.unexpected);
        summary.reconnects = summary.reconnects.max(lanes.reconnects);
        summary
    }

    /// Returns true if events owe a fragment of the source at the end of the run.
    pub(crate) fn owes(&self) -> bool {
        !self.expendable && !self.excluded
    }

    /// Returns the source with its name, if it has one: `source 3 (TPC crate 1)`.
    pub fn named(&self) -> String {
        Peer::Source(SourceId::new(self.id)).named(&self.name)
    }
}

/// The accuracy with which a source kept the rates of its lanes.
///
/// ```
/// use evb_core::ledger::PacingSummary;
///
/// let source = |late_p99_us| PacingSummary { late_p99_us, ..PacingSummary::default() };
/// assert_eq!(source(40.0).worse(source(65.0)).late_p99_us, 65.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PacingSummary {
    /// Number of trains that the source sent.
    pub departures: u64,
    /// Median lateness of the trains that had to wait for their departure time, µs.
    pub late_p50_us: f64,
    /// 99th percentile of the lateness of the trains that had to wait, µs.
    pub late_p99_us: f64,
    /// Maximum of the lateness of the trains that had to wait, µs.
    pub late_max_us: f64,
    /// Total lateness that bursts could not make up for, in seconds: time in which lanes sent less
    /// than their rate.
    pub forfeited_s: f64,
}

impl PacingSummary {
    /// Reads the values from a source's final report.
    pub fn of(own: &SourceReport) -> Self {
        Self {
            departures: own.departures,
            late_p50_us: own.late_p50_ns as f64 / 1e3,
            late_p99_us: own.late_p99_ns as f64 / 1e3,
            late_max_us: own.late_max_ns as f64 / 1e3,
            forfeited_s: own.forfeited_ns as f64 / 1e9,
        }
    }

    /// Returns the larger value of two sources in every field.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            departures: self.departures.max(other.departures),
            late_p50_us: self.late_p50_us.max(other.late_p50_us),
            late_p99_us: self.late_p99_us.max(other.late_p99_us),
            late_max_us: self.late_max_us.max(other.late_max_us),
            forfeited_s: self.forfeited_s.max(other.forfeited_s),
        }
    }
}

/// One builder's part in the run, from its own report and from the supervisor's counts.
///
/// ```
/// use evb_core::ledger::BuilderSummary;
///
/// let mut builder =
///     BuilderSummary { id: 1, assigned: 500, written: 480, ..Default::default() };
/// builder.rejected = 15;
/// assert_eq!(builder.assigned - builder.written - builder.rejected, 5, "not accepted");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BuilderSummary {
    /// Id of the builder.
    pub id: u16,
    /// Name of the builder; empty if it has none, or if this process does not know it.
    pub name: String,
    /// True if the builder's final report arrived.
    pub reported: bool,
    /// Events assigned to the builder.
    pub assigned: u64,
    /// Events that the builder built with a fragment of every source that owes one.
    pub complete: u64,
    /// Events that the builder built with sources missing.
    pub incomplete: u64,
    /// Events that the builder's filter rejected.
    pub rejected: u64,
    /// Events that the builder reported as lost, or that were lost when the builder died.
    pub lost: u64,
    /// Events that the builder's sink accepted.
    pub written: u64,
    /// Payload bytes of the events that the builder's sink accepted.
    pub payload_bytes: u64,
    /// Fraction of the time in which the builder had no free slot.
    pub busy_fraction: f64,
    /// Highest memory use of the builder's events, in bytes.
    pub memory_peak_bytes: u64,
    /// Time from the trigger to the last fragment.
    pub build_latency_us: Latency,
    /// Time from a grant to its last byte.
    pub grant_delay_us: Latency,
    /// Time from the builder's grants to their data, and the builder's own stages of that time.
    pub grant_path_us: GrantPath,
    /// Bound on the error of the builder's latencies, µs; 0 if all hosts share one clock.
    pub clock_error_us: f64,
    /// Completions that the builder sent for events that it did not have.
    pub protocol_faults: u64,
}

impl BuilderSummary {
    /// Returns the part of a builder by its own report.
    pub fn of(id: u16, own: &BuilderReport) -> Self {
        let mut latency = Percentiles::default();
        latency.add(&own.latency_us, own.latency_max_us);
        let grant_path = GrantPath::of(own);
        let BuilderReport { complete, incomplete, rejected, lost, written, .. } = *own;
        Self {
            id,
            reported: true,
            assigned: [complete, incomplete, rejected, lost].into_iter().fold(0, u64::saturating_add),
            complete,
            incomplete,
            rejected,
            lost,
            written,
            payload_bytes: own.payload_bytes,
            memory_peak_bytes: own.memory_peak_bytes,
            build_latency_us: latency.latency(),
            grant_delay_us: grant_path.last_byte,
            grant_path_us: grant_path,
            clock_error_us: own.clock_error_ns as f64 / 1e3,
            ..Self::default()
        }
    }
}

/// The clock by which latencies were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClockSummary {
    /// True if all hosts share one clock. Otherwise builders convert trigger times from the
    /// supervisor's clock to their own by an offset that they estimate from heartbeats.
    pub shared: bool,
    /// The largest bound on the error of any builder's clock offset, µs.
    pub error_us: f64,
}

/// Triggers that were inhibited for the same cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadTimeCause {
    /// Description of the cause; it names the builder's sink or the source that events waited for.
    pub cause: String,
    /// Number of inhibited triggers.
    pub inhibited: u64,
}

/// Start of the problem in [`RunReport::problems`] by which evb reports a defect of its own: the
/// report does not account for all events.
pub const LEDGER_OPEN: &str =
    "the counts of events do not add up, which is a fault of evb (report it with the logs)";

/// End of the text of the problem that names a builder with a defect.
pub const NOT_ASSIGNED: &str = "that were not assigned to it, or no longer: if the run has lost no event, this is a fault of evb (report it with the logs)";

/// The closed ledger of a run.
///
/// ```
/// use evb_core::ledger::RunReport;
///
/// let mut report = RunReport { run: 42, exit_code: 1, ..RunReport::default() };
/// report.problems.push("source 3 was down for 2 s".to_owned());
/// if report.exit_code != 0 {
///     assert_eq!(
///         report.to_string(),
///         "run 42 (id 00000000): failed\n  problem: source 3 was down for 2 s"
///     );
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    /// Run number.
    pub run: u32,
    /// Id of the run.
    pub run_id: RunId,
    /// The operator's notes.
    pub annotation: Annotation,
    /// The epoch of the run.
    pub epoch: u64,
    /// Path of the state directory that keeps number and outcome of the run; `None` if none does.
    pub kept_in: Option<String>,
    /// 0: every event is accounted for and complete. 1: some events are incomplete or lost, or the
    /// run failed.
    pub exit_code: u8,
    /// Outcome of the run in a sentence.
    pub verdict: String,
    /// Start of the run, by the supervisor's wall clock.
    pub begin: Utc,
    /// Time at which the last event was settled, on the scale that began with [`Self::begin`].
    pub end: Utc,
    /// State of the supervisor's wall clock at the start of the run, as its kernel says.
    pub wall_clock: ClockState,
    /// Time from the first possible trigger until the last event was settled.
    pub duration_s: f64,
    /// Outcomes of the triggers.
    pub events: EventCounts,
    /// Counts of trigger announcements that did not simply announce the next trigger.
    pub triggers: AnnouncementCounts,
    /// Amounts of data.
    pub bytes: ByteCounts,
    /// Event and data rates.
    pub rates: Rates,
    /// Time from the trigger to the last fragment.
    pub build_latency_us: Latency,
    /// Time from grants to data, split into stages, over all builders and sources.
    pub grant_path_us: RunPath,
    /// Number of inhibited triggers, divided by the number of all triggers.
    pub dead_time_fraction: f64,
    /// Fraction of the time in which no builder had a free slot.
    pub busy_fraction: f64,
    /// The causes of inhibited triggers, the most frequent first.
    #[serde(rename = "dead_time_causes")]
    pub dead_time: Vec<DeadTimeCause>,
    /// Faults and repairs in the network.
    pub network: NetworkCounts,
    /// The paths with most repetitions, the worst first; at most [`PathSummary::NAMED`].
    pub paths: Vec<PathSummary>,
    /// Connections that were refused at the ports of the supervisor and the builders.
    pub security: RefusalCounts,
    /// Every source of the run.
    pub sources: Vec<SourceSummary>,
    /// Every builder of the run.
    pub builders: Vec<BuilderSummary>,
    /// The clock by which latencies were measured.
    pub clock: ClockSummary,
    /// The sources that were excluded or included in the run, in the order of the requests.
    pub changes: Vec<OwingChange>,
    /// All problems of the run, as texts.
    pub problems: Vec<String>,
    /// Incidents that cost no event: builders that left and whose events other builders built, or
    /// sources that were away while no event needed them.
    pub remarks: Vec<String>,
    /// The reason why the run failed to begin or to continue; `None` if the run did not fail.
    pub failure: Option<String>,
}

impl EventCounts {
    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        assert!(self.open().is_some(), "no more events are settled than triggered: {self:?}");
    }

    /// Returns the triggers that are neither settled nor inhibited: zero in a closed ledger, `None`
    /// if more were settled than triggered.
    pub fn open(&self) -> Option<u64> {
        [self.inhibited, self.complete, self.incomplete, self.rejected, self.lost]
            .iter()
            .try_fold(self.triggered, |open, settled| open.checked_sub(*settled))
    }
}

/// Returns `part / whole`, and zero if `whole` is zero.
pub fn fraction(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
