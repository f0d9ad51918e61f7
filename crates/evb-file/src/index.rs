//! The index at the end of a closed file. The index maps event id and epoch to the record's offset.
//! Its entries are sorted, so that a reader can search the index on disk.

#[cfg(test)]
mod tests;

use std::{fs::File, io, os::unix::fs::FileExt};

use evb_core::{
    fragment::RunningChecksum,
    id::{Epoch, EventId},
};

use crate::{
    format::{Fields, FileTag, INDEX_MAGIC, MAX_RECORDS, Record, TRAILER_MAGIC},
    window::Window,
};

const HEAD: u64 = 16;
/// The size of one index entry, in bytes.
pub(crate) const ENTRY: u64 = 24;
const TRAILER: u64 = 24;

/// The offset of one event's record, as the index of a file stores it.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, sources: vec![SourceId::new(1)] };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// let file = EventFile::open(&path)?;
/// let entries = file.index_entries(0, 1000)?;
/// assert_eq!(entries[0].event, EventId::FIRST);
/// assert_eq!(file.event_at(entries[0])?.fragments().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexEntry {
    /// The trigger number.
    pub event: EventId,
    /// The epoch in which the event was built.
    pub epoch: Epoch,
    /// The offset of the record in the file, in bytes.
    pub offset: u64,
}

impl IndexEntry {
    /// Returns the index entry of a record.
    pub(crate) const fn of(record: &Record) -> Self {
        Self { event: record.event, epoch: record.epoch, offset: record.offset }
    }

    fn encode(self) -> [u8; ENTRY as usize] {
        let mut out = [0; ENTRY as usize];
        out[0..8].copy_from_slice(&self.event.number().to_le_bytes());
        out[8..16].copy_from_slice(&self.epoch.number().to_le_bytes());
        out[16..24].copy_from_slice(&self.offset.to_le_bytes());
        out
    }

    fn decode(mut fields: Fields<'_>) -> Option<Self> {
        let event = EventId::new(fields.u64()?);
        let epoch = Epoch::new(fields.u64()?);
        Some(Self { event, epoch, offset: fields.u64()? })
    }
}

/// Returns the size of the index of a file with `records` records, in bytes.
pub(crate) const fn index_size(records: usize) -> u64 {
    HEAD + ENTRY * records as u64 + TRAILER
}

/// Sorts the entries and hands the index that begins at `offset` to `write`, in pieces of at most
/// 64 KiB.
pub(crate) fn write_index<E>(
    entries: &mut [IndexEntry],
    offset: u64,
    tag: FileTag,
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    // The stable sort is fast here, because events are written almost in the order of their ids.
    entries.sort();
    let mut checksum = RunningChecksum::default();
    let mut piece = Vec::with_capacity(PIECE);
    piece.extend(INDEX_MAGIC);
    piece.extend((ENTRY as u32).to_le_bytes());
    piece.extend((entries.len() as u64).to_le_bytes());
    for entry in entries {
        piece.extend(entry.encode());
        if piece.len() + ENTRY as usize > PIECE {
            checksum.update(&piece);
            write(&piece)?;
            piece.clear();
        }
    }
    piece.extend(offset.to_le_bytes());
    checksum.update(&piece);
    piece.extend(tag.seal(checksum.take()).to_le_bytes());
    piece.extend(TRAILER_MAGIC);
    write(&piece)
}

const PIECE: usize = 64 * 1024;

/// The state of a file's index.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, sources: vec![SourceId::new(1)] };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// writer.commit()?;
/// // The writer still runs, so the file has no index yet.
/// let file = EventFile::open(&path)?;
/// assert_eq!(file.index_state(), IndexState::Absent);
/// assert!(file.event(EventId::FIRST)?.is_some(), "found by a scan");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// The file was closed and its index is intact.
    Present,
    /// The file was not closed (its writer died or still runs), or its last bytes are damaged:
    /// readers scan the file.
    Absent,
    /// The checksum of the index is wrong: readers scan the file.
    Damaged,
}

/// The position and state of a file's index, as found from the last bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) state: IndexState,
    /// The offset at which the records end and the index begins; the file's length if there is no
    /// index.
    pub(crate) offset: u64,
    pub(crate) records: usize,
}

impl Footer {
    /// Looks for the index at the end of a file of `length` bytes and verifies its checksum, in
    /// constant memory.
    pub(crate) fn find(file: &File, length: u64, tag: FileTag) -> io::Result<Self> {
        let absent = Self { state: IndexState::Absent, offset: length, records: 0 };
        let Some(trailer_at) = length.checked_sub(TRAILER) else { return Ok(absent) };
        let mut trailer = [0; TRAILER as usize];
        file.read_exact_at(&mut trailer, trailer_at)?;
        let mut fields = Fields(&trailer);
        let (Some(offset), Some(sealed), Some(TRAILER_MAGIC)) = (fields.u64(), fields.u64(), fields.array())
        else {
            return Ok(absent);
        };
        let Some(records) = records_between(offset, length) else { return Ok(absent) };
        let intact = Self::intact(file, offset, records, sealed, tag)?;
        let state = if intact { IndexState::Present } else { IndexState::Damaged };
        Ok(Self { state, offset, records })
    }

