//! The closing block at the end of a closed file: the index, which maps event id and epoch to the
//! record's offset, and a copy of the file header. The entries of the index are sorted, so that a
//! reader can search the index on disk.

#[cfg(test)]
mod tests;

use std::{fs::File, io, os::unix::fs::FileExt};

use evb_core::{
    fragment::RunningChecksum,
    id::{Epoch, EventId},
};

use crate::{
    format::{
        ALIGNMENT, Fields, FileTag, INDEX_MAGIC, MAX_HEADER, MAX_RECORDS, MIN_HEADER, Record, TRAILER_MAGIC,
    },
    window::Window,
};

const HEAD: u64 = 16;
/// The size of one index entry, in bytes.
pub(crate) const ENTRY: u64 = 24;
const TRAILER: u64 = 24;

/// The offset of one event's record, as the index of a file stores it.
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

/// Returns the size of a closing block with this number of index entries and a copy of a header
/// of this length, in bytes.
pub(crate) const fn closing_size(records: usize, copy: usize) -> u64 {
    HEAD + ENTRY * records as u64 + copy as u64 + TRAILER
}

/// Everything about a file that its closing block depends on, besides the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosingBlock<'h> {
    pub(crate) tag: FileTag,
    /// The copy of the file header, which is empty in version 1; `None` if the header is not known,
    /// because it was recovered from records.
    pub(crate) copy: Option<&'h [u8]>,
}

