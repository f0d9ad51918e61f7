//! The table of counters, the report of a run, and `docs/reference/unused-data.md` agree. With
//! `EVB_BLESS=1` in the environment, a test writes the rows of the page.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{collections::BTreeSet, env, fs, path::Path};

use evb_core::ledger::{Counter, IGNORED_TRIGGERS, Metric, Rank, RunReport, SourceSummary};
use serde_json::Value;

/// Counts of a source that do not come from the table of counters, which tells the others apart.
const OWN: [&str; 4] = ["sources[].id", "sources[].missing", "sources[].absent", "sources[].missing_at_end"];

/// Counts of triggers that were taken, and of the trigger program's restarts.
const TAKEN: [&str; 2] = ["triggers.unannounced", "triggers.restarts"];

/// A row of the page behind its first column.
struct Unused {
    /// Path of the counter's key.
    counter: String,
    metric: String,
    why: &'static str,
    rank: Rank,
    sentence: &'static str,
}

impl Unused {
    /// Returns the row of a counter; `shared` is the metric of the counters with a label `why`.
    fn of<S>(counter: &Counter<S>, part: &str, shared: &str) -> Option<Self> {
        let (rank, why) = counter.unused?;
        let own = counter.metric.filter(|_| why.is_empty()).map(Metric::full_name);
        let (metric, sentence) = (own.unwrap_or_else(|| shared.to_owned()), counter.sentence());
        Some(Self { counter: format!("{part}.{}", counter.name), metric, why, rank, sentence })
    }
}

/// Returns all ways in which data that arrive are not used.
fn unused() -> impl Iterator<Item = Unused> {
    let counters = SourceSummary::COUNTERS.iter();
    let fragments =
        counters.filter_map(|way| Unused::of(way, "sources[]", "evb_source_unused_fragments_total"));
    let triggers = IGNORED_TRIGGERS.iter();
    fragments.chain(triggers.filter_map(|way| Unused::of(way, "triggers", "evb_ignored_triggers_total")))
}

/// Returns the keys of an object whose values are counts.
fn counts(object: &Value, path: &str) -> BTreeSet<String> {
    let members = object.as_object().unwrap().iter();
    members.filter(|(_, value)| value.is_u64()).map(|(key, _)| format!("{path}.{key}")).collect()
}

/// A new count of a source or of triggers has to be in the table or in one of the lists.
#[test]
fn every_count_of_the_report_is_of_used_or_of_unused_data() {
    let report = RunReport { sources: vec![SourceSummary::default()], ..RunReport::default() };
    let report = serde_json::to_value(report).unwrap();
    let mut found = counts(&report["sources"][0], "sources[]");
    found.extend(counts(&report["triggers"], "triggers"));
    let used = SourceSummary::COUNTERS.iter().filter(|counter| counter.unused.is_none());
    let used = used.map(|counter| format!("sources[].{}", counter.name));
    let others = OWN.into_iter().chain(TAKEN).map(ToOwned::to_owned);
    let listed: BTreeSet<String> = unused().map(|way| way.counter).chain(used).chain(others).collect();
    assert_eq!(found, listed);
}

/// Returns a row of the page behind its first column, which may have links.
fn columns(way: &Unused) -> String {
    let why = if way.why.is_empty() { String::new() } else { format!(", `{}`", way.why) };
    let rank = match way.rank {
        Rank::Nothing => "nothing",
        Rank::Remark => "remark",
        Rank::Problem => "problem",
    };
    format!("`{}` | `{}`{why} | {rank} |", way.counter, way.metric)
}

/// Returns the page with the rows of the table. New rows come last.
fn with_rows(page: &str) -> String {
    let mut ways: Vec<Unused> = unused().collect();
    let (mut lines, mut is_table) = (Vec::new(), false);
    for line in page.lines() {
        let is_row = line.starts_with("| ") && !line.starts_with("| not used |");
        if is_table && !is_row && !line.starts_with('|') {
            let new = ways
                .drain(..)
                .map(|way| format!("| {} | {}", way.sentence.trim_end_matches('.'), columns(&way)));
            lines.extend(new);
        }
        is_table = line.starts_with('|');
        if !is_row {
            lines.push(line.to_owned());
        }
        let way = ways.iter().position(|way| is_row && line.contains(&format!(" | `{}` | ", way.counter)));
        if let Some(way) = way.map(|at| ways.remove(at)) {
            let (first, _) = line.split_once(&format!(" | `{}` | ", way.counter)).unwrap();
            lines.push(format!("{first} | {}", columns(&way)));
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_page_lists_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/unused-data.md");
    let page = fs::read_to_string(&path).unwrap();
    let made = with_rows(&page);
    if env::var_os("EVB_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
        return;
    }
    for (row, expected) in page.lines().zip(made.lines()) {
        assert_eq!(row, expected, "EVB_BLESS=1 cargo test -p evb-core --test unused_data");
    }
    assert_eq!(page.lines().count(), made.lines().count());
}
