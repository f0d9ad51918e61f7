//! [`EventFile`] reads one file: all events in file order, one by one or as columns of numbers, or
//! single events by id. The reader finds all intact records of a damaged file.

mod scan;
mod recovery;
mod lookup;
mod batch;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use bytes::Bytes as Payload;
use evb_core::{
    alignment::Episode, event::Event, fragment::RunningChecksum, id::EventId, ledger::OwingChange,
    units::Bytes,
};

use crate::{
    beside,
    error::{FileError, ReadError},
    format::{FileHeader, FileTag, Flaw, Record},
    index::{ClosingBlock, Footer, IndexEntry, IndexState},
    window::{Window, WindowBytes},
};
use batch::flaw_of;
pub use batch::{Batch, Batches, ReadAhead};
pub use recovery::Recovery;
pub use scan::{Events, Records};

/// An open event file. The methods for reading take `&self`, so several iterators over the file may
/// run concurrently.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// let file = EventFile::open(&path)?;
/// let event = file.event(EventId::FIRST)?.ok_or("the event is not in this file")?;
/// assert_eq!(event.fragment(SourceId::new(1)).map(|data| data.payload), Some(&b"data"[..]));
/// assert_eq!(file.event(EventId::new(2))?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
    /// The file's length at the time of opening; bytes that a writer appends later are ignored.
    length: u64,
    header: FileHeader,
    /// The offset of the first record: the length of the file's header, unless it was recovered
    /// from records.
    header_length: u64,
    /// The bytes of the header that the closing block repeats: none in version 1. `None` if the
    /// header was recovered from records.
    header_bytes: Option<Vec<u8>>,
    recovery: Option<Recovery>,
    tag: FileTag,
    footer: Footer,
    record_limit: Bytes,
    /// The index entries found by scanning, for a file without an intact index. The scan is done
    /// when the entries are first needed.
    scanned: OnceLock<Vec<IndexEntry>>,
    /// True if an intact index leaves out no record, once that is known.
    has_whole_index: OnceLock<bool>,
}

/// Opens a regular file for reading, and returns its length too. Anything else is refused before it
/// is opened: a pipe would wait for a writer.
fn open_regular(path: &Path) -> Result<(File, u64), FileError> {
    if !fs::metadata(path).map_err(FileError::of("open", path))?.is_file() {
        let reason = io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file; give an event file, or a directory of event files",
        );
        return Err(FileError::of("read", path)(reason));
    }
    let file = File::open(path).map_err(FileError::of("open", path))?;
    let length = file.metadata().map_err(FileError::of("open", path))?.len();
    Ok((file, length))
}

/// Reads or recovers the header of an event file, and nothing else if it is intact.
pub(crate) fn read_header(path: &Path) -> Result<(FileHeader, Option<Recovery>), ReadError> {
    let (file, length) = open_regular(path)?;
    let found = recovery::header(&file, length).map_err(FileError::of("read", path))?;
    let found = found.map_err(|flaw| ReadError::Header { path: path.to_owned(), flaw })?;
    Ok((found.header, found.recovery))
}

impl EventFile {
    /// The default limit on the size of a record read into memory; [`Self::with_record_limit`]
    /// changes it.
    pub const RECORD_LIMIT: Bytes = Bytes::mib(1024);

