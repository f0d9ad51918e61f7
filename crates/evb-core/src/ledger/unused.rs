//! [`unused`]: all ways in which data that arrive are not used.

use super::{
    SourceSummary,
    counter::{Counted, Metric, Rank},
};
use crate::wire::control::SourceReport;

/// A way in which fragments or triggers that arrive are not used.
///
/// ```
/// use evb_core::ledger::{Rank, unused};
///
/// let mut problems = unused().filter(|way| way.rank == Rank::Problem);
/// assert!(problems.any(|way| way.counter == "sources[].contradictions"));
/// ```
#[derive(Clone, Debug)]
pub struct Unused {
    /// Counter in the report of a run: the path of its key.
    pub counter: String,
    /// Metric with this count.
    pub metric: String,
    /// Value of the metric's label that tells this way from others; empty if there is no such
    /// label.
    pub why: &'static str,
    /// Importance of such data.
    pub rank: Rank,
}

/// The metric with the fragments that sources do not use, by the reason.
const FRAGMENTS: &str = "evb_source_unused_fragments_total";
/// The metric with the triggers that are not taken, by the reason.
const TRIGGERS: &str = "evb_ignored_triggers_total";

/// Counts of triggers that are not taken.
const OF_TRIGGERS: [(&str, &str, Rank); 3] = [
    ("before_start", "before the start", Rank::Remark),
    ("repeated", "repeated", Rank::Remark),
    ("too_far_ahead", "too far ahead", Rank::Problem),
];

/// Returns all ways in which fragments and triggers that arrive are not used. The page
/// `docs/reference/unused-data.md` describes them.
pub fn unused() -> impl Iterator<Item = Unused> {
    let fragments = SourceSummary::COUNTERS.iter().filter_map(|counter| {
        let (rank, why) = counter.unused?;
        let metric = counter.metric.filter(|_| why.is_empty()).map(Metric::full_name);
        let metric = metric.unwrap_or_else(|| FRAGMENTS.to_owned());
        Some(Unused { counter: format!("sources[].{}", counter.name), metric, why, rank })
    });
    let triggers = OF_TRIGGERS.into_iter().map(|(name, why, rank)| Unused {
        counter: format!("triggers.{name}"),
        metric: TRIGGERS.to_owned(),
        why,
        rank,
    });
    fragments.chain(triggers)
}

/// Returns the numbers of fragments that a source has not used, by the reason, without zeros.
pub(crate) fn of_report(own: &SourceReport) -> impl Iterator<Item = (&'static str, u64)> {
    let mut summary = SourceSummary::default();
    summary.copy(own);
    let counts = SourceSummary::COUNTERS.iter().filter_map(move |counter| {
        let (_, why) = counter.unused.filter(|(_, why)| !why.is_empty())?;
        Some((why, (counter.value)(&summary)))
    });
    counts.filter(|(_, count)| *count > 0)
}
