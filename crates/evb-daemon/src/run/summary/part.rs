//! The summary of a process that does not host the supervisor: the counters of its roles, without
//! the ledger, which only the supervisor has.

use std::time::Duration;

use evb::role::RunOutcome;
use evb_core::{
    id::Peer,
    ledger::{
        BuilderSummary, NetworkCounts, PathSummary, Percentiles, Rates, RunPath, RunReport, SourceSummary,
    },
    wire::control::{LaneReport, RoleReport},
};

/// Returns the counters of this process's roles in the format of a run's summary.
pub(super) fn report(parts: &[(Peer, RunOutcome)]) -> RunReport {
    let mut report = RunReport::default();
    let mut latency = Percentiles::default();
    let (mut sources, mut builders, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for (peer, outcome) in parts {
        report.run = outcome.run.number();
        report.run_id = outcome.run_id;
        report.epoch = outcome.epoch.number();
        report.exit_code = report.exit_code.max(outcome.exit_code);
        report.verdict.clone_from(&outcome.verdict);
        match (peer, outcome.report.as_ref().and_then(|report| report.report.as_ref())) {
            (Peer::Source(id), Some(RoleReport::Source(own))) => {
                paths.extend(PathSummary::of(id.number(), own));
                let summary = SourceSummary::of(id.number(), own, &LaneReport::default());
                report.sources.push(SourceSummary { reported: true, ..summary });
                sources.push(own);
            }
            (Peer::Builder(id), Some(RoleReport::Builder(own))) => {
                latency.add(&own.latency_us, own.latency_max_us);
                let summary = BuilderSummary::of(id.number(), own);
                count(&mut report, &summary);
                report.builders.push(summary);
                builders.push(own);
            }
            _ => {}
        }
    }
    let longest = parts.iter().filter_map(|(_, outcome)| outcome.took_part).max();
    pace(&mut report, longest.unwrap_or_default());
    report.paths = PathSummary::worst(paths.into_iter());
    report.build_latency_us = latency.latency();
    let lanes = builders.iter().flat_map(|own| &own.lanes);
    report.network = NetworkCounts::of(sources.iter().copied(), lanes, builders.iter().copied());
    report.grant_path_us = RunPath::of(builders, sources);
    report
}

/// Fills in the time for which the roles took part, and their rates over that time.
fn pace(report: &mut RunReport, took_part: Duration) {
    report.duration_s = took_part.as_secs_f64();
    if !took_part.is_zero() {
        let built = report.events.complete + report.events.incomplete;
        report.rates = Rates {
            events_per_s: built as f64 / report.duration_s,
            payload_bytes_per_s: report.bytes.payload as f64 / report.duration_s,
        };
    }
}

/// Returns the report as JSON, without keys for unknown values: 0 would look measured.
pub(super) fn json(report: &RunReport) -> serde_json::Result<String> {
    let mut json = serde_json::to_value(report)?;
    if let Some(keys) = json.as_object_mut() {
        let has_time = report.duration_s > 0.0;
        for (key, is_known) in [
            ("duration_s", has_time),
            // Only builders know how many events were built.
            ("rates", has_time && !report.builders.is_empty()),
            // Only the supervisor knows the run's scale of UTC.
            ("begin", false),
            ("end", false),
            ("wall_clock", false),
            ("dead_time_fraction", false),
            ("busy_fraction", false),
        ] {
            if !is_known {
                keys.remove(key);
            }
        }
    }
    serde_json::to_string_pretty(&json)
}

/// Adds the counts of a builder to the report.
fn count(report: &mut RunReport, own: &BuilderSummary) {
    let events = &mut report.events;
    events.assigned += own.assigned;
    events.complete += own.complete;
    events.incomplete += own.incomplete;
    events.rejected += own.rejected;
    events.lost += own.lost;
    events.written += own.written;
    report.bytes.payload += own.payload_bytes;
}
