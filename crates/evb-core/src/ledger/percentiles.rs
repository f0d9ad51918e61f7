//! Percentiles of histograms that are combined from many peers.

use serde::Serialize;

/// Percentiles of measured durations, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Median of the durations.
    pub p50: u64,
    /// 99th percentile of the durations.
    pub p99: u64,
    /// 99.9th percentile of the durations.
    pub p999: u64,
    /// Maximum of the durations.
    pub max: u64,
}

/// Number and percentiles of measured durations, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Number of measured durations.
    pub count: u64,
    /// Median of the durations.
    pub p50: u64,
    /// 99th percentile of the durations.
    pub p99: u64,
    /// Maximum of the durations.
    pub max: u64,
}

/// A histogram as peers send it: pairs of a value and its count. Peers may send wrong numbers, so
/// sums of counts saturate.
#[derive(Clone, Debug, Default)]
pub struct Percentiles {
    pairs: Vec<(u64, u64)>,
    max: u64,
}

impl Percentiles {
    /// Adds a histogram of alternating values and counts; ignores a last value without a count.
    /// `max` is the exact maximum if the sender knows it, because histograms round their values;
    /// otherwise 0.
    pub fn add(&mut self, alternating: &[u64], max: u64) {
        let (pairs, _) = alternating.as_chunks::<2>();
        self.pairs
            .extend(pairs.iter().filter(|[_, count]| *count > 0).map(|[value, count]| (*value, *count)));
        self.max = self.max.max(max);
    }

    /// Returns the number of values and their percentiles.
    pub fn spread(&self) -> Spread {
        let Latency { p50, p99, max, .. } = self.latency();
        let count = self.pairs.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        Spread { count, p50, p99, max }
    }

    /// Returns the percentiles of all values; `None` if no values were added.
    pub fn measured(&self) -> Option<Latency> {
        (!self.pairs.is_empty()).then(|| self.latency())
    }

    /// Returns the percentiles of all values; zeros if no values were added.
    pub fn latency(&self) -> Latency {
        let mut sorted = self.pairs.clone();
        sorted.sort_unstable();
        let total = sorted.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        // Ranks are computed in thousandths, rounded up, so that the arithmetic stays in integers:
        // the result is the k-th smallest value.
        let at = |thousandths: u128| {
            let rank = (u128::from(total) * thousandths).div_ceil(1000);
            let mut seen = 0u128;
            let found = sorted.iter().find(|(_, count)| {
                seen += u128::from(*count);
                seen >= rank
            });
            found.map_or(0, |(value, _)| *value)
        };
        let largest = sorted.last().map_or(0, |(value, _)| *value);
        let max = if self.max > 0 { self.max } else { largest };
        Latency { p50: at(500).min(max), p99: at(990).min(max), p999: at(999).min(max), max }
    }
}
