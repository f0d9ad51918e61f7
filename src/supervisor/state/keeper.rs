//! [`StateKeeper`]: keeps the record of the present run.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use evb_core::{
    id::{BuilderId, Peer, RunId},
    ledger::RunReport,
    supervisor::SupervisorCore,
    time::Instant,
    wire::control::{Begin, Control, FilesReport, plain},
};
use tokio::sync::oneshot;

use super::StateDir;
use crate::supervisor::{
    RecordNotes, RunRecord,
    record::{FileCounts, name, take_files},
    record_notes::Revision,
};

/// Number of runs that may wait to be written.
pub(super) const WAITING: usize = 4;

/// Largest length of a version, in characters.
const MAX_VERSION: usize = 60;

/// Time between two updates of the record of a run that is under way.
const PAUSE: Duration = Duration::from_secs(10);

/// The state directory of a supervisor, and the thread that writes to it, so that a slow disk does
/// not delay the run.
#[derive(Debug)]
pub(in crate::supervisor) struct StateKeeper {
    pub(super) path: PathBuf,
    pub(super) configuration: Option<Arc<str>>,
    /// The record of the run that is under way.
    pub(super) notes: RecordNotes,
    /// Versions of the software of the peers that are registered.
    pub(super) software: BTreeMap<Peer, String>,
    /// Numbers of files that builders have closed.
    pub(super) file_counts: FileCounts,
    /// True if files came after the end of the run.
    pub(super) has_late_files: bool,
    /// Number of the supervisor's sentences about problems that are noted.
    pub(super) sentences: usize,
    /// Time of the next update.
    pub(super) next: Instant,
    pub(super) revisions: mpsc::SyncSender<Revision>,
    pub(super) ended: oneshot::Receiver<()>,
}

impl StateKeeper {
    /// Starts the thread.
    pub(in crate::supervisor) fn new(state: StateDir) -> io::Result<Self> {
        let (revisions, to_keep) = mpsc::sync_channel::<Revision>(WAITING);
        let (ends, ended) = oneshot::channel();
        let (path, configuration, notes) = (state.dir.clone(), state.configuration.clone(), state.notes());
        crate::threads::start("state", move || {
            let mut is_first = true;
            for revision in to_keep {
                let (path, run) = (state.dir.display(), revision.record.run.run);
                if let Err(error) = state.notes.keep(&state.dir, &revision) {
                    tracing::warn!(%path, %error, run, "cannot write the record of run {run} to the state directory {path}, so a later run may get its number: {error}; see that its disk has room and that this user may write there, and give the next run a number above {run}");
                }
                if std::mem::take(&mut is_first)
                    && let Err(error) = state.prune()
                {
                    tracing::warn!(%path, %error, run, "records of earlier runs stay in the state directory {path}, though `keep_runs` is exceeded: {error}; see that this user may remove files there");
                }
            }
            drop(ends);
        })?;
        Ok(Self {
            path,
            configuration,
            notes,
            software: BTreeMap::new(),
            file_counts: FileCounts::default(),
            has_late_files: false,
            sentences: 0,
            next: Instant::ZERO,
            revisions,
            ended,
        })
    }

    /// Goes on with the record of a run that an earlier supervisor has led.
    pub(in crate::supervisor) fn resume(&mut self, core: &SupervisorCore) {
        if core.has_begun() {
            self.go_on(&core.begun());
        }
    }

    /// Begins a record that has what an earlier supervisor has noted of the run.
    pub(super) fn go_on(&mut self, begin: &Begin) {
        let mut record = RunRecord::begun(begin, self.configuration.as_deref());
        if let Some(known) = read(&self.path, begin.run, begin.run_id) {
            record.go_on(known);
        }
        self.file_counts = FileCounts::default();
        self.open(begin, record);
    }

    /// Returns the path of the directory.
    pub(in crate::supervisor) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that a run has begun.
    pub(in crate::supervisor) fn note_begin(&mut self, begin: &Begin) {
        self.ensure(begin);
        self.send(self.notes.revision());
    }

