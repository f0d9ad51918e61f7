//! The latest interim report of each peer, and its form for operators.

use std::collections::BTreeMap;

use serde::Serialize;

use super::lanes::{LaneFacts, LastFragments};
use crate::{
    counter_table::{counted, lane_counters, metric, select, source_counters, unused},
    index::SourceIndex,
    ledger::{Contradiction, Counted, Counter, Metric, Rank, unused_of},
    live::{Latencies, seconds_since},
    time::Instant,
    wire::control::{
        BuilderReport, FilterReport, LaneReport, Live, MAX_REASON, SourceReport, TapReport, plain,
    },
};

/// Latest interim report of a peer's present incarnation.
#[derive(Clone, Debug)]
pub(super) struct Latest<R> {
    counters: R,
    live: Live,
    at: Instant,
    /// CPU cores that the peer's process used on average since the previous report.
    processor: f64,
}

macro_rules! source_live {
    ($($rows:tt)*) => { counted! {
        /// Latest interim report of a source, for operators.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct SourceLive {
            /// Age of the report, in seconds.
            pub age_s: f64,
            /// Fragments that the source did not use, by the reason (see
            /// [`Counter::unused`]).
            pub unused: BTreeMap<&'static str, u64>,
            /// The first of the contradictions that [`Self::contradictions`] counts.
            pub contradiction: Option<Contradiction>,
            /// Time since the source's last fragment of the run, in seconds; `None` if there was
            /// none.
            pub last_fragment_age_s: Option<f64>,
            /// Payload bytes of fragments whose events are not decided yet.
            pub backlog_bytes: u64,
            /// Fragments whose events are not decided yet.
            pub backlog_fragments: u64,
            /// CPU cores that the source's process uses.
            pub processor_fraction: f64,
            /// Memory of the source's process; 0 if unknown.
            pub memory_bytes: u64,
        }
        $($rows)*
    } };
}

source_counters! { select! { status source_live! { SourceReport } {} } }

macro_rules! builder_live {
    ($($rows:tt)*) => { counted! {
        /// Latest interim report of a builder, for operators.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct BuilderLive {
            /// Age of the report, in seconds.
            pub age_s: f64,
            /// Events that the builder's sink accepted.
            pub written: u64,
            /// Events that the builder's filter rejected.
            pub rejected: u64,
            /// Payload bytes of the events that the builder's sink accepted.
            pub payload_bytes: u64,
            /// Slots whose event lacks fragments.
            pub building: u32,
            /// Slots whose event waits for the sink.
            pub at_sink: u32,
            /// Time since the builder's sink last accepted an event, in seconds; `None` if it has
            /// accepted none.
            pub last_commit_age_s: Option<f64>,
            /// Percentiles of the time from an event's trigger to its last fragment, in this run so
            /// far.
            pub latency_us: Option<LatencySurvey>,
            /// Free bytes on the disk that the builder's sink writes to; `None` if unknown.
            pub sink_free_bytes: Option<u64>,
            /// Size in bytes of the disk that the builder's sink writes to; `None` if unknown.
            pub sink_size_bytes: Option<u64>,
            /// CPU cores that the builder's process uses.
            pub processor_fraction: f64,
            /// Memory of the builder's process; 0 if unknown.
            pub memory_bytes: u64,
            /// Events by what became of them at the clients of the builder's tap; `None` if it has
            /// none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub tap: Option<TapSurvey>,
            /// Work of the processes that are the builder's filter; `None` if it has none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub filter: Option<FilterSurvey>,
            /// Histogram of the times from an event's trigger to its last fragment.
            #[serde(skip)]
            pub latencies: Latencies,
        }
        $($rows)*
    } };
}

lane_counters! { select! { status builder_live! { LaneReport } {} } }

/// Events by what became of them at the clients of a builder's tap, over all clients so far. Events
/// that are missing to `seen` wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TapSurvey {
    /// Number of clients that are connected.
    pub clients: u32,
    /// Events that the sink accepted, counted for each client that was connected.
    pub seen: u64,
    /// Events that clients were sent.
    pub sent: u64,
    /// Events that are not in the share of a client.
    pub sampled_out: u64,
    /// Events that a client did not get because it read too slowly.
    pub dropped: u64,
}

impl From<TapReport> for TapSurvey {
    fn from(TapReport { clients, seen, sent, sampled_out, dropped }: TapReport) -> Self {
        Self { clients, seen, sent, sampled_out, dropped }
    }
}

/// Work of the processes that are a builder's filter, in this run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FilterSurvey {
    /// Number of processes.
    pub workers: u32,
    /// Number of processes that run and can judge events.
    pub ready: u32,
    /// Events that were given to the filter, and that it has finished with.
    pub judged: u64,
    /// Events that a process kept.
    pub kept: u64,
    /// Events that a process dropped.
    pub dropped: u64,
    /// Events on which no process gave a verdict.
    pub failed: u64,
    /// Processes that were started in place of one that failed.
    pub restarts: u64,
    /// The latest failure of a process; empty if there was none.
    pub fault: String,
}

