//! A histogram of latencies that processes can send each other: every factor of 2 is divided into
//! 32 buckets.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const STEPS_BITS: u32 = 5;
const STEPS: u64 = 1 << STEPS_BITS;

/// Histogram of latencies, with a resolution of 3 %.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    counts: BTreeMap<u32, u64>,
    max_ns: u64,
}

impl Latencies {
    /// Adds one latency to the histogram.
    pub fn record(&mut self, nanoseconds: u64) {
        *self.counts.entry(bucket(nanoseconds)).or_default() += 1;
        self.max_ns = self.max_ns.max(nanoseconds);
    }

    /// Adds the counts of another histogram, such as that of another process.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            *self.counts.entry(*bucket).or_default() += count;
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the 50 %, 99 % and 99.9 % quantiles and the maximum; `None` if the histogram is
    /// empty.
    pub fn summary(&self) -> Option<LatencySummary> {
        let total: u64 = self.counts.values().sum();
        (total > 0).then(|| LatencySummary {
            p50: self.quantile(0.5, total),
            p99: self.quantile(0.99, total),
            p999: self.quantile(0.999, total),
            max: self.max_ns as f64 / 1e3,
        })
    }

    fn quantile(&self, fraction: f64, total: u64) -> f64 {
        let wanted = ((total as f64 * fraction).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.counts {
            seen += count;
            if seen >= wanted {
                return upper_edge(*bucket).min(self.max_ns) as f64 / 1e3;
            }
        }
        self.max_ns as f64 / 1e3
    }
}

/// Quantiles of the build latency, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencySummary {
    /// Largest latency of the fastest 50 % of the events.
    pub p50: f64,
    /// Largest latency of the fastest 99 % of the events.
    pub p99: f64,
    /// Largest latency of the fastest 99.9 % of the events.
    pub p999: f64,
    /// Largest latency of all events.
    pub max: f64,
}

fn bucket(value: u64) -> u32 {
    if value < STEPS {
        return value as u32;
    }
    let octave = value.ilog2() - STEPS_BITS;
    (octave + 1) * STEPS as u32 + ((value >> octave) - STEPS) as u32
}

fn upper_edge(bucket: u32) -> u64 {
    let (octave, step) = (u64::from(bucket) / STEPS, u64::from(bucket) % STEPS);
    if octave == 0 {
        return step;
    }
    ((STEPS + step + 1) << (octave - 1)).wrapping_sub(1)
}
