//! [`Latency`]: the times from an event's trigger to its last fragment.

use hdrhistogram::Histogram;

use crate::{live::Latencies, wire::control::BuilderReport};

/// One hour in µs. Longer latencies count as one hour.
const LIMIT: u64 = 3_600_000_000;

/// Latencies of complete events, in µs.
#[derive(Debug)]
pub(super) struct Latency {
    histogram: Histogram<u32>,
    max: u64,
    /// Same latencies as in `histogram` in coarser buckets, for periodic reports.
    coarse: Latencies,
}

impl Latency {
    /// Returns empty histograms.
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LIMIT, 3).expect("the bounds are constants that fit");
        Self { histogram, max: 0, coarse: Latencies::new() }
    }

    /// Counts one latency, given in ns.
    #[inline]
    pub(super) fn record(&mut self, nanos: u64) {
        let micros = (nanos + 500) / 1000;
        self.histogram.saturating_record(micros);
        self.coarse.record(micros);
        self.max = self.max.max(micros);
    }

    /// Returns the longest latency.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Returns the coarse histogram for periodic reports.
    pub(super) fn coarse(&self) -> &Latencies {
        &self.coarse
    }

    /// Copies the fine histogram into a final report.
    pub(super) fn report(&self, report: &mut BuilderReport) {
        let bins = self.histogram.iter_recorded();
        report.latency_us =
            bins.flat_map(|bin| [bin.value_iterated_to(), bin.count_at_value().into()]).collect();
    }
}
