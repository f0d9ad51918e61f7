//! The results of a run: a table for people, JSON for programs.

mod part;
#[cfg(test)]
mod tests;

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
};

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    ledger::{EventCounts, Latency, PacingSummary, PathSummary, RunReport},
    units::{Bytes, Rate},
};
use evb_host::here::host_name;
use evb_net::host::write_whole;

use super::{RunError, host::Ended};

/// Placeholder for the run number in the path of a summary.
const RUN: &str = "{run}";
/// Placeholder for this host's name: with it, hosts that share a directory write separate files.
const HOST: &str = "{host}";

/// The destinations of summaries: standard output and a file.
#[derive(Clone, Debug)]
pub(super) struct Publisher {
    path: Option<PathBuf>,
    quiet: bool,
}

impl Publisher {
    /// Creates a publisher. `{run}` in the path stands for the run number, `{host}` for the name of
    /// this host.
    ///
    /// # Errors
    /// [`RunError::Operator`]: the file's directory does not exist.
    pub(super) fn new(path: Option<PathBuf>, quiet: bool) -> Result<Self, RunError> {
        let path = path.map(with_host);
        let folder =
            path.as_ref().and_then(|path| path.parent()).filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if !folder.is_dir() && !folder.to_string_lossy().contains(RUN) => {
                let what = format!("--summary: there is no directory {}; make it first", folder.display());
                Err(RunError::Operator(what))
            }
            _ => Ok(Self { path, quiet }),
        }
    }

    /// Prints and writes the results of this process; returns the exit code of the run.
    pub(super) fn publish_end(&self, ended: &Ended) -> Result<u8, RunError> {
        match ended {
            Ended::Closed(report) => self.publish(report),
            Ended::Part(parts) => {
                let report = part::report(parts);
                self.say(&line(&report));
                self.keep(report.run, || part::json(&report))?;
                Ok(report.exit_code)
            }
        }
    }

    /// Prints and writes a closed ledger; returns the exit code of the run.
    pub(super) fn publish(&self, report: &RunReport) -> Result<u8, RunError> {
        self.say(&table(report));
        self.keep(report.run, || serde_json::to_string_pretty(report))?;
        Ok(report.exit_code)
    }

    fn say(&self, words: &str) {
        if !self.quiet {
            // Closed standard output must not fail the run.
            let _ = std::io::stdout().lock().write_all(words.as_bytes());
        }
    }

    fn keep(&self, run: u32, json: impl FnOnce() -> serde_json::Result<String>) -> Result<(), RunError> {
        let Some(path) = &self.path else { return Ok(()) };
        let path = with_number(path, run);
        let json = json().map_err(std::io::Error::from);
        let written = json.and_then(|json| write_whole(&path, (json + "\n").as_bytes()));
        written.map_err(|reason| RunError::Summary { path, reason })
    }
}

fn with_number(path: &Path, run: u32) -> PathBuf {
    match path.to_str() {
        Some(text) => text.replace(RUN, &run.to_string()).into(),
        None => path.to_owned(),
    }
}

fn with_host(path: PathBuf) -> PathBuf {
    match path.to_str() {
        Some(text) if text.contains(HOST) => text.replace(HOST, &host_name()).into(),
        _ => path,
    }
}

fn line(report: &RunReport) -> String {
    format!("run {}: {}\n", report.run, report.verdict)
}

/// Formats the counts of triggers as the sum that the closed ledger is.
fn sum(events: &EventCounts) -> String {
    let EventCounts { triggered, inhibited, complete, incomplete, lost, rejected, .. } = events;
    format!(
        "{triggered} triggered = {complete} complete + {incomplete} incomplete + {lost} lost + {rejected} rejected + {inhibited} inhibited"
    )
}

