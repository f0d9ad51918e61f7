//! The table of unused data, the report of a run, and `docs/reference/unused-data.md` agree.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{collections::BTreeSet, fs, path::Path};

use evb_core::ledger::{Rank, RunReport, SourceSummary, UNUSED};
use serde_json::Value;

/// Counts that are not of unused data: what was used, repaired or measured.
const USED: [&str; 17] = [
    "sources[].id",
    "sources[].pushed",
    "sources[].pushed_bytes",
    "sources[].sent_bytes",
    "sources[].committed",
    "sources[].fragments",
    "sources[].payload_bytes",
    "sources[].missing",
    "sources[].kept_before_start",
    "sources[].front_end_protocol",
    "sources[].run_not_stated",
    "sources[].last",
    "sources[].tcp_retransmits",
    "sources[].resends",
    "sources[].stalls",
    "sources[].reconnects",
    "sources[].backlog_peak_bytes",
];

/// Counts of triggers that were taken, and of the trigger program's restarts.
const TAKEN: [&str; 2] = ["triggers.unannounced", "triggers.restarts"];

/// Returns the keys of an object whose values are counts.
fn counts(object: &Value, path: &str) -> BTreeSet<String> {
    let members = object.as_object().unwrap().iter();
    members.filter(|(_, value)| value.is_u64()).map(|(key, _)| format!("{path}.{key}")).collect()
}

/// A new counter of a source or of triggers has to be in one of the lists.
#[test]
fn every_count_of_the_report_is_of_used_or_of_unused_data() {
    let report = RunReport { sources: vec![SourceSummary::default()], ..RunReport::default() };
    let report = serde_json::to_value(report).unwrap();
    let mut found = counts(&report["sources"][0], "sources[]");
    found.extend(counts(&report["triggers"], "triggers"));
    let unused = UNUSED.iter().map(|way| way.counter);
    let listed: BTreeSet<String> = unused.chain(USED).chain(TAKEN).map(ToOwned::to_owned).collect();
    assert_eq!(found, listed);
}

#[test]
fn the_page_lists_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/unused-data.md");
    let page = fs::read_to_string(path).unwrap();
    let rows: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`') && !line.contains("`why`"))
        .map(|line| line.splitn(3, " | ").skip(1).collect::<Vec<_>>().join(" | "))
        .collect();
    let expected = UNUSED.map(|way| {
        let why = if way.why.is_empty() { String::new() } else { format!(", `{}`", way.why) };
        let rank = match way.rank {
            Rank::Nothing => "nothing",
            Rank::Remark => "remark",
            Rank::Problem => "problem",
        };
        format!("`{}` | `{}`{why} | {rank} |", way.counter, way.metric)
    });
    // The first column may contain a link with the same separator.
    for (row, expected) in rows.iter().zip(&expected) {
        assert!(row.ends_with(expected.as_str()), "{row}\n{expected}");
    }
    assert_eq!(rows.len(), expected.len());
}
