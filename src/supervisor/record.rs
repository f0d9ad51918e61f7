//! [`RunRecord`]: what a state directory keeps of a run.

mod files;
mod hooks;
mod problems;
mod series;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::Path,
    time::Duration,
};

use evb_core::{
    alignment::Episode,
    fragment::Checksum,
    id::{Peer, RunId},
    ledger::{Annotation, RunReport},
    supervisor::{SupervisorCore, Survey},
    time::Utc,
    wire::control::{Begin, Name},
};
use evb_net::host::write_whole;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use files::RecordedFile;
pub(super) use files::{FileCounts, take_files};
pub use hooks::{CallEnd, HookCall, HookCounts, RecordedHooks};
pub use problems::NotedProblem;
pub use series::{RunPoint, RunSeries};

use super::LastRun;

/// Version of the records that this version of evb writes.
const VERSION: u32 = 1;

/// Ending of the names of the files of runs.
pub(super) const ENDING: &str = ".json";

/// Verdict on a run whose end no supervisor saw.
const NO_END: &str = "the end of this run was not recorded, because its supervisor ended before it; `evbd verify` shows what its files hold";

/// The record of a run: one JSON document, which is begun at the start of the run, updated, and
/// closed at its end. `dist/evb-run-record.schema.json` describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of the format; 0: an earlier version of evb wrote only [`Self::run`].
    #[serde(default)]
    pub version: u32,
    /// True if the end of the run is recorded.
    #[serde(default)]
    pub closed: bool,
    /// Time of the latest update, on the scale that began with the run.
    #[serde(default)]
    pub updated: Utc,
    /// The run; before its end, with the counts at the time of the latest update.
    #[serde(flatten)]
    pub run: LastRun,
    /// Version of evb in the process that led the run at last.
    #[serde(default)]
    pub supervisor_version: String,
    /// Names of the sources that have one, by id.
    #[serde(default)]
    pub source_names: BTreeMap<u32, String>,
    /// Names of the builders that have one, by id.
    #[serde(default)]
    pub builder_names: BTreeMap<u32, String>,
    /// Versions of the software of the sources, by id.
    #[serde(default)]
    pub source_software: BTreeMap<u32, String>,
    /// Versions of the software of the builders, by id.
    #[serde(default)]
    pub builder_software: BTreeMap<u32, String>,
    /// The configuration, if the program that embeds the supervisor has one.
    #[serde(default)]
    pub configuration: Option<RecordedConfiguration>,
    /// Problems of the run, each with the time at which it was first seen.
    #[serde(default)]
    pub noted_problems: Vec<NotedProblem>,
    /// Number of problems for which the record had no room.
    #[serde(default)]
    pub problems_left_out: u64,
    /// Files that builders have closed, in the order of builders and paths.
    #[serde(default)]
    pub files: Vec<RecordedFile>,
    /// Number of closed files for which a report or the record had no room.
    #[serde(default)]
    pub files_left_out: u64,
    /// Episodes of sources whose timestamps disagreed, in the order of the first events.
    #[serde(default)]
    pub episodes: Vec<Episode>,
    /// The calls of programs by the supervisor's process.
    #[serde(default)]
    pub hooks: RecordedHooks,
    /// Counts over the time of the run.
    #[serde(default)]
    pub series: RunSeries,
    /// The report at the end of the run, as `evbd run --summary` writes it.
    #[serde(default)]
    pub report: Option<Value>,
}

/// The configuration of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedConfiguration {
    /// The whole text.
    pub text: String,
    /// CRC-64/NVME of the text, in 16 hexadecimal digits.
    pub crc64_nvme: String,
}

impl RecordedConfiguration {
    fn of(text: &str) -> Self {
        Self { text: text.to_owned(), crc64_nvme: format!("{:016x}", Checksum::of(text.as_bytes()).number()) }
    }
}

impl RunRecord {
    /// Begins the record of a run.
    pub(super) fn begun(begin: &Begin, configuration: Option<&str>) -> Self {
        let named = |names: &[Name]| names.iter().map(|name| (name.id, name.name.clone())).collect();
        let run = LastRun {
            run: begin.run,
            run_id: begin.run_id,
            exit_code: 1,
            verdict: NO_END.to_owned(),
            annotation: Annotation { kind: begin.kind.clone(), comment: begin.comment.clone() },
            begin: begin.began().utc,
            wall_clock: begin.began().state,
            ..LastRun::default()
        };
        Self {
            version: VERSION,
            updated: run.begin,
            run,
            supervisor_version: env!("CARGO_PKG_VERSION").to_owned(),
            source_names: named(&begin.sources),
            builder_names: named(&begin.builders),
            configuration: configuration.map(RecordedConfiguration::of),
            ..Self::default()
        }
    }

    /// Takes what an earlier supervisor has noted of the run.
    pub(super) fn go_on(&mut self, known: Self) {
        (self.noted_problems, self.problems_left_out) = (known.noted_problems, known.problems_left_out);
        // The reports of the builders tell again how many files are missing in the record.
        self.files = known.files;
        (self.hooks, self.series) = (known.hooks, known.series);
        (self.source_software, self.builder_software) = (known.source_software, known.builder_software);
    }

    /// Notes the version of a peer's software; the latest one, if it changes.
    pub(super) fn note_software(&mut self, peer: Peer, version: &str) {
        match peer {
            Peer::Supervisor => None,
            Peer::Source(id) => self.source_software.insert(id.number().into(), version.to_owned()),
            Peer::Builder(id) => self.builder_software.insert(id.number().into(), version.to_owned()),
        };
    }

    /// Notes how far the run is.
    pub(super) fn update(&mut self, core: &SupervisorCore, at: Utc) {
        self.run.events = core.progress().events;
        let (problems, episodes) = core.found();
        self.episodes = episodes.to_vec();
        self.note_sentences(problems, at);
        self.updated = at;
    }

    /// Adds the present counts to the series.
    pub(super) fn add_point(&mut self, survey: &Survey, pause: Duration) {
        let since = self.updated.as_nanos().saturating_sub(self.run.begin.as_nanos());
        let at_s = if self.run.begin.is_known() { since as f64 / 1e9 } else { survey.running_s };
        let (events, payload_bytes) = (survey.events, survey.payload_bytes);
        let (triggered, inhibited) = (events.triggered, events.inhibited);
        let events = events.complete.saturating_add(events.incomplete);
        let point = RunPoint { at_s, triggered, inhibited, events, payload_bytes };
        self.series.add(point, pause.as_secs_f64());
    }

    /// Notes the end of the run.
    pub(super) fn close(&mut self, report: &RunReport) {
        self.note_sentences(&report.problems, report.end);
        self.run = LastRun::from(report);
        self.updated = report.end;
        self.closed = true;
        self.report = serde_json::to_value(report).ok();
    }
}

/// Writes the file of a run: whole, or not at all.
pub(super) fn keep(dir: &Path, record: &RunRecord) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    write_whole(&dir.join(name(record.run.run, record.run.run_id)), &serde_json::to_vec_pretty(record)?)?;
    File::open(dir)?.sync_all()
}

/// Returns the name of the file of a run.
pub(super) fn name(run: u32, id: RunId) -> String {
    format!("run{run:06}-{}{ENDING}", id.short())
}