impl From<FilterReport> for FilterSurvey {
    fn from(report: FilterReport) -> Self {
        let FilterReport { workers, ready, judged, kept, dropped, failed, restarts, fault } = report;
        Self { workers, ready, judged, kept, dropped, failed, restarts, fault: plain(&fault, MAX_REASON) }
    }
}

/// Percentiles of latencies, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySurvey {
    /// Median of the latencies.
    pub p50: u64,
    /// 99th percentile of the latencies.
    pub p99: u64,
    /// Maximum of the latencies.
    pub max: u64,
}

impl LatencySurvey {
    /// Returns the percentiles of a histogram; `None` if the histogram is empty.
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let micros = |part| Some(latencies.quantile(part)?.as_micros() as u64);
        Some(Self { p50: micros(0.5)?, p99: micros(0.99)?, max: micros(1.0)? })
    }
}

impl<R> Latest<R> {
    pub(super) fn after(before: Option<&Self>, counters: R, live: Live, now: Instant) -> Self {
        let processor = before.map_or(0.0, |before| live.processor_since(&before.live, now.since(before.at)));
        Self { counters, live, at: now, processor }
    }

    fn age(&self, now: Instant) -> f64 {
        now.since(self.at).as_secs_f64()
    }
}

impl Latest<SourceReport> {
    /// Returns the latest report of a source in the form of the status, with its age.
    pub(super) fn survey(&self, now: Instant) -> SourceLive {
        let (counters, live) = (&self.counters, &self.live);
        let mut survey = SourceLive {
            age_s: self.age(now),
            unused: unused_of(counters).collect(),
            contradiction: counters.contradiction.map(Into::into),
            last_fragment_age_s: seconds_since(live.since_fragment_ns, self.age(now)),
            backlog_bytes: live.backlog_bytes,
            backlog_fragments: live.backlog_fragments,
            processor_fraction: self.processor,
            memory_bytes: live.memory_bytes,
            ..SourceLive::default()
        };
        survey.copy(counters);
        survey
    }
}

/// A builder's latest interim report, without its lanes, and the facts about these from all its
/// interim reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Interim {
    pub(super) own: BuilderReport,
    pub(super) lanes: LaneFacts,
}

impl Latest<Interim> {
    /// Returns the state after an interim report that follows `before`. `source` finds the source
    /// with a number.
    pub(super) fn merge(
        before: Option<Self>,
        mut own: BuilderReport,
        live: Live,
        now: Instant,
        source: impl Fn(u32) -> Option<SourceIndex>,
    ) -> Self {
        let changed = core::mem::take(&mut own.lanes);
        let sum = own.sum.take().map_or_else(LaneReport::default, |sum| *sum);
        let mut latest = Self::after(before.as_ref(), Interim::default(), live, now);
        let mut lanes = before.map(|before| before.counters.lanes).unwrap_or_default();
        lanes.update(sum, &changed, source);
        latest.counters = Interim { own, lanes };
        latest
    }

    /// Returns the lateness of the sources that were last in any event of the builder.
    pub(super) fn lateness(&self) -> &[(SourceIndex, LastFragments)] {
        &self.counters.lanes.lateness
    }

    /// Returns the number of payload bytes that the builder's sink accepted.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.counters.own.payload_bytes
    }

    /// Returns the latest report of a builder in the form of the status, with its age and the sums
    /// over its lanes.
    pub(super) fn survey(&self, now: Instant) -> BuilderLive {
        let (Interim { own, lanes }, live) = (&self.counters, &self.live);
        let mut latencies = Latencies::new();
        latencies.add_pairs(&live.latency);
        let age = self.age(now);
        let disk = |bytes| (live.disk_bytes > 0).then_some(bytes);
        let mut survey = BuilderLive {
            age_s: age,
            written: own.written,
            rejected: own.rejected,
            payload_bytes: own.payload_bytes,
            building: live.building,
            at_sink: live.at_sink,
            last_commit_age_s: seconds_since(live.since_commit_ns, age),
            latency_us: LatencySurvey::of(&latencies),
            sink_free_bytes: disk(live.disk_free_bytes),
            sink_size_bytes: disk(live.disk_bytes),
            processor_fraction: self.processor,
            memory_bytes: live.memory_bytes,
            tap: own.tap.map(Into::into),
            filter: own.filter.clone().map(Into::into),
            latencies,
            ..BuilderLive::default()
        };
        survey.copy(&lanes.sum);
        survey
    }
}

#[cfg(test)]
mod tests;
