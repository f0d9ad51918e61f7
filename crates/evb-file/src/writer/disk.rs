//! The few operations that a writer needs from the file system, so that tests can let each of them
//! fail.

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions},
    io::{self, IoSlice, Write},
    path::Path,
};

/// The place where files are created.
pub(super) trait Disk: Debug + Send {
    /// Creates a file; it is an error if it exists.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Storage>>;
    /// Makes the names in a directory survive a power cut.
    fn sync_dir(&mut self, dir: &Path) -> io::Result<()>;
    /// Removes a file that could not even be begun.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// A file that grows at its end.
pub(super) trait Storage: Debug + Send {
    /// Appends some of the bytes and returns their number.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Cuts the file.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Makes the content survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
    /// Returns true if the file still has a name; bytes written into a file without one are lost.
    fn is_named(&self) -> io::Result<bool>;
}

/// The file system.
#[derive(Debug)]
pub(super) struct LocalDisk;

impl Disk for LocalDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Storage>> {
        // In append mode, the position follows when the file is cut.
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

    #[cfg(unix)]
    fn is_named(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt as _;
        Ok(self.metadata()?.nlink() > 0)
    }

    #[cfg(not(unix))]
    fn is_named(&self) -> io::Result<bool> {
        Ok(true)
    }
}
