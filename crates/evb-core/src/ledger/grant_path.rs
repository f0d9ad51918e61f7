//! [`RunPath`]: where the time goes from a grant to its data, by stage.
//!
//! ```text
//!   grant ─ builder's write ─ wire ─ source's wake-up ─ source's answer ─ wire, queues ─ builder's wake-up ─ first byte
//! ```
//!
//! Each stage is measured by one host's clock and sampled. What lies between hosts is derived.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::{Latency, Percentiles};
use crate::wire::control::{BuilderReport, GrantStages, SourceReport};

/// Durations of a builder's grants, µs. What its port drains in that time must fit into the budget (C·R ≤ L).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GrantPath {
    /// From the grant to its first byte: both hosts' wake-ups, the network, and what was ahead in the port.
    pub first_byte: Latency,
    /// From the grant to its last byte, when the next one may take its place.
    pub last_byte: Latency,
    /// From the grant to the end of the write that carries it; `None`: not measured.
    pub builder_write: Option<Latency>,
    /// From the kernel's receipt of what comes to the builder's read; `None`: not measured.
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
    /// From the kernel's receipt of a grant to the source's read; `None`: not measured.
    pub source_wake_up: Option<Latency>,
    /// From the read of a grant to the end of the write of its first data; `None`: not measured.
    pub source_answer: Option<Latency>,
}

impl AnswerPath {
    /// Reads a source's final report.
    pub fn of(report: &SourceReport) -> Self {
        let RunPath { source_wake_up, source_answer, .. } = RunPath::of([], [report]);
        Self { source_wake_up, source_answer }
    }
}

/// Where the time goes from a grant to its data, over all builders and sources of a run, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunPath {
    /// From the grant to its first byte.
    pub first_byte: Latency,
    /// From the grant to its last byte.
    pub last_byte: Latency,
    /// From the grant to the end of the write that carries it; `None`: not measured.
    pub builder_write: Option<Latency>,
    /// From the kernel's receipt of a grant to the source's read; `None`: not measured.
    pub source_wake_up: Option<Latency>,
    /// From the read of a grant to the end of the write of its first data; `None`: not measured.
    pub source_answer: Option<Latency>,
    /// From the kernel's receipt of what comes to the builder's read; `None`: not measured.
    pub builder_wake_up: Option<Latency>,
    /// What is left; `None` where a stage was not measured.
    pub derived_rest: Option<DerivedRest>,
}

/// The part of the way that no single clock sees: wire, switch, and queues, the port's among them. Derived, not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DerivedRest {
    /// The median to the first byte less the medians of all measured stages; zero if those are more.
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

/// Histograms of wake-ups and writes; empty ones of who reports none.
fn stages(report: Option<&GrantStages>) -> (&[u64], &[u64]) {
    report.map_or((&[], &[]), |stages| (&stages.wake_us, &stages.write_us))
}