/// Formats the closed ledger as a table.
fn table(report: &RunReport) -> String {
    let latency = &report.build_latency_us;
    let rate = Rate::from_bits_per_second((report.rates.payload_bytes_per_s * 8.0) as u64);
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14} {value}");
    };
    row("events", sum(&report.events));
    row(
        "accepted",
        format!("{} events, {} payload", report.events.written, Bytes::new(report.bytes.payload)),
    );
    row(
        "rate",
        format!("{:.0} events/s, {rate} payload, over {:.3} s", report.rates.events_per_s, report.duration_s),
    );
    if report.begin.is_known() {
        let (begin, end, clock) = (report.begin, report.end, report.wall_clock);
        row("time", format!("{begin:.3} to {end:.3}, wall clock {clock}"));
    }
    row(
        "build latency",
        format!(
            "p50 {}, p99 {}, p99.9 {}, max {} (trigger to last fragment, {})",
            micros(latency.p50 as f64),
            micros(latency.p99 as f64),
            micros(latency.p999 as f64),
            micros(latency.max as f64),
            if report.clock.shared {
                "one clock".to_owned()
            } else {
                format!("supervisor's clock, ± {}", micros(report.clock.error_us))
            }
        ),
    );
    grant_path(report).into_iter().for_each(|path| row("grant path", path));
    row(
        "dead, busy",
        format!(
            "{:.3} % of the triggers inhibited, no free slot {:.1} % of the time",
            report.dead_time_fraction * 100.0,
            report.busy_fraction * 100.0
        ),
    );
    let network = &report.network;
    row(
        "network",
        format!(
            "{} TCP retransmits, {} duplicates, {} late, {} checksum errors",
            network.tcp_retransmits, network.duplicates, network.late, network.crc_errors
        ),
    );
    report.paths.iter().for_each(|worst| row("path", path(report, worst)));
    if let Some(pacing) = pacing(report) {
        row("pacing", pacing);
    }
    if let Some(last) = last_source(report) {
        row("last source", last);
    }
    for problem in &report.problems {
        row("problem", problem.clone());
    }
    for remark in &report.remarks {
        row("remark", remark.clone());
    }
    if report.kept_in.is_none() {
        row("remark", NOT_KEPT.to_owned());
    }
    format!("run {} (id {}): {}\n{text}", report.run, report.run_id.short(), report.verdict)
}

/// Remark on a run whose supervisor has no state directory.
const NOT_KEPT: &str = "no state directory keeps this run: only its builders know its number; set `supervisor.state` on the supervisor's host";

/// Describes the stages of the time from a grant to its data, as far as they were measured.
fn grant_path(report: &RunReport) -> Option<String> {
    let path = &report.grant_path_us;
    let stages = [
        ("builder's write", path.builder_write),
        ("source's wake-up", path.source_wake_up),
        ("its answer", path.source_answer),
        ("builder's wake-up", path.builder_wake_up),
    ];
    let measured = stages.into_iter().filter_map(|(name, stage)| Some((name, stage?.p50)));
    let derived = path.derived_rest.map(|rest| ("wire and queues (derived)", rest.p50));
    let parts = measured.chain(derived).map(|(name, p50)| format!("{name} {}", micros(p50 as f64)));
    let parts: Vec<_> = parts.collect();
    let of_these = if parts.is_empty() { String::new() } else { format!("; p50 of {}", parts.join(", ")) };
    let Latency { p50, p99, max, .. } = path.first_byte;
    let [p50, p99] = [p50, p99].map(|time| micros(time as f64));
    (max > 0).then(|| format!("p50 {p50}, p99 {p99} (grant to first byte){of_these}"))
}

/// Describes how often one of the worst paths sent bytes again.
fn path(report: &RunReport, path: &PathSummary) -> String {
    let PathSummary { source, builder, tcp_retransmits, resends } = path;
    let segments = (*tcp_retransmits > 0).then(|| format!("{tcp_retransmits} TCP retransmits"));
    let ranges = (*resends > 0).then(|| format!("{resends} ranges sent again"));
    let repeated: Vec<_> = segments.into_iter().chain(ranges).collect();
    let from = report.sources.iter().find(|of| of.id == *source).map_or("", |of| &of.name);
    let to = report.builders.iter().find(|of| of.id == *builder).map_or("", |of| &of.name);
    let from = Peer::Source(SourceId::new(*source)).named(from);
    let to = Peer::Builder(BuilderId::new(*builder)).named(to);
    format!("{from} to {to}: {}", repeated.join(", "))
}

/// Describes how precisely rates were kept, if any rates were kept.
fn pacing(report: &RunReport) -> Option<String> {
    let late = report.sources.iter().map(|source| source.pacing).reduce(PacingSummary::worse)?;
    let [p50, p99, max] = [late.late_p50_us, late.late_p99_us, late.late_max_us].map(micros);
    let lost = late.forfeited_s;
    let told = format!(
        "departures late by {p50} (p50), {p99} (p99), {max} (max) at worst; {lost:.3} s of rate lost"
    );
    (late.late_max_us > 0.0).then_some(told)
}

/// Describes the source that most often completed an event.
fn last_source(report: &RunReport) -> Option<String> {
    let last = report.sources.iter().max_by_key(|source| source.last).filter(|source| source.last > 0)?;
    let share = 100.0 * last.last as f64 / report.events.complete.max(1) as f64;
    let by = micros(last.last_by_mean_us);
    Some(format!("{} completed {share:.1} % of the events, by {by} on average", last.named()))
}

fn micros(micros: impl Into<f64>) -> String {
    match micros.into() {
        us if us >= 1e6 => format!("{:.3} s", us / 1e6),
        us if us >= 1e3 => format!("{:.3} ms", us / 1e3),
        us => format!("{us:.0} µs"),
    }
}
