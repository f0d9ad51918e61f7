//! One file that is being written, and the offset up to which it is committed.

use std::{
    io,
    path::{Path, PathBuf},
};

use evb_core::{
    event::Event,
    fragment::RunningChecksum,
    id::{EventId, RunId, RunNumber},
    units::Bytes,
};

use super::{
    ClosedFile, FsyncPolicy,
    disk::{Disk, Storage},
    staging::{COPIED, Staging},
};
use crate::{
    error::FileError,
    format::{FileHeader, FileTag, FormatVersion},
    index::{ClosingBlock, IndexEntry, closing_size},
};

/// The error number for "No such file or directory" on every Unix.
const ENOENT: i32 = 2;

/// The state of a file at the last commit.
#[derive(Clone, Copy, Debug, Default)]
struct Committed {
    /// Length of the file in bytes.
    length: u64,
    events: usize,
}

#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    storage: Box<dyn Storage>,
    tag: FileTag,
    /// The bytes of the header that the closing block repeats: none in version 1.
    header: Vec<u8>,
    staging: Staging,
    /// The number of bytes that were passed to the kernel.
    handed_over: u64,
    entries: Vec<IndexEntry>,
    committed: Committed,
    /// The checksum of the file at the last commit.
    committed_sum: Option<RunningChecksum>,
    /// True if the file must be truncated to the last commit before anything else is written to it.
    torn: bool,
}

