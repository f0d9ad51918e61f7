//! [`Unfinished`]: the place of merged files until the merge is done, so that a merge that fails or
//! is killed leaves nothing that looks like a run, and nothing that prevents the next try. A merge
//! of several files that is killed while it moves them leaves the moves to the next one.

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use evb_core::id::RunNumber;

use crate::{
    error::{CreateError, FileError},
    naming::{existing_files, named_files},
};

/// Name of the directory, inside of the one that the files are for.
const NAME: &str = "merge.part";

/// Its name when several files are all written. Then they only have to be moved, which the next
/// merge does if this one is killed.
const WHOLE: &str = "merge.whole";

/// A directory of merged files inside of the one that gets them. It is removed with its files if it
/// is dropped before all are written.
#[derive(Debug)]
pub(super) struct Unfinished {
    target: PathBuf,
    dir: PathBuf,
    /// The open directory, whose lock keeps other merges away.
    _lock: File,
}

impl Unfinished {
    /// Creates the directory, or takes over that of a merge that was killed.
    pub(super) fn create(target: PathBuf, run: RunNumber) -> Result<Self, CreateError> {
        fs::create_dir_all(&target).map_err(FileError::of("create the directory", &target))?;
        let whole = target.join(WHOLE);
        if whole.is_dir() {
            let dir = whole;
            Self { _lock: lock(&dir)?, target: target.clone(), dir }.move_files()?;
        }
        check_free(&target, run)?;
        let dir = target.join(NAME);
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(FileError::of("create the directory", &dir))?,
        }
        let unfinished = Self { _lock: lock(&dir)?, target, dir };
        unfinished.empty().map_err(FileError::of("empty", &unfinished.dir))?;
        Ok(unfinished)
    }

    /// Returns the directory to write to.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves all files to where they belong, and removes the directory.
    pub(super) fn finish(mut self, run: RunNumber) -> Result<(), CreateError> {
        check_free(&self.target, run)?;
        // A single file is moved at once or not at all.
        if named_files(&self.dir)?.len() > 1 {
            let whole = self.target.join(WHOLE);
            fs::rename(&self.dir, &whole).map_err(FileError::of("rename", &self.dir))?;
            self.dir = whole;
        }
        self.move_files().map_err(CreateError::from)
    }

    fn move_files(self) -> Result<(), FileError> {
        for (.., path) in named_files(&self.dir)? {
            let Some(name) = path.file_name() else { continue };
            fs::rename(&path, self.target.join(name)).map_err(FileError::of("move", &path))?;
        }
        Ok(())
    }

    fn empty(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nothing can be done about files that cannot be removed; the name tells what they are.
        let is_whole = self.dir.ends_with(WHOLE);
        let _ = if is_whole { Ok(()) } else { self.empty() }.and_then(|()| fs::remove_dir(&self.dir));
    }
}

/// Keeps other merges away from a directory.
fn lock(dir: &Path) -> Result<File, FileError> {
    let lock = File::open(dir).map_err(FileError::of("open", dir))?;
    if lock.try_lock().is_err() {
        let busy = io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another merge writes there; wait until it has ended, or give another directory",
        );
        return Err(FileError::of("use", dir)(busy));
    }
    Ok(lock)
}

/// Checks that a directory has no files of the run.
fn check_free(target: &Path, run: RunNumber) -> Result<(), CreateError> {
    match existing_files(target, run)?.into_iter().next() {
        Some(path) => Err(CreateError::Exists { path, run }),
        None => Ok(()),
    }
}
