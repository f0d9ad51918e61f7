//! What a builder counts.

use hdrhistogram::Histogram;

use crate::{
    id::SourceId,
    lane::{IncomingDatagrams, RecoveryCounters, StageTimes},
    live::Latencies,
    time::Instant,
    wire::control::{BuilderReport, LaneReport, Live, Load},
};

/// A builder's counters; lost data is never only an error, it is counted here by source and cause.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) complete: u64,
    pub(super) incomplete: u64,
    pub(super) rejected: u64,
    pub(super) lost: u64,
    pub(super) written: u64,
    pub(super) payload_bytes: u64,
    pub(super) lanes: Vec<LaneReport>,
    /// Trigger to last fragment, in µs.
    latency: Histogram<u32>,
    latency_max: u64,
    /// The same, for reports so far.
    latencies: Latencies,
    pub(super) last_commit: Option<Instant>,
    /// Its part of the way from a grant to its data.
    pub(super) stages: StageTimes,
}

/// An hour in µs: later is counted as an hour.
const LATENCY_LIMIT: u64 = 3_600_000_000;

impl Counters {
    pub(super) fn new(sources: &[SourceId]) -> Self {
        let lane = |source: &SourceId| LaneReport { source: source.number().into(), ..LaneReport::default() };
        Self {
            complete: 0,
            incomplete: 0,
            rejected: 0,
            lost: 0,
            written: 0,
            payload_bytes: 0,
            lanes: sources.iter().map(lane).collect(),
            latency: Histogram::new_with_bounds(1, LATENCY_LIMIT, 3)
                .expect("the bounds are constants that fit"),
            latency_max: 0,
            latencies: Latencies::new(),
            last_commit: None,
            stages: StageTimes::default(),
        }
    }

    pub(super) fn record_latency(&mut self, nanos: u64) {
        let micros = (nanos + 500) / 1000;
        self.latency.saturating_record(micros);
        self.latencies.record(micros);
        self.latency_max = self.latency_max.max(micros);
    }

    pub(super) fn report(&self) -> BuilderReport {
        BuilderReport {
            latency_us: pairs(&self.latency),
            stages: self.stages.report(),
            ..self.report_so_far()
        }
    }

    /// What costs little to say again and again.
    pub(super) fn report_so_far(&self) -> BuilderReport {
        BuilderReport {
            complete: self.complete,
            incomplete: self.incomplete,
            rejected: self.rejected,
            lost: self.lost,
            written: self.written,
            payload_bytes: self.payload_bytes,
            lanes: self.lanes.clone(),
            latency_max_us: self.latency_max,
            ..BuilderReport::default()
        }
    }
}

impl Counters {
    /// What only a report so far says.
    pub(super) fn live(&self, load: &Load, now: Instant) -> Live {
        let since_commit = self.last_commit.map_or(0, |last| now.since(last).as_nanos().max(1));
        Live {
            building: load.building,
            at_sink: load.at_sink,
            since_commit_ns: u64::try_from(since_commit).unwrap_or(u64::MAX),
            latency: self.latencies.pairs(),
            ..Live::default()
        }
    }
}

/// What is counted of one lane's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Datagrams of the source that came.
    pub segments: u64,
    /// Datagrams of the source that never came, by their sequence.
    pub absent: u64,
    /// What was declared lost, and what became of it.
    pub recovery: RecoveryCounters,
}

impl DatagramCounters {
    /// Puts them into a lane's part of the final report.
    pub(super) fn report(&self, lane: &mut LaneReport) {
        lane.segments = self.segments;
        lane.absent = self.absent;
        lane.lost_bytes = self.recovery.lost_bytes;
        lane.resends = self.recovery.resends;
        lane.timeouts = self.recovery.timeouts;
        lane.late_after_loss = self.recovery.late_after_loss;
        lane.duplicate_segments = self.recovery.duplicates;
    }

    /// These and those of another association.
    pub(super) fn and(mut self, datagrams: &IncomingDatagrams) -> Self {
        self.segments += datagrams.segments;
        self.absent += datagrams.heard.absent();
        self.recovery += datagrams.recovery.counters();
        self
    }
}

fn pairs(histogram: &Histogram<u32>) -> Vec<u64> {
    histogram.iter_recorded().flat_map(|bin| [bin.value_iterated_to(), bin.count_at_value().into()]).collect()
}
