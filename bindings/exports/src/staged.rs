//! A file that has a temporary name until it is whole, so that there is never a part of an output
//! under the final name.

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, OFlags, RenameFlags, renameat_with},
    io::Errno,
};

/// A failed operation on the output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StagedError {
    /// The final name is taken.
    #[error("{} exists: choose another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// The final name cannot be that of a file.
    #[error("{} is a directory, or no name of a file; give one like out.h5 or out.parquet", .0.display())]
    NoFile(PathBuf),
    /// Another process writes the same output.
    #[error("another evb-export is writing {}; wait until it has ended, or choose another name", .0.display())]
    Busy(PathBuf),
    /// The final name was taken while the output was written.
    #[error(
        "{} was created by another program meanwhile, so the whole output is in {}: rename that file",
        .path.display(), .part.display()
    )]
    Overtaken {
        /// The final name.
        path: PathBuf,
        /// The temporary name.
        part: PathBuf,
    },
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}; see that its disk has room and that this user may write there, or choose another directory", path.display())]
    File {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl StagedError {
    pub(crate) fn of<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}

/// An output under its temporary name. It is removed if it is dropped before it is whole.
#[derive(Debug)]
pub(crate) struct Staged {
    path: PathBuf,
    part: PathBuf,
    /// The open temporary file, whose lock keeps other processes away.
    file: File,
    may_replace: bool,
    keep: bool,
}

impl Staged {
    /// Creates the temporary file, or replaces the one that a killed export left behind.
    pub(crate) fn create(path: &Path, may_replace: bool) -> Result<Self, StagedError> {
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(StagedError::NoFile(path.to_owned()));
        };
        if !may_replace && path.symlink_metadata().is_ok() {
            return Err(StagedError::Exists(path.to_owned()));
        }
        let mut part = name.to_owned();
        part.push(".part");
        let part = path.with_file_name(part);
        // Somebody who knows the name may have put a link there.
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(no_link);
        let file = options.open(&part).map_err(StagedError::of("create", &part))?;
        // The lock alone is not enough: the other process may have given the file its final name
        // after it was opened here.
        let is_part = || -> io::Result<bool> { Ok(fs::metadata(&part)?.ino() == file.metadata()?.ino()) };
        if file.try_lock().is_err() || !is_part().unwrap_or(false) {
            return Err(StagedError::Busy(path.to_owned()));
        }
        file.set_len(0).map_err(StagedError::of("empty", &part))?;
        Ok(Self { path: path.to_owned(), part, file, may_replace, keep: false })
    }

    /// Returns the temporary name.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// Returns another handle of the file.
    pub(crate) fn again(&self) -> Result<File, StagedError> {
        self.file.try_clone().map_err(StagedError::of("open", &self.part))
    }

    /// Writes the first bytes of the file.
    pub(crate) fn begin(&self, bytes: &[u8]) -> Result<(), StagedError> {
        (&self.file).write_all(bytes).map_err(StagedError::of("write", &self.part))
    }

    /// Waits until the file is on disk, and gives it its final name. Returns its size.
    pub(crate) fn finish(mut self) -> Result<u64, StagedError> {
        self.file.sync_all().map_err(StagedError::of("sync", &self.part))?;
        let size = self.file.metadata().map_err(StagedError::of("examine", &self.part))?.len();
        self.rename()?;
        self.keep = true;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(StagedError::of("sync", folder))?;
        Ok(size)
    }

    fn rename(&mut self) -> Result<(), StagedError> {
        if !self.may_replace {
            match renameat_with(CWD, &self.part, CWD, &self.path, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(()),
                // Some file systems know no such renaming; there the last look must do.
                Err(Errno::INVAL | Errno::NOSYS) if self.path.symlink_metadata().is_err() => {}
                Err(Errno::INVAL | Errno::NOSYS | Errno::EXIST) => {
                    self.keep = true;
                    let (path, part) = (self.path.clone(), self.part.clone());
                    return Err(StagedError::Overtaken { path, part });
                }
                Err(error) => return Err(StagedError::of("rename", &self.part)(error.into())),
            }
        }
        fs::rename(&self.part, &self.path).map_err(StagedError::of("rename", &self.part))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing can be done about a file that cannot be removed; its name tells what it is.
            let _ = fs::remove_file(&self.part);
        }
    }
}