    /// Opens an event file, reads its header, and verifies the checksum of its index. A damaged
    /// header is recovered from other parts of the file, if possible; [`Self::recovery`] tells.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ReadError> {
        let path = path.into();
        let (file, length) = open_regular(&path)?;
        let found = recovery::header(&file, length).map_err(FileError::of("read", &path))?;
        let found = found.map_err(|flaw| ReadError::Header { path: path.clone(), flaw })?;
        let recovery::Found { header, tag, bytes, first_record, recovery } = found;
        let block = ClosingBlock { tag, copy: bytes.as_deref() };
        let mut footer = Footer::find(&file, length, block).map_err(FileError::of("read", &path))?;
        if footer.offset < first_record {
            footer = Footer { state: IndexState::Absent, offset: length, records: 0 };
        }
        Ok(Self {
            path,
            file,
            length,
            header,
            header_length: first_record,
            header_bytes: bytes,
            recovery,
            tag,
            footer,
            record_limit: Self::RECORD_LIMIT,
            scanned: OnceLock::new(),
            has_whole_index: OnceLock::new(),
        })
    }

    /// Sets the limit on the size of a record that is read into memory as one event.
    #[must_use]
    pub const fn with_record_limit(mut self, limit: Bytes) -> Self {
        self.record_limit = limit;
        self
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's header.
    pub const fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Returns what is known about what happened to sources, by the header and by the file
    /// `run000001_b01.alignment.json` beside this one, which a builder keeps up to date.
    pub fn episodes(&self) -> Vec<Episode> {
        let mut all = Vec::new();
        let beside = beside::read(&self.path, &self.header, "episodes");
        self.header.episodes.iter().cloned().chain(beside).for_each(|one| Episode::note(&mut all, one));
        all
    }

    /// Returns the changes by which sources were excluded or included, in the order of their first
    /// events, by the same two files as [`Self::episodes`].
    pub fn changes(&self) -> Vec<OwingChange> {
        let mut all = beside::read(&self.path, &self.header, "changes");
        all.extend_from_slice(&self.header.changes);
        OwingChange::joined(all)
    }

    /// Returns how the file's header was recovered; `None` if it is not damaged.
    pub const fn recovery(&self) -> Option<Recovery> {
        self.recovery
    }

    /// Returns the size that the file had when it was opened.
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.length)
    }

    /// Returns the state of the file's index.
    pub const fn index_state(&self) -> IndexState {
        self.footer.state
    }

    /// Returns an iterator over all events in the order in which they were written. Damage is an
    /// error item, after which reading continues; a torn tail is the last item.
    pub fn events(&self) -> Events<'_> {
        Events::new(self.records())
    }

    /// Returns an iterator over the heads of all records in the order in which they were written;
    /// no payload is read or checked.
    pub fn records(&self) -> Records<'_> {
        Records::new(self)
    }

    /// Reads the event whose record begins at the entry's offset.
    pub fn event_at(&self, entry: IndexEntry) -> Result<Event, ReadError> {
        let mut window = self.window();
        let record = self.record_at(entry, &mut window)?;
        self.payloads(&record, &mut window)
    }

    /// Reads the head of the record that begins at the entry's offset.
    pub(crate) fn record_at(&self, entry: IndexEntry, window: &mut Window<'_>) -> Result<Record, ReadError> {
        let record = match scan::record_at(window, entry.offset, self.records_end(), self.tag) {
            Ok(record) => {
                record.map_err(|flaw| self.damaged(entry.offset, Bytes::ZERO, Some(entry.event), flaw))
            }
            Err(error) => Err(FileError::of("read", &self.path)(error).into()),
        }?;
        let record = self.accept(record)?;
        if (record.event, record.epoch) != (entry.event, entry.epoch) {
            let (path, offset, event) = (self.path.clone(), entry.offset, entry.event);
            return Err(ReadError::WrongIndex { path, offset, event });
        }
        Ok(record)
    }

    /// Reads the event of a record that [`Self::records`] has returned.
    pub fn read(&self, record: &Record) -> Result<Event, ReadError> {
        self.payloads(record, &mut self.window())
    }

    /// Reads the payloads of a record whose head is intact, and verifies their checksums.
    pub(crate) fn payloads(&self, record: &Record, window: &mut Window<'_>) -> Result<Event, ReadError> {
        self.check_size(record)?;
        // The record was found to lie within the file, so a damaged length cannot cause a huge
        // allocation.
        let mut bytes = vec![0; (record.length - record.head_length).as_usize()];
        window.read_exact(record.payload_offset(), &mut bytes).map_err(FileError::of("read", &self.path))?;
        event_of(record, bytes)
            .map_err(|flaw| self.damaged(record.offset, record.length, Some(record.event), flaw))
    }

    /// Appends the payloads of a record whose head is intact to `memory`, and verifies their
    /// checksums. If they are not intact, `memory` stays as it was.
    pub(crate) fn payloads_into(
        &self,
        record: &Record,
        window: &mut Window<'_>,
        memory: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.check_size(record)?;
        let (begin, size) = (memory.len(), record.payload_size().as_usize());
        memory.resize(begin + (record.length - record.head_length).as_usize(), 0);
        let read = window.read_exact(record.payload_offset(), &mut memory[begin..]);
        let flaw = read.map(|()| flaw_of(record.fragments.iter().copied(), &memory[begin..]));
        // What was read besides the payloads goes, and after a flaw all that was read.
        memory.truncate(if matches!(flaw, Ok(None)) { begin + size } else { begin });
        match flaw.map_err(FileError::of("read", &self.path))? {
            Some(flaw) => Err(self.damaged(record.offset, record.length, Some(record.event), flaw)),
            None => Ok(()),
        }
    }

    /// Replaces the content of `memory` by all bytes of a record whose head is intact: head,
    /// payloads and padding. Verifies the payloads.
    pub(crate) fn copy_into(
        &self,
        record: &Record,
        window: &mut Window<'_>,
        memory: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.check_size(record)?;
        memory.resize(record.length.as_usize(), 0);
        window.read_exact(record.offset, memory).map_err(FileError::of("read", &self.path))?;
        match flaw_of(record.fragments.iter().copied(), &memory[record.head_length.as_usize()..]) {
            Some(flaw) => Err(self.damaged(record.offset, record.length, Some(record.event), flaw)),
            None => Ok(()),
        }
    }

    /// Checks that a record is not larger than the reader's limit.
    fn check_size(&self, record: &Record) -> Result<(), ReadError> {
        let (size, limit) = (record.length, self.record_limit);
        if size <= limit {
            return Ok(());
        }
        let (path, offset, event) = (self.path.clone(), record.offset, record.event);
        Err(ReadError::TooLarge { path, offset, event, size, limit })
    }

    /// Verifies the payload checksums of a record whose head is intact, in constant memory.
    pub(crate) fn check(&self, record: &Record, window: &mut Window<'_>) -> Result<(), ReadError> {
        let mut at = record.payload_offset();
        let mut checksum = RunningChecksum::default();
        let flawed = |flaw| Err(self.damaged(record.offset, record.length, Some(record.event), flaw));
        for fragment in &record.fragments {
            let mut left = u64::from(fragment.length);
            while left > 0 {
                let piece = window.some(at, left).map_err(FileError::of("read", &self.path))?;
                if piece.is_empty() {
                    return flawed(Flaw::PastEnd);
                }
                checksum.update(piece);
                at += piece.len() as u64;
                left -= piece.len() as u64;
            }
            if checksum.take() != fragment.checksum {
                return flawed(Flaw::PayloadChecksum(fragment.source));
            }
        }
        let padding = window.up_to(at, record.end() - at).map_err(FileError::of("read", &self.path))?;
        if padding.iter().any(|byte| *byte != 0) { flawed(Flaw::Padding) } else { Ok(()) }
    }

    /// Returns the offset beyond which the file has no records: the start of an intact index, or
    /// else the end of the file.
    const fn records_end(&self) -> u64 {
        match self.footer.state {
            IndexState::Present => self.footer.offset,
            IndexState::Absent | IndexState::Damaged => self.length,
        }
    }

    /// Returns what the closing block of the file depends on, besides the records.
    pub(crate) fn block(&self) -> ClosingBlock<'_> {
        ClosingBlock { tag: self.tag, copy: self.header_bytes.as_deref() }
    }

    /// Returns an error in place of a record that needs a newer reader.
    fn accept(&self, record: Record) -> Result<Record, ReadError> {
        match record.refusal {
            None => Ok(record),
            Some(flaw) => Err(self.damaged(record.offset, record.length, Some(record.event), flaw)),
        }
    }

    #[cfg(test)]
    pub(crate) const fn tag(&self) -> FileTag {
        self.tag
    }

    pub(crate) fn window(&self) -> Window<'_> {
        Window::new(&self.file, self.length)
    }

    /// Creates a window with bytes that an earlier window over this file has read.
    pub(crate) fn window_with(&self, held: WindowBytes) -> Window<'_> {
        Window::with(&self.file, self.length, held)
    }

    fn damaged(&self, offset: u64, length: Bytes, event: Option<EventId>, flaw: Flaw) -> ReadError {
        ReadError::Damaged { path: self.path.clone(), offset, length, event, flaw }
    }
}

