//! Iterates over a file record by record, and finds the next intact record after damage.

use std::io;

use evb_core::{event::Event, id::EventId, units::Bytes};

use super::{EventFile, Window};
use crate::{
    error::{FileError, ReadError},
    format::{ALIGNMENT, FileTag, Flaw, FormatVersion, MAX_HEAD, MAX_RECORDS, Prefix, Record},
    index::{IndexEntry, IndexState},
};

/// Bytes of heads that a walk over a file may check in vain for each byte that it has passed, and
/// at once (docs/reference/file-format.md FILE-39).
const VAIN_RATE: u64 = 16;
const VAIN_AT_ONCE: u64 = MAX_HEAD;

/// The bytes of heads that a walk over a file has checked in vain. Each few bytes of a file may be
/// the front of a head of megabytes, so without a limit a small file could take hours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VainChecks(u64);

impl VainChecks {
    /// Returns true if the walk may check a head of this length at that offset.
    fn affords(self, offset: u64, length: u64) -> bool {
        self.0.saturating_add(length) <= VAIN_AT_ONCE.saturating_add(offset.saturating_mul(VAIN_RATE))
    }

    /// Returns the cost of `length` bytes of heads, if a walk over `passed` bytes affords it.
    pub(super) fn affords_all(length: u64, passed: u64) -> bool {
        Self(0).affords(passed, length)
    }
}

/// Reads the record at `offset` in a file whose records end at `end`, as a part of a walk over the
/// file.
pub(super) fn record_on_walk(
    window: &mut Window<'_>,
    vain: &mut VainChecks,
    (offset, end): (u64, u64),
    tag: FileTag,
) -> io::Result<Result<Record, Flaw>> {
    let prefix = match prefix_at(window, offset, end, tag)? {
        Ok(prefix) => prefix,
        Err(flaw) => return Ok(Err(flaw)),
    };
    if !vain.affords(offset, prefix.head_length) {
        return Ok(Err(Flaw::Unchecked));
    }
    let record = prefix.record(offset, window.up_to(offset, prefix.head_length)?, tag);
    if record.is_err() {
        vain.0 += prefix.head_length;
    }
    Ok(record)
}

/// Reads the record at `offset` in a file whose records end at `end`.
pub(super) fn record_at(
    window: &mut Window<'_>,
    offset: u64,
    end: u64,
    tag: FileTag,
) -> io::Result<Result<Record, Flaw>> {
    let prefix = match prefix_at(window, offset, end, tag)? {
        Ok(prefix) => prefix,
        Err(flaw) => return Ok(Err(flaw)),
    };
    let head = window.up_to(offset, prefix.head_length)?;
    Ok(prefix.record(offset, head, tag))
}

/// Reads the front of the record at `offset`.
pub(super) fn prefix_at(
    window: &mut Window<'_>,
    offset: u64,
    end: u64,
    tag: FileTag,
) -> io::Result<Result<Prefix, Flaw>> {
    let available = end.saturating_sub(offset);
    let bytes = window.up_to(offset, (tag.version.record_prefix() as u64).min(available))?;
    Ok(Prefix::decode(bytes, available, tag))
}

/// Returns the place of the first magic number of a record or an index in bytes that begin at an
/// aligned offset, or of a rest that is too short for one.
pub(super) fn mark_in(bytes: &[u8], version: FormatVersion) -> Option<u64> {
    let (record, index) = (version.record_magic(), version.index_magic());
    let place = bytes.chunks(ALIGNMENT as usize).position(|bytes| {
        bytes.starts_with(&record) || bytes.starts_with(&index) || bytes.len() < ALIGNMENT as usize
    });
    Some(place? as u64 * ALIGNMENT)
}

/// The result of looking for an index at an offset where no valid record begins.
enum IndexHere {
    No,
    /// The file's index begins at the offset, whole or torn, so the records end there.
    Ends,
    /// The magic number of an index is at the offset, but the bytes after it do not match the
    /// records.
    Wrong,
}

