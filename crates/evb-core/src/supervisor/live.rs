//! The latest report so far of each peer, and what people see of it.

use core::time::Duration;

use serde::Serialize;

use crate::{
    live::Latencies,
    time::Instant,
    wire::control::{BuilderReport, LaneReport, Live, SourceReport},
};

/// The latest report so far of a peer's present incarnation.
#[derive(Clone, Debug)]
pub(super) struct Latest<R> {
    counters: R,
    live: Live,
    at: Instant,
    /// How much of a core its process used since the report before.
    processor: f64,
}

/// What a source said of itself last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceLive {
    /// How long ago, s.
    pub age_s: f64,
    /// Fragments that readout handed over.
    pub pushed: u64,
    /// Their payload.
    pub pushed_bytes: u64,
    /// Fragments that it did not take: too large, too far ahead of the run, or not as promised.
    pub refused: u64,
    /// Lane bytes sent, resends included.
    pub sent_bytes: u64,
    /// Payload that waits for a decision.
    pub backlog_bytes: u64,
    /// The most that there was.
    pub backlog_peak_bytes: u64,
    /// Fragments that wait for a decision.
    pub backlog_fragments: u64,
    /// Fragments that no sink has accepted yet.
    pub uncommitted: u64,
    /// TCP segments that its kernel sent again.
    pub tcp_retransmits: u64,
    /// Lanes that were connected again.
    pub reconnects: u64,
    /// Data that it sent again.
    pub resends: u64,
    /// How many cores its process uses.
    pub processor_fraction: f64,
    /// Memory of its process; 0 if unknown.
    pub memory_bytes: u64,
}

/// What a builder said of itself last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BuilderLive {
    /// How long ago, s.
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
    /// How long ago its sink accepted an event, s.
    pub last_commit_age_s: Option<f64>,
    /// Trigger to last fragment, so far in this run.
    pub latency_us: Option<LatencySurvey>,
    /// Fragments with a wrong checksum.
    pub crc_errors: u64,
    /// Fragments that came after their event was over.
    pub late: u64,
    /// Fragments that came twice.
    pub duplicate: u64,
    /// Free bytes where its sink writes.
    pub sink_free_bytes: Option<u64>,
    /// How many there are in all.
    pub sink_size_bytes: Option<u64>,
    /// How many cores its process uses.
    pub processor_fraction: f64,
    /// Memory of its process; 0 if unknown.
    pub memory_bytes: u64,
    /// The histogram of latencies.
    #[serde(skip)]
    pub latencies: Latencies,
}

/// Latencies in short, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySurvey {
    /// Half of the events took no longer.
    pub p50: u64,
    /// 99 of 100 events took no longer.
    pub p99: u64,
    /// No event took longer.
    pub max: u64,
}

impl LatencySurvey {
    /// The summary of a histogram; `None` if it is empty.
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let micros = |part| Some(latencies.quantile(part)?.as_micros() as u64);
        Some(Self { p50: micros(0.5)?, p99: micros(0.99)?, max: micros(1.0)? })
    }
}

/// How often, and by how much, sources were the last of an event's.
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
    /// What it says of its lanes.
    pub(super) fn lanes(&self) -> &[LaneReport] {
        &self.counters.lanes
    }

    /// Payload that the sink accepted.
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
