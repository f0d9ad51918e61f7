//! [`RunPath`]: the time from a grant to its data, split into stages.
//!
//! ```text
//! grant ─ builder's write ─ wire ─ source's wake-up ─ source's answer
//!       ─ wire, queues ─ builder's wake-up ─ first byte
//! ```
//!
//! Each stage is sampled with the clock of one host. The time between hosts is derived.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::{Latency, Percentiles};
use crate::wire::control::{BuilderReport, GrantStages, SourceReport};

/// Durations of a builder's grants, µs. The credit limit L must cover the data that the builder's
/// port drains in the time C from a grant to its last byte: C·R ≤ L, where R is the port's rate.
///
/// ```
/// use std::time::Duration;
///
/// use evb_core::{
///     ledger::{GrantPath, Latency},
///     units::{Bytes, Rate},
/// };
///
/// // The credit limit that keeps a port of 10 Gbit/s busy.
/// let last_byte = Latency { p50: 120, p99: 200, p999: 260, max: 300 };
/// let path = GrantPath { last_byte, ..GrantPath::default() };
/// let port = Rate::from_bits_per_second(10_000_000_000);
/// assert_eq!(port * Duration::from_micros(path.last_byte.p99), Bytes::new(250_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GrantPath {
    /// Time to the first byte; it includes the wake-ups of builder and source, the network, and the
    /// port's queue.
    pub first_byte: Latency,
    /// Time to the last byte. The arrival of the last byte makes room for the next grant.
    pub last_byte: Latency,
    /// Time to the end of the write that carries the grant; `None` if not measured.
    pub builder_write: Option<Latency>,
    /// Time from the kernel's receipt of data to the builder's read; `None` if not measured.
    pub builder_wake_up: Option<Latency>,
}

impl GrantPath {
    /// Computes the durations from a builder's final report.
    pub fn of(report: &BuilderReport) -> Self {
        let path = RunPath::of([report], []);
        let RunPath { first_byte, last_byte, builder_write, builder_wake_up, .. } = path;
        Self { first_byte, last_byte, builder_write, builder_wake_up }
    }
}

/// A source's stages of the time from a grant to its data, µs.
///
/// ```
/// use evb_core::ledger::{AnswerPath, Latency};
///
/// let source_answer = Some(Latency { p50: 9, p99: 30, p999: 45, max: 80 });
/// let path = AnswerPath { source_wake_up: None, source_answer };
/// assert!(path.source_wake_up.is_none(), "this kernel gives no receive times");
/// assert_eq!(path.source_answer.map(|answer| answer.p50), Some(9));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerPath {
    /// Time from the kernel's receipt of a grant to the source's read; `None` if not measured.
    pub source_wake_up: Option<Latency>,
    /// Time from the read of a grant to the end of the write of its first data; `None` if not
    /// measured.
    pub source_answer: Option<Latency>,
}

impl AnswerPath {
    /// Computes the durations from a source's final report.
    pub fn of(report: &SourceReport) -> Self {
        let RunPath { source_wake_up, source_answer, .. } = RunPath::of([], [report]);
        Self { source_wake_up, source_answer }
    }
}

/// The time from a grant to its data by stage, over all builders and sources of a run, µs.
///
/// ```
/// use evb_core::ledger::{Latency, RunPath};
///
/// let median = |p50| Latency { p50, ..Latency::default() };
/// let mut path = RunPath { first_byte: median(90), ..RunPath::default() };
/// assert_eq!(path.measured(), None);
/// path.builder_write = Some(median(5));
/// path.source_wake_up = Some(median(30));
/// path.source_answer = Some(median(9));
/// path.builder_wake_up = Some(median(20));
/// assert_eq!(path.measured(), Some(64), "of 90 µs");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunPath {
    /// Time from the grant to its first byte.
    pub first_byte: Latency,
    /// Time from the grant to its last byte.
    pub last_byte: Latency,
    /// Time from the grant to the end of the write that carries it; `None` if not measured.
    pub builder_write: Option<Latency>,
    /// Time from the kernel's receipt of a grant to the source's read; `None` if not measured.
    pub source_wake_up: Option<Latency>,
    /// Time from the read of a grant to the end of the write of its first data; `None` if not
    /// measured.
    pub source_answer: Option<Latency>,
    /// Time from the kernel's receipt of data to the builder's read; `None` if not measured.
    pub builder_wake_up: Option<Latency>,
    /// Remainder of the time to the first byte that no stage covers; `None` if a stage was not
    /// measured.
    pub derived_rest: Option<DerivedRest>,
}

/// Time that no single host can measure: on the wire, in the switch, and in queues, including that
/// of the builder's port. This remainder is derived from the measured durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DerivedRest {
    /// Median time to the first byte minus the medians of all measured stages, at least zero.
    pub p50: u64,
}

impl RunPath {
    /// Combines the final reports of builders and sources.
    pub fn of<'a>(
        builders: impl IntoIterator<Item = &'a BuilderReport>,
        sources: impl IntoIterator<Item = &'a SourceReport>,
    ) -> Self {
        let mut of_builders: [Percentiles; 4] = Default::default();
        for report in builders {
            let (wake, write) = stages(report.stages.as_deref());
            let histograms = [&report.grant_first_byte_us, &report.grant_delay_us, write, wake];
            of_builders.iter_mut().zip(histograms).for_each(|(joined, own)| joined.add(own, 0));
        }
        let mut of_sources: [Percentiles; 2] = Default::default();
        for report in sources {
            let (wake, answer) = stages(report.stages.as_deref());
            let histograms = [wake, answer];
            of_sources.iter_mut().zip(histograms).for_each(|(joined, own)| joined.add(own, 0));
        }
        let [first_byte, last_byte, write, wake_up] = of_builders;
        let [source_wake_up, answer] = of_sources;
        let mut path = Self {
            first_byte: first_byte.latency(),
            last_byte: last_byte.latency(),
            builder_write: write.measured(),
            source_wake_up: source_wake_up.measured(),
            source_answer: answer.measured(),
            builder_wake_up: wake_up.measured(),
            derived_rest: None,
        };
        let is_measured = first_byte.measured().is_some();
        path.derived_rest = path.measured().filter(|_| is_measured).map(|sum| path.rest_beside(sum));
        path
    }

    /// Returns the sum of the medians of all stages; `None` if a stage was not measured.
    pub fn measured(&self) -> Option<u64> {
        let stages = [self.builder_write, self.source_wake_up, self.source_answer, self.builder_wake_up];
        stages.into_iter().try_fold(0, |sum: u64, stage| Some(sum.saturating_add(stage?.p50)))
    }

    fn rest_beside(&self, measured: u64) -> DerivedRest {
        DerivedRest { p50: self.first_byte.p50.saturating_sub(measured) }
    }
}

/// Returns the histograms of wake-ups and writes; empty histograms if the peer reports none.
fn stages(report: Option<&GrantStages>) -> (&[u64], &[u64]) {
    report.map_or((&[], &[]), |stages| (&stages.wake_us, &stages.write_us))
}
