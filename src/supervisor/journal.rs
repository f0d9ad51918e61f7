//! The file of the supervisor's journal. A torn end of the file is cut off; a file with damage
//! before its end is left unchanged.

pub(super) mod entries;
pub(super) mod writer;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

pub use evb_core::supervisor::JournalFsync;
use evb_core::{
    id::RunNumber,
    quantities::counted,
    supervisor::{RecoverError, unfinished},
    wire::journal::Entry,
};
use evb_net::host::WholeFile;

use entries::{Entries, Fault, HEADER, frame};

/// The file in which a supervisor records all that another supervisor needs to go on with its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Path of the file, which only one supervisor at a time can open.
    pub path: PathBuf,
    /// Failures that the journal survives.
    pub fsync: JournalFsync,
}

/// Reason for which a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system refused an operation on the file.
    #[error(
        "cannot {action} the supervisor's journal {path}: {reason}; see that this user may write to its directory, and that its disk has room"
    )]
    Io {
        /// The operation that was tried.
        action: &'static str,
        /// The file of the journal.
        path: PathBuf,
        /// The operating system's error.
        reason: io::Error,
    },
    /// Another supervisor uses the journal; two supervisors at once would contradict each other.
    #[error("another supervisor uses the journal {0}; stop it, or give each supervisor its own `journal`")]
    Taken(PathBuf),
    /// The file is not a journal, or a journal of another version of evb.
    #[error(
        "{0} is not a journal of this version of evb, so the supervisor does not touch it; name another file as `journal`, or move this one away"
    )]
    Foreign(PathBuf),
    /// The journal is damaged before its end: cutting it at the damage would lose the entries
    /// behind the damage.
    #[error(
        "the journal {path} is damaged: the entry at byte {offset} cannot be read, and more entries follow it; restore \
         the file from a copy, or move it away to begin a new run, which does not know the events of the old one"
    )]
    Damaged {
        /// The file of the journal.
        path: PathBuf,
        /// Offset of the first entry that cannot be read.
        offset: u64,
    },
    /// The file is a journal from which the run cannot go on.
    #[error(
        "the journal {path} cannot be used: {reason}; to go on with its run, put back a copy of the journal, or the release and the configuration that wrote it; to begin a new run, move the journal away, which gives up the events that the old run had not built"
    )]
    Unusable {
        /// The file of the journal.
        path: PathBuf,
        /// Reason for which the run cannot be recovered.
        reason: RecoverError,
    },
}

impl JournalError {
    /// Returns how a fault becomes an error that names the journal's path.
    fn reading(path: &Path) -> impl Fn(Fault) -> Self {
        let path = path.to_owned();
        move |fault| match fault {
            Fault::Io(reason) => Self::Io { action: "read", path: path.clone(), reason },
            Fault::Foreign => Self::Foreign(path.clone()),
            Fault::Damaged(offset) => Self::Damaged { path: path.clone(), offset },
        }
    }
}

/// The open journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    fsync: JournalFsync,
    /// Length of the valid part of the file.
    length: u64,
    /// Bytes to be appended at the next commit.
    pending: Vec<u8>,
    /// True if an entry that is too large to be read again is to be appended.
    endless: bool,
    /// True if parts of a failed write may follow the valid part.
    untidy: bool,
    /// True if the directory entry of the file must be synced as well.
    nameless: bool,
}

/// Returns the run of a journal if that run is not over: a supervisor with this journal goes on
/// with the run.
///
/// # Errors
/// [`JournalError`]: the journal cannot be read.
pub fn unfinished_run(path: &Path) -> Result<Option<RunNumber>, JournalError> {
    let reading = JournalError::reading(path);
    match File::open(path) {
        Ok(file) => Entries::new(&file).and_then(unfinished).map_err(reading),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(reading(Fault::Io(error))),
    }
}