    /// Updates the record of a run that is under way: at once if there are new findings, and else
    /// now and then.
    pub(in crate::supervisor) fn update(&mut self, core: &SupervisorCore, now: Instant) {
        let has_new_findings = core.found().0.len() != self.sentences;
        if now < self.next && !has_new_findings || !core.has_begun() {
            return;
        }
        self.look(core, now);
        // New findings are looked at without delay; everything else waits for its time.
        if now < self.next {
            return;
        }
        self.next = now + PAUSE;
        self.add_point(core, now);
        // While the disk does not answer, the next update replaces this one.
        let update = self.notes.revision();
        update.into_iter().for_each(|update| drop(self.revisions.try_send(update)));
    }

    /// Adds the present counts to the series of the record.
    fn add_point(&mut self, core: &SupervisorCore, now: Instant) {
        let survey = core.survey(now);
        self.notes.change(|record| record.add_point(&survey, PAUSE));
    }

    /// Takes over what the supervisor has found in a run that has begun.
    fn look(&mut self, core: &SupervisorCore, now: Instant) {
        let begin = core.begun();
        self.ensure(&begin);
        self.notes.change(|record| record.update(core, begin.utc(now)));
        self.sentences = core.found().0.len();
    }

    /// Notes that the run has ended, if it has begun.
    pub(in crate::supervisor) fn end(&mut self, core: &SupervisorCore, report: &RunReport, now: Instant) {
        if core.has_begun() {
            self.look(core, now);
            self.add_point(core, now);
            self.note_end(&core.begun(), report);
        }
    }

    /// Notes that a run has ended, which has begun as stated.
    pub(in crate::supervisor) fn note_end(&mut self, begin: &Begin, report: &RunReport) {
        self.ensure(begin);
        self.notes.change(|record| record.close(report));
        self.send(self.notes.revision());
    }

    /// Notes the files in a report of a builder.
    fn add_files(&mut self, builder: BuilderId, files: FilesReport) {
        self.notes.change(|record| {
            self.has_late_files |= record.closed;
            self.file_counts.add(record, builder, files);
        });
    }

    /// Notes what builders have told after the end of the run.
    pub(in crate::supervisor) fn note_late(&mut self) {
        if self.has_late_files {
            self.send(self.notes.revision());
        }
    }

    /// Begins the record of a run that has none.
    fn ensure(&mut self, begin: &Begin) {
        if !self.notes.has(begin.run_id) {
            self.file_counts = FileCounts::default();
            self.open(begin, RunRecord::begun(begin, self.configuration.as_deref()));
        }
    }

    fn open(&self, begin: &Begin, mut record: RunRecord) {
        self.software.iter().for_each(|(peer, version)| record.note_software(*peer, version));
        self.notes.open(&self.path, begin, record);
    }

    /// Notes the version that a peer has stated when it registered.
    pub(in crate::supervisor) fn note_software(&mut self, peer: Peer, version: &str) {
        let version = plain(version, MAX_VERSION);
        self.notes.change(|record| record.note_software(peer, &version));
        self.software.insert(peer, version);
    }

    /// Sends a revision of the record to the thread that writes it.
    fn send(&self, revision: Option<Revision>) {
        let Some(revision) = revision else { return };
        let number = revision.record.run.run;
        if self.revisions.try_send(revision).is_err() {
            let path = self.path.display();
            tracing::warn!(
                %path,
                run = number,
                "the disk of the state directory {path} does not answer, so the record of run {number} is not written there, and a later run may get its number: check the disk, and give the next run a number above {number}"
            );
        }
    }

    /// Waits until everything is written.
    pub(in crate::supervisor) async fn close(self) {
        drop(self.revisions);
        let _ = self.ended.await;
    }
}

/// Reads the record of a run.
fn read(dir: &Path, run: u32, id: RunId) -> Option<RunRecord> {
    let record: RunRecord = serde_json::from_slice(&fs::read(dir.join(name(run, id))).ok()?).ok()?;
    (record.run.run_id == id).then_some(record)
}

/// Notes the files in a report of a builder in the record of the run, if there is one.
pub(in crate::supervisor) fn note_files(state: Option<&mut StateKeeper>, peer: Peer, message: &mut Control) {
    if let Some(files) = take_files(message)
        && let (Some(state), Peer::Builder(builder)) = (state, peer)
    {
        state.add_files(builder, files);
    }
}
