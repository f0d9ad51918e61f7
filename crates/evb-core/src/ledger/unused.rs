//! [`UNUSED`]: all ways in which data that arrive are not used.

use crate::wire::control::SourceReport;

/// Importance of data that are not used.
///
/// ```
/// use evb_core::ledger::{Rank, UNUSED};
///
/// let inhibited = UNUSED.iter().find(|way| way.counter == "sources[].inhibited");
/// assert_eq!(inhibited.map(|way| way.rank), Some(Rank::Nothing));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// It is as intended, and only counted.
    Nothing,
    /// The report of the run remarks on it; no event lacks anything.
    Remark,
    /// The report of the run names it as a problem, and the exit code is 1.
    Problem,
}

/// A way in which fragments or triggers that arrive are not used.
///
/// ```
/// use evb_core::ledger::{Rank, UNUSED};
///
/// let problems = UNUSED.iter().filter(|way| way.rank == Rank::Problem);
/// assert!(problems.map(|way| way.counter).any(|counter| counter == "sources[].contradictions"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Unused {
    /// Counter in the report of a run: the path of its key.
    pub counter: &'static str,
    /// Metric with this count.
    pub metric: &'static str,
    /// Value of the metric's label that tells this way from others; empty if there is no such
    /// label.
    pub why: &'static str,
    /// Importance of such data.
    pub rank: Rank,
    /// Count in the report of a source; `None` if sources do not count it.
    of_source: Option<fn(&SourceReport) -> u64>,
}

/// The metric with the fragments that sources do not use, by the reason.
const FRAGMENTS: &str = "evb_source_unused_fragments_total";
/// The metric with the triggers that are not taken, by the reason.
const TRIGGERS: &str = "evb_ignored_triggers_total";

const fn of_source(
    counter: &'static str,
    why: &'static str,
    rank: Rank,
    count: fn(&SourceReport) -> u64,
) -> Unused {
    Unused { counter, metric: FRAGMENTS, why, rank, of_source: Some(count) }
}

const fn of_others(counter: &'static str, metric: &'static str, why: &'static str, rank: Rank) -> Unused {
    Unused { counter, metric, why, rank, of_source: None }
}

/// All ways in which fragments and triggers that arrive are not used. The page
/// `docs/reference/unused-data.md` describes them in the same order.
pub const UNUSED: [Unused; 17] = [
    of_source("sources[].inhibited", "inhibited", Rank::Nothing, |own| own.inhibited),
    of_others("sources[].uncommitted", "evb_source_uncommitted_fragments", "", Rank::Nothing),
    of_others("sources[].duplicate", "evb_builder_duplicate_fragments_total", "", Rank::Nothing),
    of_source("sources[].discarded_before_start", "before the start", Rank::Remark, |own| {
        own.discarded_before_start
    }),
    of_source("sources[].of_other_runs", "of another run", Rank::Remark, |own| own.of_other_runs),
    of_source("sources[].malformed", "malformed", Rank::Remark, |own| own.malformed),
    of_source("sources[].repeats", "repeated", Rank::Remark, |own| own.repeats),
    of_source("sources[].repeats_not_compared", "not compared", Rank::Remark, |own| own.repeats_not_compared),
    of_source("sources[].unexpected", "no trigger", Rank::Remark, |own| own.unexpected),
    of_source("sources[].closed", "event closed", Rank::Problem, |own| own.closed),
    of_source("sources[].contradictions", "contradicting", Rank::Problem, |own| own.contradictions),
    of_source("sources[].refused", "refused", Rank::Problem, |own| own.refused),
    of_others("sources[].late", "evb_builder_late_fragments_total", "", Rank::Problem),
    of_others("sources[].crc_errors", "evb_builder_crc_errors_total", "", Rank::Problem),
    of_others("triggers.before_start", TRIGGERS, "before the start", Rank::Remark),
    of_others("triggers.repeated", TRIGGERS, "repeated", Rank::Remark),
    of_others("triggers.too_far_ahead", TRIGGERS, "too far ahead", Rank::Problem),
];

/// Returns the numbers of fragments that a source has not used, by the reason, without zeros.
pub(crate) fn of_report(own: &SourceReport) -> impl Iterator<Item = (&'static str, u64)> {
    let counts = UNUSED.iter().filter_map(|way| Some((way.why, way.of_source?(own))));
    counts.filter(|(_, count)| *count > 0)
}