impl Journal {
    /// Opens or creates the journal's file, locks it for this process, and passes its entries to
    /// `show`.
    pub(super) fn open(config: JournalConfig, show: impl FnMut(Entry)) -> Result<Self, JournalError> {
        let JournalConfig { path, fsync } = config;
        let fault = |action| {
            let path = path.clone();
            move |reason| JournalError::Io { action, path, reason }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(fault("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Taken(path)),
            Err(TryLockError::Error(error)) => return Err(fault("lock")(error)),
        }
        // Its owner may have put a new file in the place of this one since it was opened, and then
        // keeps the lock of the new file.
        if !is_at(&file, &path).map_err(fault("find again"))? {
            return Err(JournalError::Taken(path));
        }
        let length = read(&file, &path, show).map_err(JournalError::reading(&path))?;
        let mut journal = Self {
            file,
            path: path.clone(),
            fsync,
            length,
            pending: Vec::new(),
            endless: false,
            untidy: true,
            nameless: fsync == JournalFsync::Commit,
        };
        if length == 0 {
            journal.clear().map_err(fault("write"))?;
        } else {
            journal.rewind().map_err(fault("cut"))?;
        }
        Ok(journal)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Empties the file, because its run is over.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.length = 0;
        self.rewind()?;
        self.file.write_all(&HEADER)?;
        self.length = HEADER.len() as u64;
        Ok(())
    }

    /// Adds an entry, which is safe after the next [`commit`](Self::commit).
    pub(super) fn append(&mut self, entry: &Entry) {
        self.endless |= !frame(entry, &mut self.pending);
    }

    /// Writes the added entries. After an error, the valid part of the file is unchanged, and the
    /// next call tries again.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.write();
        if written.is_err() {
            // If the file cannot be truncated now, the next write truncates it first.
            let _ = self.rewind();
        }
        written
    }

    /// Writes the pending entries to the file. After a failure, the next call first cuts off what
    /// was written of them.
    fn write(&mut self) -> io::Result<()> {
        if self.endless {
            return Err(too_large());
        }
        if self.untidy {
            self.rewind()?;
        }
        // Until all is written, the file may end with a part of these entries.
        self.untidy = true;
        self.file.write_all(&self.pending)?;
        if self.fsync == JournalFsync::Commit {
            self.file.sync_data()?;
        }
        // The name of a new file is synchronised once, besides its content.
        if self.nameless {
            self.sync_name()?;
            self.nameless = false;
        }
        self.untidy = false;
        self.length += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Returns the length of the valid part of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Replaces all entries by the given ones, in a new file that is then renamed to the old name.
    /// A failure changes nothing.
    pub(super) fn replace(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut bytes = HEADER.to_vec();
        if !entries.iter().all(|entry| frame(entry, &mut bytes)) {
            return Err(too_large());
        }
        // The journal may be a symbolic link to its place, which stays one.
        let mut whole = WholeFile::create(&fs::canonicalize(&self.path)?)?;
        whole.file()?.try_lock()?;
        whole.file()?.write_all(&bytes)?;
        let file = whole.finish()?;
        (self.file, self.length, self.untidy) = (file, bytes.len() as u64, false);
        // Until the new name is synced, the old file is as good, because no entry was added since.
        self.nameless = self.fsync == JournalFsync::Commit;
        Ok(())
    }

    /// Removes the file: its content is out of date after a run that went on without the journal.
    pub(super) fn abandon(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        if self.fsync == JournalFsync::Commit { self.sync_name() } else { Ok(()) }
    }

    /// Truncates the file to its valid part, and seeks to its end.
    fn rewind(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        self.untidy = false;
        Ok(())
    }

    fn sync_name(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

/// Returns true if `path` leads to the open file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (open, found) = (file.metadata()?, fs::metadata(path)?);
    Ok((open.dev(), open.ino()) == (found.dev(), found.ino()))
}

fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "an entry is longer than a journal allows, which is a fault of evb (report it with the logs)",
    )
}

/// Passes all entries to `show`, and returns the length of the valid part of the file.
fn read(file: &File, path: &Path, mut show: impl FnMut(Entry)) -> Result<u64, Fault> {
    let mut entries = Entries::new(file)?;
    entries.by_ref().try_for_each(|entry| entry.map(&mut show))?;
    let (torn, at) = (entries.torn(), entries.whole());
    if torn > 0 && at > 0 {
        let (path, cut) = (path.display(), counted(torn, "byte"));
        tracing::warn!(%path, at, "cut {cut} off the end of the supervisor's journal {path}, where the last entry was incomplete; the run can go on, and nothing needs to be done");
    }
    Ok(at)
}
