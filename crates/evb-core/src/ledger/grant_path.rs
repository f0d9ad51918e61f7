//! [`RunPath`]: the time from a grant to its data, by stage.
//!
//! ```text
//! grant ─ builder's write ─ wire ─ source's wake-up ─ source's answer
//!       ─ wire, queues ─ builder's wake-up ─ first byte
//! ```
//!
//! Each stage is measured by one host's clock and sampled. What lies between hosts is derived.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::{Latency, Percentiles};
use crate::wire::control::{BuilderReport, GrantStages, SourceReport};

/// Durations of a builder's grants, µs. The budget L must cover the data that its port drains in
/// that time (C·R ≤ L).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GrantPath {
    /// Time to the first byte: both hosts' wake-ups, the network, and the port's queue.
    pub first_byte: Latency,
    /// Time to the last byte, when the next grant may take this one's place.
    pub last_byte: Latency,
    /// Time to the end of the write that carries the grant; `None` if not measured.
    pub builder_write: Option<Latency>,
    /// Time from the kernel's receipt of data to the builder's read; `None` if not measured.
    pub builder_wake_up: Option<Latency>,
}

impl GrantPath {
    /// Reads a builder's final report.
    pub fn of(report: &BuilderReport) -> Self {
        let path = RunPath::of([report], []);
        let RunPath { first_byte, last_byte, builder_write, builder_wake_up, .. } = path;
        Self { first_byte, last_byte, builder_write, builder_wake_up }
    }
}

/// A source's part of the way from a grant to its data, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerPath {
    /// Time from the kernel's receipt of a grant to the source's read; `None` if not measured.
    pub source_wake_up: Option<Latency>,
    /// Time from the read of a grant to the end of its first data's write; `None` if not measured.
    pub source_answer: Option<Latency>,
}

impl AnswerPath {
    /// Reads a source's final report.
    pub fn of(report: &SourceReport) -> Self {
        let RunPath { source_wake_up, source_answer, .. } = RunPath::of([], [report]);
        Self { source_wake_up, source_answer }
    }
}

/// The time from a grant to its data by stage, over all builders and sources of a run, µs.
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
    /// Time from the read of a grant to the end of its first data's write; `None` if not measured.
    pub source_answer: Option<Latency>,
    /// Time from the kernel's receipt of data to the builder's read; `None` if not measured.
    pub builder_wake_up: Option<Latency>,
    /// The rest of the time to the first byte; `None` if a stage was not measured.
    pub derived_rest: Option<DerivedRest>,
}

/// The part of the way that no single clock sees: wire, switch, and queues, including the port's.
/// It is derived, not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DerivedRest {
    /// Median time to the first byte less the medians of all measured stages, at least zero.
    pub p50: u64,
}

impl RunPath {
    /// Joins the final reports of builders and sources.
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

    /// Returns the sum of the medians of all measured stages; `None` if one was not measured.
    pub fn measured(&self) -> Option<u64> {
        let stages = [self.builder_write, self.source_wake_up, self.source_answer, self.builder_wake_up];
        stages.into_iter().try_fold(0, |sum: u64, stage| Some(sum.saturating_add(stage?.p50)))
    }

    fn rest_beside(&self, measured: u64) -> DerivedRest {
        DerivedRest { p50: self.first_byte.p50.saturating_sub(measured) }
    }
}

/// Returns the histograms of wake-ups and writes; both are empty if the peer reports none.
fn stages(report: Option<&GrantStages>) -> (&[u64], &[u64]) {
    report.map_or((&[], &[]), |stages| (&stages.wake_us, &stages.write_us))
}