/// Returns the event of a record whose head is intact, and verifies its payloads. `bytes` are the
/// payloads and the padding.
pub(crate) fn event_of(record: &Record, bytes: Vec<u8>) -> Result<Event, Flaw> {
    let padding_ok = bytes[record.payload_size().as_usize()..].iter().all(|byte| *byte == 0);
    let mut event = Event::empty(record.event, record.run, record.epoch, record.builder);
    event.run_id = record.run_id;
    event.triggered = record.triggered;
    event.utc = record.utc;
    event.missing.clone_from(&record.missing);
    event.absent.clone_from(&record.absent);
    event.tag = record.tag;
    let mut rest = Payload::from(bytes);
    for fragment in &record.fragments {
        let payload = rest.split_to(fragment.length as usize);
        event.add_judged(fragment.source, fragment.timestamp, fragment.alignment, payload);
        if fragment.lost_packets > 0 {
            event.set_lost_packets(fragment.source, fragment.lost_packets);
        }
    }
    // `Event::add_judged` has computed the checksums of the payloads just read, so only a
    // comparison remains.
    let wrong = event.fragments().zip(&record.fragments).find(|(read, told)| read.checksum != told.checksum);
    match wrong {
        Some((_, fragment)) => Err(Flaw::PayloadChecksum(fragment.source)),
        None if !padding_ok => Err(Flaw::Padding),
        None => Ok(event),
    }
}
