//! The results of a run: a table for people, JSON for programs.

mod part;
#[cfg(test)]
mod tests;

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use evb_config::{Config, SinkEntry};
use evb_core::{
    id::{BuilderId, Peer, SourceId},
    ledger::{Latency, PacingSummary, PathSummary, RunReport},
    quantities::{self, counted},
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
    detail: Detail,
    /// Directories of the event files that this process writes.
    files: Vec<PathBuf>,
}

/// Amount of a run's results that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Nothing,
    Usual,
    /// Also latencies, network and hosts.
    All,
}

impl Publisher {
    /// Creates a publisher. `{run}` in the path stands for the run number, `{host}` for the name of
    /// this host.
    ///
    /// # Errors
    /// [`RunError::Operator`]: the file's directory does not exist.
    pub(super) fn new(path: Option<PathBuf>, detail: Detail) -> Result<Self, RunError> {
        let path = path.map(with_host);
        let folder =
            path.as_ref().and_then(|path| path.parent()).filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if !folder.is_dir() && !folder.to_string_lossy().contains(RUN) => {
                let what = format!(
                    "--summary: the directory {} does not exist, so no run was started; create it first",
                    folder.display()
                );
                Err(RunError::Operator(what))
            }
            _ => Ok(Self { path, detail, files: Vec::new() }),
        }
    }

    /// Notes where the hosted builders of a configuration write event files.
    pub(super) fn note_files(&mut self, config: &Config, hosted: &[Peer]) {
        let here = config.builders.iter().filter(|builder| hosted.contains(&Peer::Builder(builder.id)));
        let directories = here.flat_map(|builder| &builder.sinks).filter_map(SinkEntry::directory);
        self.files = directories.map(Path::to_owned).collect();
        self.files.sort();
        self.files.dedup();
    }

    /// Prints and writes the results of this process; returns the exit code of the run.
    pub(super) fn publish_end(&self, ended: &Ended) -> Result<u8, RunError> {
        match ended {
            Ended::Closed(report) => self.publish(report),
            // No role joined a run, so there is nothing to tell.
            Ended::Part(parts) if parts.is_empty() => Ok(0),
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
        let mut text = format!("{report}\n");
        if report.kept_in.is_none() {
            text += &format!("  remark: {NOT_KEPT}\n");
        }
        if self.detail == Detail::All {
            text += &details(report);
        }
        if let Some(files) = self.files_in_words().filter(|_| report.events.written > 0) {
            text += &format!("  {files}\n");
        }
        self.say(&text);
        self.keep(report.run, || serde_json::to_string_pretty(report))?;
        Ok(report.exit_code)
    }

    /// Returns a line that says where the event files are and how to check them.
    fn files_in_words(&self) -> Option<String> {
        let names: Vec<_> = self.files.iter().map(|path| path.display().to_string()).collect();
        match names.as_slice() {
            [] => None,
            names => {
                Some(format!("files in {}; `evbd verify {}` checks them", names.join(", "), names.join(" ")))
            }
        }
    }

    fn say(&self, words: &str) {
        if self.detail != Detail::Nothing {
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

/// Formats what the usual output leaves out: times, latencies, network and hosts.
fn details(report: &RunReport) -> String {
    let latency = &report.build_latency_us;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14} {value}");
    };
    row("accepted", format!("{} by the sinks", counted(report.events.written, "event")));
    if report.begin.is_known() {
        let (begin, end, clock) = (report.begin, report.end, report.wall_clock);
        row("time", format!("{begin:.3} to {end:.3}, wall clock {clock}"));
    }
    row(
        "build latency",
        format!(
            "median {}, 99 % below {}, 99.9 % below {}, longest {} (trigger to last fragment, {})",
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
    let network = &report.network;
    row(
        "network",
        [
            counted(network.tcp_retransmits, "TCP retransmit"),
            counted(network.duplicates, "duplicate fragment"),
            counted(network.late, "late fragment"),
            counted(network.crc_errors, "checksum error"),
        ]
        .join(", "),
    );
    report.paths.iter().for_each(|worst| row("path", path(report, worst)));
    if let Some(pacing) = pacing(report) {
        row("pacing", pacing);
    }
    if let Some(last) = last_source(report) {
        row("last source", last);
    }
    text
}

/// Remark on a run whose supervisor has no state directory.
const NOT_KEPT: &str = "no state directory keeps the number of this run, which only its builders know; nothing is wrong with its events, but set `supervisor.state` on the supervisor's host, lest a later run gets the same number";

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
    let of_these = if parts.is_empty() { String::new() } else { format!("; medians: {}", parts.join(", ")) };
    let Latency { p50, p99, max, .. } = path.first_byte;
    let [p50, p99] = [p50, p99].map(|time| micros(time as f64));
    (max > 0).then(|| format!("median {p50}, 99 % below {p99} (from a grant, a builder's permission to send, to the first byte){of_these}"))
}

/// Describes how often one of the worst paths sent bytes again.
fn path(report: &RunReport, path: &PathSummary) -> String {
    let PathSummary { source, builder, tcp_retransmits, resends } = path;
    let segments = (*tcp_retransmits > 0).then(|| counted(*tcp_retransmits, "TCP retransmit"));
    let ranges = (*resends > 0).then(|| format!("{} sent again", counted(*resends, "range")));
    let repeated: Vec<_> = segments.into_iter().chain(ranges).collect();
    let from = report.sources.iter().find(|peer| peer.id == *source).map_or("", |peer| &peer.name);
    let to = report.builders.iter().find(|peer| peer.id == *builder).map_or("", |peer| &peer.name);
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
        "packets left late by {p50} (median), below {p99} (99 %), {max} at worst; {lost:.3} s of sending time lost"
    );
    (late.late_max_us > 0.0).then_some(told)
}

/// Describes the source that most often completed an event.
fn last_source(report: &RunReport) -> Option<String> {
    let last = report.sources.iter().max_by_key(|source| source.last).filter(|source| source.last > 0)?;
    let all: u64 = report.sources.iter().map(|source| source.last).sum();
    let share = 100.0 * last.last as f64 / all as f64;
    let by = micros(last.last_by_mean_us);
    Some(format!(
        "{} came last in {share:.1} % of the events, {by} after the others on average",
        last.named()
    ))
}

fn micros(micros: impl Into<f64>) -> String {
    quantities::time(Duration::try_from_secs_f64(micros.into() / 1e6).unwrap_or_default())
}
