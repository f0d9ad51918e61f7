//! [`StateDir`]: the runs that supervisors of this system have led, in one small file each.

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::mpsc,
};

use evb_core::{
    id::{RunId, RunNumber, ShortRunId},
    ledger::{Annotation, RunReport},
    wire::control::Begin,
};
use evb_net::host::write_whole;
use tokio::sync::oneshot;

use super::LastRun;

/// Number of runs that may wait to be written.
const WAITING: usize = 4;

/// Ending of the names of state files.
const ENDING: &str = ".json";

/// Verdict on a run whose end no supervisor saw.
const NO_END: &str = "the end of this run was not recorded, because its supervisor ended before it; `evbd verify` shows what its files hold";

/// The directory in which a supervisor keeps the runs that it has led. The highest number in the
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
}

impl StateDir {
    /// Names the directory, which is created when the first run begins.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
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
    fn keep(&self, name: &str, run: &LastRun) -> io::Result<()> {
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
    runs: mpsc::SyncSender<LastRun>,
    ended: oneshot::Receiver<()>,
}

impl StateKeeper {
    /// Starts the thread.
    pub(super) fn new(state: StateDir) -> io::Result<Self> {
        let (runs, to_keep) = mpsc::sync_channel::<LastRun>(WAITING);
        let (ends, ended) = oneshot::channel();
        let path = state.path().to_owned();
        crate::threads::start("state", move || {
            for run in to_keep {
                if let Err(error) = state.keep(&name(run.run, run.run_id), &run) {
                    let path = state.path().display();
                    let run = run.run;
                    tracing::warn!(%path, %error, run, "cannot keep run {run} in the state directory {path}, so a later run may get its number: {error}; see that its disk has room and that this user may write there, and give the next run a number above {run}");
                }
            }
            drop(ends);
        })?;
        Ok(Self { path, runs, ended })
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that a run has begun.
    pub(super) fn note_begin(&self, begin: &Begin) {
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
        self.send(run);
    }

    /// Notes that a run has ended.
    pub(super) fn note_end(&self, report: &RunReport) {
        self.send(LastRun::from(report));
    }

    fn send(&self, run: LastRun) {
        let number = run.run;
        if self.runs.try_send(run).is_err() {
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