impl OutputFile {
    /// Creates the file and writes its header. If writing fails, the file is removed.
    pub(super) fn create(
        disk: &mut dyn Disk,
        path: PathBuf,
        header: &FileHeader,
        fsync: FsyncPolicy,
    ) -> Result<Self, FileError> {
        let storage = disk.create(&path).map_err(FileError::of("create", &path))?;
        let (bytes, tag) = header.encode();
        let (staging, entries) = (Staging::new(), Vec::new());
        // The closing block of version 2 repeats the header.
        let repeated = if tag.version == FormatVersion::Two { bytes.clone() } else { Vec::new() };
        let mut output = Self {
            path,
            storage,
            tag,
            header: repeated,
            staging,
            handed_over: 0,
            entries,
            committed: Committed::default(),
            committed_sum: Some(RunningChecksum::default()),
            torn: false,
        };
        output.staging.copy_bytes(&bytes);
        let begun = output.commit(fsync).and_then(|()| match (fsync, output.path.parent()) {
            (FsyncPolicy::Commit, Some(dir)) => {
                disk.sync_dir(dir).map_err(FileError::of("sync the directory", dir))
            }
            _ => Ok(()),
        });
        match begun {
            Ok(()) => Ok(output),
            Err(error) => {
                // An error of the removal is ignored, because the error that came first is
                // reported. If the file remains, the next attempt to create it fails.
                let _ = disk.remove(&output.path);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn tag(&self) -> FileTag {
        self.tag
    }

    /// Returns the size of the closing block of the file, if it has this number of records.
    pub(super) fn closing_size(&self, records: usize) -> u64 {
        closing_size(records, self.header.len())
    }

    /// Returns the length that the file has once all appended events are written.
    pub(super) fn length(&self) -> u64 {
        self.handed_over + self.staging.len()
    }

    /// Returns the number of events appended to the file.
    pub(super) fn events(&self) -> usize {
        self.entries.len()
    }

    /// Describes the file of that size, which is closed.
    pub(super) fn closed(&self, run: RunNumber, run_id: RunId, size: Bytes) -> ClosedFile {
        let ids = || self.entries.iter().map(|entry| entry.event);
        let (path, events) = (self.path.clone(), self.committed_events());
        let checksum = self.staging.sum.clone().map(|mut sum| sum.take());
        ClosedFile { run, run_id, path, size, events, first: ids().min(), last: ids().max(), checksum }
    }

    /// Leaves out the checksum of the file, for callers that do not use it.
    pub(super) fn skip_checksum(&mut self) {
        (self.staging.sum, self.committed_sum) = (None, None);
    }

    pub(super) fn committed_events(&self) -> u64 {
        self.committed.events as u64
    }

    pub(super) fn committed_bytes(&self) -> Bytes {
        Bytes::new(self.committed.length)
    }

    /// Appends the record of an event, of the given size: copies a small record to the buffer, and
    /// writes a large one directly.
    pub(super) fn append(&mut self, event: &Event, size: u64) -> Result<(), FileError> {
        self.mend()?;
        let offset = self.length();
        if size > COPIED {
            let written = self.staging.write_with(event, size, &self.tag, &mut *self.storage);
            written.map_err(FileError::of("write to", &self.path))?;
            self.handed_over = offset + size;
        } else {
            if !self.staging.fits(size) {
                self.hand_over()?;
            }
            self.staging.copy(event, size, &self.tag);
        }
        self.entries.push(IndexEntry { event: event.id, epoch: event.epoch, offset });
        Ok(())
    }

    /// Appends a record that is in memory as a whole.
    pub(super) fn append_bytes(&mut self, entry: IndexEntry, record: &[u8]) -> Result<(), FileError> {
        self.mend()?;
        if !self.staging.fits(record.len() as u64) {
            self.hand_over()?;
        }
        self.staging.copy_bytes(record);
        self.entries.push(entry);
        Ok(())
    }

    /// Passes all appended events to the kernel, and syncs the file if `fsync` requires it.
    pub(super) fn commit(&mut self, fsync: FsyncPolicy) -> Result<(), FileError> {
        self.mend()?;
        self.hand_over()?;
        if self.committed.length < self.handed_over {
            self.sync(fsync)?;
            self.check_whole()?;
            self.committed = Committed { length: self.handed_over, events: self.entries.len() };
            self.committed_sum.clone_from(&self.staging.sum);
        }
        Ok(())
    }

    /// Checks that the file still has all bytes that were written to it: another program may have
    /// removed or cut it.
    pub(super) fn check_whole(&self) -> Result<(), FileError> {
        let whole = self.storage.named_length().and_then(|length| match length {
            None => Err(io::Error::from_raw_os_error(ENOENT)),
            Some(length) if length < self.handed_over => {
                let what = format!("another program cut it to {length} bytes");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, what))
            }
            Some(_) => Ok(()),
        });
        whole.map_err(FileError::of("find all events again in", &self.path))
    }

    /// Returns the committed events that are gone, because another program removed or cut the
    /// file; `None` if the file has all of them. Of a file that was cut, the rest keeps whole
    /// records only, and nothing more must be written to it.
    pub(super) fn take_gone(&mut self) -> Option<Vec<EventId>> {
        let length = match self.storage.named_length() {
            Ok(Some(length)) if length >= self.handed_over => return None,
            Ok(length) => length.unwrap_or(0),
            Err(_) => return None,
        };
        // What was written since the last commit may stand behind the cut.
        let kept = length.saturating_sub(self.handed_over - self.committed.length);
        let end =
            |place: usize| self.entries.get(place + 1).map_or(self.committed.length, |next| next.offset);
        let first =
            (0..self.committed.events).find(|place| end(*place) > kept).unwrap_or(self.committed.events);
        let cut = self.entries.get(first).map_or(self.committed.length, |entry| entry.offset);
        // An error is ignored, because readers find the torn end too.
        let _ = self.storage.truncate(cut.min(kept));
        Some(self.entries[first..self.committed.events].iter().map(|entry| entry.event).collect())
    }

    /// Writes the closing block after the last committed record, and returns the size of the file.
    pub(super) fn write_index(&mut self, fsync: FsyncPolicy) -> Result<Bytes, FileError> {
        let Self { staging, storage, entries, path, tag, header, .. } = self;
        let block = ClosingBlock { tag: *tag, copy: Some(header) };
        let size = self.handed_over + block.size(entries.len());
        block.write(entries, self.handed_over, |piece| {
            staging.copy_bytes(piece);
            staging.write(&mut **storage).map_err(FileError::of("write the index to", path))
        })?;
        self.sync(fsync)?;
        Ok(Bytes::new(size))
    }

    /// Discards all events appended since the last commit, and returns them.
    pub(super) fn roll_back(&mut self) -> Vec<EventId> {
        self.staging.clear();
        self.staging.sum.clone_from(&self.committed_sum);
        self.handed_over = self.committed.length;
        self.torn = true;
        self.entries.drain(self.committed.events..).map(|entry| entry.event).collect()
    }

    /// Truncates the file to the last commit, if events were discarded. After an error, the next
    /// operation tries again before it writes anything.
    pub(super) fn mend(&mut self) -> Result<(), FileError> {
        if self.torn {
            self.storage.truncate(self.committed.length).map_err(FileError::of("cut back", &self.path))?;
            self.torn = false;
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), FileError> {
        let staged = self.staging.len();
        self.staging.write(&mut *self.storage).map_err(FileError::of("write to", &self.path))?;
        self.handed_over += staged;
        Ok(())
    }

    fn sync(&mut self, fsync: FsyncPolicy) -> Result<(), FileError> {
        match fsync {
            FsyncPolicy::None => Ok(()),
            FsyncPolicy::Commit => self.storage.sync().map_err(FileError::of("sync", &self.path)),
        }
    }
}
