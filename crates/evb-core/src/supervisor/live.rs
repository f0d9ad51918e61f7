//! The latest interim report of each peer, and the view of it for operators.

use core::time::Duration;

use serde::Serialize;

use crate::{
    live::Latencies,
    time::Instant,
    wire::control::{BuilderReport, LaneReport, Live, SourceReport},
};

/// The latest interim report of a peer's present incarnation.
#[derive(Clone, Debug)]
pub(super) struct Latest<R> {
    counters: R,
    live: Live,
    at: Instant,
    /// CPU cores that its process used on average since the report before.
    processor: f64,
}

/// A source's latest interim report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceLive {
    /// Age of the report, s.
    pub age_s: f64,
    /// Fragments pushed by readout.
    pub pushed: u64,
    /// The payload of these fragments.
    pub pushed_bytes: u64,
    /// Fragments that it refused: too large, too far ahead of the run, or not as promised.
    pub refused: u64,
    /// Lane bytes sent, resends included.
    pub sent_bytes: u64,
    /// Payload whose events are not decided yet.
    pub backlog_bytes: u64,
    /// Highest value of that payload.
    pub backlog_peak_bytes: u64,
    /// Fragments whose events are not decided yet.
    pub backlog_fragments: u64,
    /// Fragments that no sink has accepted yet.
    pub uncommitted: u64,
    /// TCP segments that its kernel sent again.
    pub tcp_retransmits: u64,
    /// Lanes that were connected again.
    pub reconnects: u64,
    /// Data that it sent again.
    pub resends: u64,
    /// CPU cores that its process uses.
    pub processor_fraction: f64,
    /// Memory of its process; 0 if unknown.
    pub memory_bytes: u64,
}

/// A builder's latest interim report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BuilderLive {
    /// Age of the report, s.
    pub age_s: f64,
    /// Events that its sink accepted.
    pub written: u64,
    /// Events that its filter rejected.
    pub rejected: u64,
    /// Payload of the events that its sink accepted.
    pub payload_bytes: u64,
    /// Slots whose event lacks fragments.
    pub building: u32,
    /// Slots whose event waits for the sink.
    pub at_sink: u32,
    /// Time since its sink last accepted an event, s.
    pub last_commit_age_s: Option<f64>,
    /// Time from trigger to last fragment in this run so far.
    pub latency_us: Option<LatencySurvey>,
    /// Fragments with a wrong checksum.
    pub crc_errors: u64,
    /// Fragments that arrived after their event was over.
    pub late: u64,
    /// Fragments that arrived twice.
    pub duplicate: u64,
    /// Free bytes on the disk of its sink.
    pub sink_free_bytes: Option<u64>,
    /// Size of that disk.
    pub sink_size_bytes: Option<u64>,
    /// CPU cores that its process uses.
    pub processor_fraction: f64,
    /// Memory of its process; 0 if unknown.
    pub memory_bytes: u64,
    /// The histogram of latencies.
    #[serde(skip)]
    pub latencies: Latencies,
}

/// Percentiles of latencies, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySurvey {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

impl LatencySurvey {
    /// Returns the percentiles of a histogram; `None` if it is empty.
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let micros = |part| Some(latencies.quantile(part)?.as_micros() as u64);
        Some(Self { p50: micros(0.5)?, p99: micros(0.99)?, max: micros(1.0)? })
    }
}

/// Number of events for which a source was the last, and its total delay behind the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    pub(super) last: u64,
    pub(super) last_by_ns: u64,
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
    pub(super) fn survey(&self, now: Instant) -> SourceLive {
        let (own, live) = (&self.counters, &self.live);
        SourceLive {
            age_s: self.age(now),
            pushed: own.pushed,
            pushed_bytes: own.pushed_bytes,
            refused: own.refused,
            sent_bytes: own.sent_bytes,
            backlog_bytes: live.backlog_bytes,
            backlog_peak_bytes: own.backlog_peak_bytes,
            backlog_fragments: live.backlog_fragments,
            uncommitted: own.uncommitted,
            tcp_retransmits: own.tcp_retransmits,
            reconnects: own.reconnects,
            resends: own.resends,
            processor_fraction: self.processor,
            memory_bytes: live.memory_bytes,
        }
    }
}

impl Latest<BuilderReport> {
    /// Returns its report on lanes.
    pub(super) fn lanes(&self) -> &[LaneReport] {
        &self.counters.lanes
    }

    /// Returns the payload that the sink accepted.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.counters.payload_bytes
    }

    pub(super) fn survey(&self, now: Instant) -> BuilderLive {
        let (own, live) = (&self.counters, &self.live);
        let sum = |of: fn(&LaneReport) -> u64| own.lanes.iter().map(of).fold(0, u64::saturating_add);
        let mut latencies = Latencies::new();
        latencies.add_pairs(&live.latency);
        let age = self.age(now);
        let commit = Duration::from_nanos(live.since_commit_ns).as_secs_f64() + age;
        let disk = |bytes| (live.disk_bytes > 0).then_some(bytes);
        BuilderLive {
            age_s: age,
            written: own.written,
            rejected: own.rejected,
            payload_bytes: own.payload_bytes,
            building: live.building,
            at_sink: live.at_sink,
            last_commit_age_s: (live.since_commit_ns > 0).then_some(commit),
            latency_us: LatencySurvey::of(&latencies),
            crc_errors: sum(|lane| lane.crc_errors),
            late: sum(|lane| lane.late),
            duplicate: sum(|lane| lane.duplicate),
            sink_free_bytes: disk(live.disk_free_bytes),
            sink_size_bytes: disk(live.disk_bytes),
            processor_fraction: self.processor,
            memory_bytes: live.memory_bytes,
            latencies,
        }
    }
}

#[cfg(test)]
mod tests;
