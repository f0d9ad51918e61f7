//! Percentiles of histograms from many peers, joined.

use serde::Serialize;

/// Percentiles of a time, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half of the values are not above this.
    pub p50: u64,
    /// 99 % of the values are not above this.
    pub p99: u64,
    /// 99.9 % of the values are not above this.
    pub p999: u64,
    /// No value is above this.
    pub max: u64,
}

/// How often something was timed, and percentiles of the time, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many values there are.
    pub count: u64,
    /// Half of them are not above this.
    pub p50: u64,
    /// 99 % are not above this.
    pub p99: u64,
    /// None is above this.
    pub max: u64,
}

/// A histogram as peers send it: pairs (value, count). Peers are not trusted: counts saturate.
#[derive(Clone, Debug, Default)]
pub struct Percentiles {
    pairs: Vec<(u64, u64)>,
    max: u64,
}

impl Percentiles {
    /// Adds a histogram of alternating values and counts; a value without a count is left out. `max` is the exact largest
    /// value where the sender knows it, since histograms round.
    pub fn add(&mut self, alternating: &[u64], max: u64) {
        let (pairs, _) = alternating.as_chunks::<2>();
        self.pairs
            .extend(pairs.iter().filter(|[_, count]| *count > 0).map(|[value, count]| (*value, *count)));
        self.max = self.max.max(max);
    }

    /// The same with their number.
    pub fn spread(&self) -> Spread {
        let Latency { p50, p99, max, .. } = self.latency();
        let count = self.pairs.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        Spread { count, p50, p99, max }
    }

    /// The percentiles of all that was added; `None` if that is nothing.
    pub fn measured(&self) -> Option<Latency> {
        (!self.pairs.is_empty()).then(|| self.latency())
    }

    /// The percentiles of all that was added; zeros if that is nothing.
    pub fn latency(&self) -> Latency {
        let mut sorted = self.pairs.clone();
        sorted.sort_unstable();
        let total = sorted.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        // In thousandths, rounded up, so that it is whole numbers throughout: the k-th smallest value.
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
