//! The file system operations that a writer needs, behind traits so that tests can make each of
//! them fail.

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions},
    io::{self, IoSlice, Write},
    path::Path,
};

/// A file system in which the writer creates its files.
pub(super) trait Disk: Debug + Send {
    /// Creates a file. Returns an error if the file exists.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Storage>>;
    /// Syncs a directory, so that the names of files created in it survive a power cut.
    fn sync_dir(&mut self, dir: &Path) -> io::Result<()>;
    /// Removes a file whose header could not be written.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// A file that grows at its end.
pub(super) trait Storage: Debug + Send {
    /// Appends some of the bytes and returns their number.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Truncates the file to the given length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Syncs the file, so that its content survives a power cut.
    fn sync(&mut self) -> io::Result<()>;
    /// Returns the length of the file; `None` if the file has no name in a directory any more, so
    /// that its bytes are lost.
    fn named_length(&self) -> io::Result<Option<u64>>;
}

/// The real file system.
#[derive(Debug)]
pub(super) struct LocalDisk;

impl Disk for LocalDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Storage>> {
        // In append mode, writes go to the new end of the file after it was truncated.
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Box::new(file))
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

impl Storage for File {
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Write::write_vectored(self, slices)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    /// Returns the length of the file, or `None` if no directory has it any more.
    fn named_length(&self) -> io::Result<Option<u64>> {
        let found = self.metadata()?;
        #[cfg(unix)]
        if std::os::unix::fs::MetadataExt::nlink(&found) == 0 {
            return Ok(None);
        }
        Ok(Some(found.len()))
    }
}
