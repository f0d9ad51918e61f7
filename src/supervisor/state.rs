//! [`StateDir`]: the runs that supervisors of this system have led, in one small file each.

mod keeper;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use evb_core::id::{RunNumber, ShortRunId};

pub(super) use keeper::{StateKeeper, note_files};

use super::{LastRun, RecordNotes, RunRecord, record::ENDING};

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
    /// Number of records that are kept; `None`: all.
    keeps: Option<usize>,
    notes: RecordNotes,
}

impl StateDir {
    /// Names the directory, which is created when the first run begins.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), configuration: None, keeps: None, notes: RecordNotes::default() }
    }

    /// Puts the text of a configuration into the records of later runs.
    #[must_use]
    pub fn with_configuration(self, text: impl Into<Arc<str>>) -> Self {
        Self { configuration: Some(text.into()), ..self }
    }

    /// Keeps at most that number of records: when a run begins, the oldest ones beyond it are
    /// removed, but never that of a run without an end, or of the latest run.
    #[must_use]
    pub fn keeping(self, runs: Option<u32>) -> Self {
        Self { keeps: runs.map(|runs| (runs as usize).max(1)), ..self }
    }

    /// Returns the place of notes that the program adds to the record of the next run.
    pub fn notes(&self) -> RecordNotes {
        self.notes.clone()
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

    /// Removes the records beyond the number that is kept.
    fn prune(&self) -> io::Result<()> {
        let Some(keeps) = self.keeps else { return Ok(()) };
        let is_closed = |path: &Path| {
            let record = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
            record.is_some_and(|record: RunRecord| record.closed)
        };
        // The newest records are the last ones. A record that is not closed is of a run under way.
        for (.., path) in self.named()?.into_iter().rev().skip(keeps) {
            if is_closed(&path) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
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
}

fn parse(name: &str) -> Option<(RunNumber, ShortRunId)> {
    let (run, id) = name.strip_prefix("run")?.strip_suffix(ENDING)?.split_once('-')?;
    let id = u32::from_str_radix(id, 16).ok().filter(|_| id.len() == 8)?;
    Some((run.parse().ok()?, ShortRunId::from_bytes(id.to_be_bytes())))
}
