//! The summary of a process that does not host the supervisor: the counters of its roles, without
//! the ledger, which only the supervisor has.

use std::time::Duration;

use evb::role::RunOutcome;
use evb_core::{
    id::Peer,
    ledger::{
        AnswerPath, BuilderSummary, GrantPath, PacingSummary, PathSummary, Percentiles, Rates, RunPath,
        RunReport, SourceSummary,
    },
    wire::control::{BuilderReport, RoleReport, SourceReport},
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
                report.network.tcp_retransmits += own.tcp_retransmits;
                paths.extend(PathSummary::of(id.number(), own));
                report.sources.push(source(id.number(), own));
                sources.push(own);
            }
            (Peer::Builder(id), Some(RoleReport::Builder(own))) => {
                latency.add(&own.latency_us, own.latency_max_us);
                count(&mut report, own);
                report.builders.push(builder(id.number(), own));
                builders.push(own);
            }
            _ => {}
        }
    }
    let longest = parts.iter().filter_map(|(_, outcome)| outcome.took_part).max();
    pace(&mut report, longest.unwrap_or_default());
    report.paths = PathSummary::worst(paths.into_iter());
    report.build_latency_us = latency.latency();
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

fn count(report: &mut RunReport, own: &BuilderReport) {
    let events = &mut report.events;
    events.complete += own.complete;
    events.incomplete += own.incomplete;
    events.rejected += own.rejected;
    events.lost += own.lost;
    events.written += own.written;
    events.assigned += own.complete + own.incomplete + own.rejected + own.lost;
    report.bytes.payload += own.payload_bytes;
    for lane in &own.lanes {
        report.network.late += lane.late;
        report.network.duplicates += lane.duplicate;
        report.network.crc_errors += lane.crc_errors;
    }
}

fn source(id: u16, own: &SourceReport) -> SourceSummary {
    SourceSummary {
        id,
        reported: true,
        pushed: own.pushed,
        pushed_bytes: own.pushed_bytes,
        sent_bytes: own.sent_bytes,
        committed: own.committed,
        repeats: own.repeats,
        repeats_not_compared: own.repeats_not_compared,
        contradictions: own.contradictions,
        contradiction: own.contradiction.map(Into::into),
        unexpected: own.unexpected,
        refused: own.refused,
        kept_before_start: own.kept_before_start,
        discarded_before_start: own.discarded_before_start,
        of_other_runs: own.of_other_runs,
        malformed: own.malformed,
        front_end_protocol: own.front_end_protocol,
        run_not_stated: own.run_not_stated,
        inhibited: own.inhibited,
        closed: own.closed,
        uncommitted: own.uncommitted,
        tcp_retransmits: own.tcp_retransmits,
        resends: own.resends,
        reconnects: own.reconnects,
        backlog_peak_bytes: own.backlog_peak_bytes,
        pacing: PacingSummary::of(own),
        grant_path_us: AnswerPath::of(own),
        ..SourceSummary::default()
    }
}

fn builder(id: u16, own: &BuilderReport) -> BuilderSummary {
    let mut latency = Percentiles::default();
    latency.add(&own.latency_us, own.latency_max_us);
    let grant_path = GrantPath::of(own);
    BuilderSummary {
        id,
        reported: true,
        assigned: own.complete + own.incomplete + own.rejected + own.lost,
        complete: own.complete,
        incomplete: own.incomplete,
        rejected: own.rejected,
        lost: own.lost,
        written: own.written,
        payload_bytes: own.payload_bytes,
        memory_peak_bytes: own.memory_peak_bytes,
        build_latency_us: latency.latency(),
        grant_delay_us: grant_path.last_byte,
        grant_path_us: grant_path,
        clock_error_us: own.clock_error_ns as f64 / 1e3,
        ..BuilderSummary::default()
    }
}