/// An iterator over the heads of a file's records, made by [`EventFile::records`]. For a file
/// without an intact index, the iterator keeps 24 bytes for each record, 24 MiB at most, to tell a
/// partly written index from damage.
///
/// ```
/// use evb_core::{event::Event, id::*, units::Bytes};
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
/// let (mut events, mut payload) = (0, Bytes::ZERO);
/// for record in file.records() {
///     events += 1;
///     payload += record?.payload_size();
/// }
/// assert_eq!((events, payload), (1, Bytes::new(4)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Records<'f> {
    file: &'f EventFile,
    window: Window<'f>,
    position: Position,
}

/// The position of a reader in a file, and the facts that it needs of the records before.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// The offset at which the next record should begin; `None` after the last record.
    pub(super) next: Option<u64>,
    /// The index entries of the records returned so far, if the file has no intact index.
    entries: Vec<IndexEntry>,
    /// True if no damage was found so far, so that `entries` has every record of the file up to the
    /// present position.
    unbroken: bool,
    vain: VainChecks,
}

impl Position {
    pub(super) fn first(file: &EventFile) -> Self {
        // If the header is not known, neither is the block that a killed writer may have begun.
        let unbroken = file.block().copy.is_some();
        let vain = VainChecks::default();
        Self { next: Some(file.header_length), entries: Vec::new(), unbroken, vain }
    }

    /// Goes on to the end of an intact record.
    pub(super) fn pass(&mut self, file: &EventFile, end: u64, entry: IndexEntry) {
        self.pass_all(file, end, [entry]);
    }

    /// Goes on to the end of several intact records.
    pub(super) fn pass_all(
        &mut self,
        file: &EventFile,
        end: u64,
        entries: impl IntoIterator<Item = IndexEntry>,
    ) {
        self.next = Some(end);
        if !self.unbroken || !file.wants_entries() {
            return;
        }
        // One entry more than an index can hold is enough to know that no index matches the
        // records.
        let room = (MAX_RECORDS + 1).saturating_sub(self.entries.len());
        self.entries.extend(entries.into_iter().take(room));
    }
}

impl EventFile {
    /// Returns true if a reader needs the index entries of the records before its position.
    pub(super) fn wants_entries(&self) -> bool {
        self.footer.state != IndexState::Present
    }
}

impl<'f> Records<'f> {
    pub(super) fn new(file: &'f EventFile) -> Self {
        Self::at(file, Position::first(file))
    }

    /// Creates an iterator that begins at a position of this file.
    pub(super) fn at(file: &'f EventFile, position: Position) -> Self {
        Self { file, window: file.window(), position }
    }

    pub(super) fn into_position(self) -> Position {
        self.position
    }

    /// Reads the record at the position, and moves on. Where no record begins, this is the index,
    /// or damage.
    fn step(&mut self) -> io::Result<Option<Result<Record, ReadError>>> {
        let Some(offset) = self.position.next.take() else { return Ok(None) };
        if offset >= self.file.records_end() {
            return Ok(None);
        }
        let span = (offset, self.file.records_end());
        match record_on_walk(&mut self.window, &mut self.position.vain, span, self.file.tag)? {
            Ok(record) => {
                self.position.pass(self.file, record.end(), IndexEntry::of(&record));
                Ok(Some(self.file.accept(record)))
            }
            Err(flaw) => match self.index_at(offset)? {
                IndexHere::Ends => Ok(None),
                IndexHere::Wrong => self.damage(offset, Flaw::Index).map(|error| Some(Err(error))),
                IndexHere::No => self.damage(offset, flaw).map(|error| Some(Err(error))),
            },
        }
    }