impl ClosingBlock<'_> {
    /// Returns the size of the closing block of a file with `records` records, in bytes. If the
    /// header is not known, this is the largest possible size.
    pub(crate) fn size(self, records: usize) -> u64 {
        closing_size(records, self.copy.map_or(MAX_HEADER as usize, <[u8]>::len))
    }

    /// Sorts the entries and hands the block that begins at `offset` to `write`, in pieces of at
    /// most 64 KiB, or the size of the file header if that is larger.
    pub(crate) fn write<E>(
        self,
        entries: &mut [IndexEntry],
        offset: u64,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // The stable sort is fast, because events are written almost in the order of their ids.
        entries.sort();
        let mut checksum = RunningChecksum::default();
        let mut piece = Vec::with_capacity(PIECE);
        piece.extend(self.tag.version.index_magic());
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
        piece.extend_from_slice(self.copy.unwrap_or_default());
        piece.extend(offset.to_le_bytes());
        checksum.update(&piece);
        piece.extend(self.tag.seal(checksum.take()).to_le_bytes());
        piece.extend(TRAILER_MAGIC);
        write(&piece)
    }

    /// Returns the number of entries of the index in a block that fills a file of `length` bytes
    /// from `offset` on, or `None` if no block has this size, or if the header is not known.
    fn records_between(self, offset: u64, length: u64) -> Option<usize> {
        let besides = HEAD + TRAILER + self.copy?.len() as u64;
        let entries = length.checked_sub(offset)?.checked_sub(besides)?;
        let records = usize::try_from(entries / ENTRY).ok()?;
        (entries.is_multiple_of(ENTRY) && records <= MAX_RECORDS).then_some(records)
    }

    fn heads(self, bytes: &[u8], records: usize) -> bool {
        let mut fields = Fields(bytes);
        fields.array() == Some(self.tag.version.index_magic())
            && fields.u32() == Some(ENTRY as u32)
            && fields.u64() == Some(records as u64)
    }

    /// Returns true if `bytes`, found at `offset`, are the head of a block that fills the rest of
    /// the file. If true, the file's records end at `offset` even if the trailer of the block is
    /// damaged.
    pub(crate) fn begins(self, bytes: &[u8], offset: u64, length: u64) -> bool {
        self.records_between(offset, length).is_some_and(|records| self.heads(bytes, records))
    }

    /// Returns true if `bytes` may be the head of a torn block of which `left` bytes were written.
    /// A stricter check is impossible if damage hides some of the records before the block.
    pub(crate) fn may_begin_torn(self, bytes: &[u8], left: u64) -> bool {
        let mut fields = Fields(bytes);
        let (magic, entry, records) = (fields.array(), fields.u32(), fields.u64());
        magic == Some(self.tag.version.index_magic())
            && entry.is_none_or(|entry| entry == ENTRY as u32)
            && records
                .is_none_or(|records| records <= MAX_RECORDS as u64 && left <= self.size(records as usize))
    }

    /// Returns true if the file from `offset` on holds the beginning of the block of exactly these
    /// records, as left by a writer that was killed while it wrote the block. After the first 16
    /// bytes, zeros may stand in place of its content, as after a power cut.
    pub(crate) fn is_torn(
        self,
        window: &mut Window<'_>,
        (offset, length): (u64, u64),
        entries: &mut [IndexEntry],
    ) -> io::Result<bool> {
        let left = length.saturating_sub(offset);
        if left > self.size(entries.len()) {
            return Ok(false);
        }
        let (mut at, mut differs_at) = (offset, None);
        // The expected block is compared piece by piece with what the file has.
        self.write(entries, offset, |piece| -> io::Result<()> {
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
        // Behind the first difference, there may be zeros only.
        while at < length {
            let zeros = window.some(at, length - at)?;
            if zeros.is_empty() || zeros.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += zeros.len() as u64;
        }
        Ok(true)
    }
}

const PIECE: usize = 64 * 1024;

/// The state of a file's index.
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
    /// Looks for the closing block at the end of a file of `length` bytes and verifies its
    /// checksum, in little memory.
    pub(crate) fn find(file: &File, length: u64, block: ClosingBlock<'_>) -> io::Result<Self> {
        let absent = Self { state: IndexState::Absent, offset: length, records: 0 };
        let Some((offset, sealed)) = trailer(file, length)? else { return Ok(absent) };
        if block.copy.is_none() {
            let may_be_block = offset.is_multiple_of(ALIGNMENT)
                && length.checked_sub(offset).is_some_and(|left| left >= HEAD + MIN_HEADER + TRAILER);
            return Ok(if may_be_block {
                Self { state: IndexState::Damaged, offset, records: 0 }
            } else {
                absent
            });
        }
        let Some(records) = block.records_between(offset, length) else { return Ok(absent) };
        let intact = Self::intact(file, offset, records, sealed, block)?;
        let state = if intact { IndexState::Present } else { IndexState::Damaged };
        Ok(Self { state, offset, records })
    }

    /// Returns true if the index at `offset` is undamaged: it has the expected head, checksum and
    /// copy of the header.
    fn intact(
        file: &File,
        offset: u64,
        records: usize,
        sealed: u64,
        block: ClosingBlock<'_>,
    ) -> io::Result<bool> {
        let header = block.copy.unwrap_or_default();
        let mut checksum = RunningChecksum::default();
        let mut piece = vec![0; PIECE];
        let entries_end = offset + HEAD + ENTRY * records as u64;
        let (mut at, end) = (offset, entries_end + header.len() as u64 + 8);
        while at < end {
            let piece = &mut piece[..PIECE.min((end - at) as usize)];
            file.read_exact_at(piece, at)?;
            if at == offset && !block.heads(piece, records) {
                return Ok(false);
            }
            checksum.update(piece);
            at += piece.len() as u64;
        }
        if block.tag.seal(checksum.take()) != sealed {
            return Ok(false);
        }
        let mut copy = vec![0; header.len()];
        file.read_exact_at(&mut copy, entries_end)?;
        Ok(copy == header)
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

/// Returns the offset and the checksum in the last bytes of a file, if they end a closing block.
fn trailer(file: &File, length: u64) -> io::Result<Option<(u64, u64)>> {
    let Some(at) = length.checked_sub(TRAILER) else { return Ok(None) };
    let mut trailer = [0; TRAILER as usize];
    file.read_exact_at(&mut trailer, at)?;
    let mut fields = Fields(&trailer);
    Ok(match (fields.u64(), fields.u64(), fields.array()) {
        (Some(offset), Some(sealed), Some(TRAILER_MAGIC)) => Some((offset, sealed)),
        _ => None,
    })
}

/// Returns the copy of the file header in the closing block of a file whose header is damaged. The
/// copy itself is not verified yet.
pub(crate) fn header_copy(file: &File, length: u64) -> io::Result<Option<Vec<u8>>> {
    let Some((offset, _)) = trailer(file, length)? else { return Ok(None) };
    let left = length.checked_sub(offset).filter(|left| *left >= HEAD + MIN_HEADER + TRAILER);
    let Some(left) = left.filter(|_| offset.is_multiple_of(ALIGNMENT)) else { return Ok(None) };
    let mut head = [0; HEAD as usize];
    file.read_exact_at(&mut head, offset)?;
    let mut fields = Fields(&head);
    let (magic, entry, records) = (fields.array(), fields.u32(), fields.u64());
    let (Some(INDEX_MAGIC), Some(entry), Some(records)) = (magic, entry, records) else { return Ok(None) };
    if u64::from(entry) != ENTRY || records > MAX_RECORDS as u64 {
        return Ok(None);
    }
    let entries_end = HEAD + ENTRY * records;
    let copy = left.checked_sub(entries_end + TRAILER);
    let Some(copy) = copy.filter(|copy| (MIN_HEADER..=MAX_HEADER).contains(copy)) else { return Ok(None) };
    let mut bytes = vec![0; copy as usize];
    file.read_exact_at(&mut bytes, offset + entries_end)?;
    Ok(Some(bytes))
}
