//! Files that get their names when they are whole: results, state and journals of evb.

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process,
};

/// A file under a temporary name beside its own. It is removed if it is dropped before
/// [`Self::finish`]. No link is followed: neither one that another user has put at the temporary
/// name, nor one at the file's own name, which the file replaces.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    part: PathBuf,
    /// The open file; `None` once it is finished.
    file: Option<File>,
}

impl WholeFile {
    /// Creates the file under its temporary name.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn create(path: &Path) -> io::Result<Self> {
        let part = path.with_added_extension(format!("{}.part", process::id()));
        let create = || OpenOptions::new().read(true).write(true).create_new(true).open(&part);
        let file = match create() {
            // A process with this id was killed before it could give the file its name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&part)?;
                create()?
            }
            created => created?,
        };
        if let Ok(old) = fs::symlink_metadata(path)
            && old.is_file()
        {
            // Who may read the old file may read the new one.
            let _ = file.set_permissions(old.permissions());
        }
        Ok(Self { path: path.to_owned(), part, file: Some(file) })
    }

    /// Returns the open file.
    ///
    /// # Errors
    /// None; the type fits functions that write.
    pub fn file(&mut self) -> io::Result<&mut File> {
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Waits until the file is on disk, and gives it its name. A file of that name is replaced.
    ///
    /// # Errors
    /// The operating system's error; the old file is then unchanged.
    pub fn finish(mut self) -> io::Result<File> {
        self.file()?.sync_data()?;
        fs::rename(&self.part, &self.path)?;
        self.file.take().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Nothing can be done about a file that cannot be removed; its name tells what it is.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Writes a file as a whole. A device, a pipe and everything below `/dev` and `/proc` is written to
/// as it is.
///
/// # Errors
/// The operating system's error.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let is_device = fs::metadata(path).is_ok_and(|what| !what.is_file() && !what.is_dir());
    if is_device || path.starts_with("/dev") || path.starts_with("/proc") {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let mut whole = WholeFile::create(path)?;
    whole.file()?.write_all(bytes)?;
    whole.finish().map(drop)
}