    /// Looks for the file's index at `offset`, where no valid record begins.
    fn index_at(&mut self, offset: u64) -> io::Result<IndexHere> {
        let (state, length, block) = (self.file.footer.state, self.file.length, self.file.block());
        let bytes = self.window.up_to(offset, 16)?;
        // A whole block goes from here to the end of the file; a writer that was killed leaves the
        // first part of one.
        let is_whole_block = block.begins(bytes, offset, length);
        let may_be_torn_block = block.may_begin_torn(bytes, length - offset);
        Ok(match state {
            // With an intact index, the iteration ends where the index begins and never reads the
            // index itself.
            IndexState::Present => IndexHere::No,
            IndexState::Damaged if offset == self.file.footer.offset || is_whole_block => IndexHere::Ends,
            _ if !bytes.starts_with(&block.tag.version.index_magic()) => IndexHere::No,
            IndexState::Absent if !self.position.unbroken && may_be_torn_block => IndexHere::Ends,
            IndexState::Absent if self.position.unbroken && self.is_torn_index(offset)? => IndexHere::Ends,
            _ => IndexHere::Wrong,
        })
    }

    fn is_torn_index(&mut self, offset: u64) -> io::Result<bool> {
        let Self { file, window, position } = self;
        let entries = &mut position.entries;
        Ok(entries.len() <= MAX_RECORDS && file.block().is_torn(window, (offset, file.length), entries)?)
    }

    /// Returns the error that describes the damage at `offset`, and sets the offset at which
    /// reading continues.
    fn damage(&mut self, offset: u64, flaw: Flaw) -> io::Result<ReadError> {
        let found = self.resume(offset + ALIGNMENT)?;
        let end = found.unwrap_or_else(|| self.file.records_end());
        let (path, length) = (self.file.path.clone(), Bytes::new(end - offset));
        (self.position.next, self.position.unbroken) = (found, false);
        // If the file has no index and no intact record follows, a killed writer left the damaged
        // bytes as a torn tail.
        let has_none = self.file.footer.state == IndexState::Absent && flaw != Flaw::Index;
        let torn = found.is_none() && has_none;
        Ok(if torn {
            let event = self.event_of_torn(offset)?;
            ReadError::TornTail { path, offset, length, event }
        } else {
            ReadError::Damaged { path, offset, length, event: None, flaw }
        })
    }

    /// Returns the event of a torn record, if the record's head is intact.
    fn event_of_torn(&mut self, offset: u64) -> io::Result<Option<EventId>> {
        let record = record_at(&mut self.window, offset, u64::MAX, self.file.tag)?;
        Ok(record.ok().map(|record| record.event))
    }

    /// Returns the offset of the next intact record head, or index, from `start` on.
    fn resume(&mut self, start: u64) -> io::Result<Option<u64>> {
        let (end, file, block) = (self.file.records_end(), self.file, self.file.block());
        let mut at = start;
        while at < end {
            let piece = self.window.some(at, end - at)?;
            let Some(place) = mark_in(piece, file.tag.version) else {
                at += piece.len() as u64;
                continue;
            };
            at += place;
            let bytes = self.window.up_to(at, 16)?;
            if bytes.len() < ALIGNMENT as usize {
                return Ok(None);
            }
            let vain = &mut self.position.vain;
            // A mark may be a part of a payload, so a head with the right checksum must follow.
            if block.begins(bytes, at, file.length)
                || record_on_walk(&mut self.window, vain, (at, end), file.tag)?.is_ok()
            {
                return Ok(Some(at));
            }
            at += ALIGNMENT;
        }
        Ok(None)
    }

    /// Verifies the payloads of the record that the iterator has just returned, with the bytes that
    /// are already in the window.
    pub(crate) fn check(&mut self, record: &Record) -> Result<(), ReadError> {
        self.file.check(record, &mut self.window)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Ok(item) => item,
            Err(error) => Some(Err(FileError::of("read", &self.file.path)(error).into())),
        }
    }
}

/// An iterator over a file's events, made by [`EventFile::events`].
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
/// for event in EventFile::open(&path)?.events() {
///     match event {
///         Ok(event) => assert_eq!(event.id, EventId::FIRST),
///         Err(damage) => eprintln!("{damage}"), // the intact events that follow are read
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Events<'f> {
    records: Records<'f>,
}

impl<'f> Events<'f> {
    pub(super) const fn new(records: Records<'f>) -> Self {
        Self { records }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self.records.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        Some(self.records.file.payloads(&record, &mut self.records.window))
    }
}