    fn intact(file: &File, offset: u64, records: usize, sealed: u64, tag: FileTag) -> io::Result<bool> {
        let mut checksum = RunningChecksum::default();
        let mut piece = vec![0; PIECE];
        let (mut at, end) = (offset, offset + HEAD + ENTRY * records as u64 + 8);
        while at < end {
            let piece = &mut piece[..PIECE.min((end - at) as usize)];
            file.read_exact_at(piece, at)?;
            if at == offset && !heads_index(piece, records) {
                return Ok(false);
            }
            checksum.update(piece);
            at += piece.len() as u64;
        }
        Ok(tag.seal(checksum.take()) == sealed)
    }

    /// Reads the index entry at position `place`, where entries are in the order of event id,
    /// epoch, offset.
    pub(crate) fn entry(&self, file: &File, place: usize) -> io::Result<IndexEntry> {
        let mut bytes = [0; ENTRY as usize];
        file.read_exact_at(&mut bytes, self.offset + HEAD + ENTRY * place as u64)?;
        IndexEntry::decode(Fields(&bytes)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Replaces the content of `into` with at most `count` index entries from position `place` on.
    pub(crate) fn entries(
        &self,
        file: &File,
        place: usize,
        count: usize,
        into: &mut Vec<IndexEntry>,
    ) -> io::Result<()> {
        let count = count.min(self.records.saturating_sub(place));
        let mut bytes = vec![0; count * ENTRY as usize];
        file.read_exact_at(&mut bytes, self.offset + HEAD + ENTRY * place as u64)?;
        into.clear();
        into.extend(bytes.chunks_exact(ENTRY as usize).filter_map(|bytes| IndexEntry::decode(Fields(bytes))));
        Ok(())
    }
}

/// Returns the number of entries of an index that fills a file of `length` bytes from `offset` on,
/// or `None` if no index has this size.
fn records_between(offset: u64, length: u64) -> Option<usize> {
    let entries = length.checked_sub(offset)?.checked_sub(HEAD + TRAILER)?;
    let records = usize::try_from(entries / ENTRY).ok()?;
    (entries.is_multiple_of(ENTRY) && records <= MAX_RECORDS).then_some(records)
}

fn heads_index(bytes: &[u8], records: usize) -> bool {
    let mut fields = Fields(bytes);
    fields.array() == Some(INDEX_MAGIC)
        && fields.u32() == Some(ENTRY as u32)
        && fields.u64() == Some(records as u64)
}

/// Returns true if `bytes`, found at `offset`, are the head of an index that fills the rest of the
/// file. If true, the file's records end at `offset` even if the trailer of the index is damaged.
pub(crate) fn begins_index(bytes: &[u8], offset: u64, length: u64) -> bool {
    records_between(offset, length).is_some_and(|records| heads_index(bytes, records))
}

/// Returns true if `bytes` may be the head of a torn index of which `left` bytes were written. A
/// stricter check is impossible if damage hides some of the records before the index.
pub(crate) fn may_begin_torn_index(bytes: &[u8], left: u64) -> bool {
    let mut fields = Fields(bytes);
    let (magic, entry, records) = (fields.array(), fields.u32(), fields.u64());
    magic == Some(INDEX_MAGIC)
        && entry.is_none_or(|entry| entry == ENTRY as u32)
        && records.is_none_or(|records| records <= MAX_RECORDS as u64 && left <= index_size(records as usize))
}

/// Returns true if the file from `offset` on holds the beginning of the index of exactly these
/// records, as left by a writer that was killed while it wrote the index. After the head of the
/// index, zeros may stand in place of its content, as after a power cut.
pub(crate) fn is_torn_index(
    window: &mut Window<'_>,
    (offset, length): (u64, u64),
    entries: &mut [IndexEntry],
    tag: FileTag,
) -> io::Result<bool> {
    let left = length.saturating_sub(offset);
    if left > index_size(entries.len()) {
        return Ok(false);
    }
    let (mut at, mut differs_at) = (offset, None);
    write_index(entries, offset, tag, |piece| -> io::Result<()> {
        let found = window.up_to(at, piece.len() as u64)?;
        let same = found.iter().zip(piece).take_while(|(found, written)| found == written).count();
        let differs = differs_at.is_none() && same < found.len();
        differs_at = if differs { Some(at + same as u64) } else { differs_at };
        at += found.len() as u64;
        Ok(())
    })?;
    let Some(mut at) = differs_at else { return Ok(true) };
    if at < offset + HEAD {
        return Ok(false);
    }
    while at < length {
        let zeros = window.some(at, length - at)?;
        if zeros.is_empty() || zeros.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += zeros.len() as u64;
    }
    Ok(true)
}
