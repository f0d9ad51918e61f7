//! [`Counter`]: a counter of the table of counters, as programs and documentation show it.

use super::SourceSummary;
use crate::{trigger::numbers::AnnouncementCounts, wire::control::SourceReport};

/// A counter of sources or builders in a structure `S` for people and programs.
#[derive(Clone, Copy, Debug)]
pub struct Counter<S> {
    /// Name of the field, which is also its key in JSON.
    pub name: &'static str,
    /// The meaning, as in the source code.
    pub(crate) sentence: &'static str,
    /// The metric with this counter; `None` if there is none.
    pub metric: Option<Metric>,
    /// Rank of unused data and the label of their metric, which is empty if the counter has a
    /// metric of its own; `None` if the counter is not of unused data.
    pub unused: Option<(Rank, &'static str)>,
    /// Function that returns the count.
    pub value: fn(&S) -> u64,
}

/// Name of a metric, without the prefix `evb_`, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A number that only rises; the name lacks the ending `_total`.
    Counter(&'static str),
    /// A number that may fall.
    Gauge(&'static str),
}

/// Importance of data that are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// It is as intended, and only counted.
    Nothing,
    /// The report of the run remarks on it; no event lacks anything.
    Remark,
    /// The report of the run names it as a problem, and the exit code is 1.
    Problem,
}

impl<S> Counter<S> {
    /// Returns the meaning of the counter in one sentence.
    pub fn sentence(&self) -> &'static str {
        self.sentence.trim()
    }
}

impl Metric {
    /// Returns the full name, as in queries.
    pub fn full_name(self) -> String {
        match self {
            Self::Counter(name) => format!("evb_{name}_total"),
            Self::Gauge(name) => format!("evb_{name}"),
        }
    }
}

/// A structure with counters of a report `R`.
pub(crate) trait Counted<R> {
    /// Copies the counters of the report.
    fn copy(&mut self, report: &R);
}

/// Counters of triggers that are not taken.
pub const IGNORED_TRIGGERS: [Counter<AnnouncementCounts>; 3] = [
    ignored("repeated", (Rank::Remark, "repeated"), |counts| counts.repeated),
    ignored("too_far_ahead", (Rank::Problem, "too far ahead"), |counts| counts.too_far_ahead),
    ignored("before_start", (Rank::Remark, "before the start"), |counts| counts.before_start),
];

const fn ignored(
    name: &'static str,
    unused: (Rank, &'static str),
    value: fn(&AnnouncementCounts) -> u64,
) -> Counter<AnnouncementCounts> {
    let sentence = "Triggers that were not taken.";
    Counter { name, sentence, metric: None, unused: Some(unused), value }
}

/// Returns the numbers of fragments that a source has not used, by the reason, without zeros.
pub(crate) fn unused_of(own: &SourceReport) -> impl Iterator<Item = (&'static str, u64)> {
    let mut summary = SourceSummary::default();
    summary.copy(own);
    let counts = SourceSummary::COUNTERS.iter().filter_map(move |counter| {
        let (_, why) = counter.unused.filter(|(_, why)| !why.is_empty())?;
        Some((why, (counter.value)(&summary)))
    });
    counts.filter(|(_, count)| *count > 0)
}
