//! [`StateDir`]: the runs that supervisors of this system have led, in one small file each.

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use evb_core::{
    id::{RunId, RunNumber, ShortRunId},
    ledger::RunReport,
    supervisor::SupervisorCore,
    time::Instant,
    wire::control::Begin,
};
use evb_net::host::write_whole;
use tokio::sync::oneshot;

use super::{LastRun, RunRecord};

/// Number of runs that may wait to be written.
const WAITING: usize = 4;

/// Ending of the names of state files.
const ENDING: &str = ".json";

/// Time between two updates of the record of a run that is under way.
const PAUSE: Duration = Duration::from_secs(10);

/// The directory in which a supervisor keeps a [record](RunRecord) of each run that it has led. The
/// highest number in the
/// names of its files is the highest number that was used. If the directory is deleted, nothing is
/// lost that a builder knows.
///
/// ```
/// use evb::supervisor::StateDir;
///
/// # let dir = tempfile::tempdir()?;
/// let state = StateDir::new(dir.path().join("evb-state"));
/// assert_eq!(state.highest()?, None, "the first run creates the directory");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    dir: PathBuf,
    /// Text of the configuration, for the records.
    configuration: Option<Arc<str>>,
}

impl StateDir {
    /// Names the directory, which is created when the first run begins.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), configuration: None }
    }

    /// Puts the text of a configuration into the records of later runs.
    #[must_use]
    pub fn with_configuration(self, text: impl Into<Arc<str>>) -> Self {
        Self { configuration: Some(text.into()), ..self }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the highest run number that was used.
    ///
    /// # Errors
    /// The operating system's error, if the directory cannot be read.
    pub fn highest(&self) -> io::Result<Option<RunNumber>> {
        Ok(self.named()?.last().map(|(run, ..)| *run))
    }

    /// Returns the first digits of the ids of the runs that had this number.
    ///
    /// # Errors
    /// The operating system's error, if the directory cannot be read.
    pub fn ids_of(&self, number: RunNumber) -> io::Result<Vec<ShortRunId>> {
        Ok(self.named()?.into_iter().filter(|(run, ..)| *run == number).map(|(_, id, _)| id).collect())
    }

    /// Returns the latest runs, at most `most`, the latest first. Unreadable files are left out.
    ///
    /// # Errors
    /// The operating system's error, if the directory cannot be read.
    pub fn latest(&self, most: usize) -> io::Result<Vec<LastRun>> {
        let latest = self.named()?.into_iter().rev().take(most);
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        Ok(latest.filter_map(|(.., path)| read(path)).collect())
    }

    /// Returns the records of all runs, the latest first. Unreadable files are left out.
    ///
    /// # Errors
    /// The operating system's error, if the directory cannot be read.
    pub fn records(&self) -> io::Result<Vec<RunRecord>> {
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        Ok(self.named()?.into_iter().rev().filter_map(|(.., path)| read(path)).collect())
    }

    /// Returns run number, id and path of each state file, in ascending order.
    fn named(&self) -> io::Result<Vec<(RunNumber, ShortRunId, PathBuf)>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut named = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).and_then(parse);
            named.extend(name.map(|(run, id)| (run, id, path)));
        }
        named.sort();
        Ok(named)
    }

    /// Writes the file of a run: whole, or not at all.
    fn keep(&self, name: &str, run: &RunRecord) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        write_whole(&self.dir.join(name), &serde_json::to_vec_pretty(run)?)?;
        File::open(&self.dir)?.sync_all()
    }
}

fn name(run: u32, id: RunId) -> String {
    format!("run{run:06}-{}{ENDING}", id.short())
}

fn parse(name: &str) -> Option<(RunNumber, ShortRunId)> {
    let (run, id) = name.strip_prefix("run")?.strip_suffix(ENDING)?.split_once('-')?;
    let id = u32::from_str_radix(id, 16).ok().filter(|_| id.len() == 8)?;
    Some((run.parse().ok()?, ShortRunId::from_bytes(id.to_be_bytes())))
}

/// The state directory of a supervisor, and the thread that writes to it, so that a slow disk does
/// not delay the run.
#[derive(Debug)]
pub(super) struct StateKeeper {
    path: PathBuf,
    configuration: Option<Arc<str>>,
    /// The record of the run that is under way.
    record: Option<RunRecord>,
    /// Time of the next update.
    next: Instant,
    runs: mpsc::SyncSender<RunRecord>,
    ended: oneshot::Receiver<()>,
}

impl StateKeeper {
    /// Starts the thread.
    pub(super) fn new(state: StateDir) -> io::Result<Self> {
        let (runs, to_keep) = mpsc::sync_channel::<RunRecord>(WAITING);
        let (ends, ended) = oneshot::channel();
        let (path, configuration) = (state.path().to_owned(), state.configuration.clone());
        crate::threads::start("state", move || {
            for record in to_keep {
                let LastRun { run, run_id, .. } = record.run;
                if let Err(error) = state.keep(&name(run, run_id), &record) {
                    let path = state.path().display();
                    tracing::warn!(%path, %error, run, "cannot keep run {run} in the state directory {path}, so a later run may get its number: {error}; see that its disk has room and that this user may write there, and give the next run a number above {run}");
                }
            }
            drop(ends);
        })?;
        Ok(Self { path, configuration, record: None, next: Instant::ZERO, runs, ended })
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that a run has begun.
    pub(super) fn note_begin(&mut self, begin: &Begin) {
        let record = RunRecord::begun(begin, self.configuration.as_deref());
        self.record = Some(record.clone());
        self.send(record);
    }

    /// Updates the record of a run that is under way, now and then.
    pub(super) fn update(&mut self, core: &SupervisorCore, now: Instant) {
        if now < self.next || !core.has_begun() {
            return;
        }
        self.next = now + PAUSE;
        let (begin, text) = (core.begun(), self.configuration.as_deref());
        // A supervisor that continues a run has not seen its begin.
        let record = self.record.get_or_insert_with(|| RunRecord::begun(&begin, text));
        record.update(&core.progress(), begin.utc(now));
        // While the disk does not answer, the next update replaces this one.
        let _ = self.runs.try_send(record.clone());
    }

    /// Notes that a run has ended, which has begun as stated.
    pub(super) fn note_end(&mut self, begin: &Begin, report: &RunReport) {
        let text = self.configuration.as_deref();
        let mut record = self.record.take().unwrap_or_else(|| RunRecord::begun(begin, text));
        record.close(report);
        self.send(record);
    }

    fn send(&self, record: RunRecord) {
        let number = record.run.run;
        if self.runs.try_send(record).is_err() {
            let path = self.path.display();
            tracing::warn!(
                %path,
                run = number,
                "the disk of the state directory {path} does not answer, so run {number} is not kept there, and a later run may get its number: check the disk, and give the next run a number above {number}"
            );
        }
    }

    /// Waits until everything is written.
    pub(super) async fn close(self) {
        drop(self.runs);
        let _ = self.ended.await;
    }
}
