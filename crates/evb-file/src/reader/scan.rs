//! Walking a file record by record, and finding the next record after damage.

use std::io;

use evb_core::{event::Event, id::EventId, units::Bytes};

use super::{EventFile, Window};
use crate::{
    error::{FileError, ReadError},
    format::{ALIGNMENT, FileTag, Flaw, INDEX_MAGIC, Prefix, RECORD_MAGIC, RECORD_PREFIX, Record},
    index::{IndexState, begins_index},
};

/// The record at `offset` in a file whose records end at `end`.
pub(super) fn record_at(
    window: &mut Window<'_>,
    offset: u64,
    end: u64,
    tag: FileTag,
) -> io::Result<Result<Record, Flaw>> {
    let available = end.saturating_sub(offset);
    let bytes = window.up_to(offset, (RECORD_PREFIX as u64).min(available))?;
    let prefix = match Prefix::decode(bytes, available) {
        Ok(prefix) => prefix,
        Err(flaw) => return Ok(Err(flaw)),
    };
    let head = window.up_to(offset, prefix.head_length)?;
    Ok(prefix.record(offset, head, tag))
}

/// Gives the heads of a file's records; made by [`EventFile::records`].
#[derive(Debug)]
pub struct Records<'f> {
    file: &'f EventFile,
    window: Window<'f>,
    /// Where the next record should begin; `None` at the end.
    next: Option<u64>,
}

impl<'f> Records<'f> {
    pub(super) fn new(file: &'f EventFile) -> Self {
        Self { file, window: file.window(), next: Some(file.header_length) }
    }

    fn step(&mut self) -> io::Result<Option<Result<Record, ReadError>>> {
        let Some(offset) = self.next.take() else { return Ok(None) };
        if offset >= self.file.records_end() || self.index_begins(offset)? {
            return Ok(None);
        }
        match record_at(&mut self.window, offset, self.file.records_end(), self.file.tag)? {
            Ok(record) => {
                self.next = Some(record.end());
                Ok(Some(Ok(record)))
            }
            Err(flaw) => self.damage(offset, flaw).map(|error| Some(Err(error))),
        }
    }

    /// Whether the records of a file without a usable index end here, because an index begins.
    fn index_begins(&mut self, offset: u64) -> io::Result<bool> {
        Ok(match self.file.footer.state {
            IndexState::Present => false,
            IndexState::Damaged if offset == self.file.footer.offset => true,
            _ => self.window.up_to(offset, 4)? == INDEX_MAGIC.as_slice(),
        })
    }

    /// Tells what is wrong at `offset` and sets where reading goes on.
    fn damage(&mut self, offset: u64, flaw: Flaw) -> io::Result<ReadError> {
        let found = self.resume(offset + ALIGNMENT)?;
        let end = found.unwrap_or_else(|| self.file.records_end());
        let (path, length) = (self.file.path.clone(), Bytes::new(end - offset));
        self.next = found;
        // Without an index, and with nothing whole behind it, the damage is what a killed writer leaves.
        let torn = found.is_none() && self.file.footer.state == IndexState::Absent;
        Ok(if torn {
            let event = self.event_of_torn(offset)?;
            ReadError::TornTail { path, offset, length, event }
        } else {
            ReadError::Damaged { path, offset, length, event: None, flaw }
        })
    }

    /// Whose record is torn, if its head is intact.
    fn event_of_torn(&mut self, offset: u64) -> io::Result<Option<EventId>> {
        let record = record_at(&mut self.window, offset, u64::MAX, self.file.tag)?;
        Ok(record.ok().map(|record| record.event))
    }

    /// Where from `start` on the next intact record head, or an index, begins.
    fn resume(&mut self, start: u64) -> io::Result<Option<u64>> {
        let (end, file) = (self.file.records_end(), self.file);
        let mut at = start;
        while at < end {
            let piece = self.window.some(at, end - at)?;
            let place = piece.chunks(ALIGNMENT as usize).position(|bytes| {
                bytes.starts_with(&RECORD_MAGIC)
                    || bytes.starts_with(&INDEX_MAGIC)
                    || bytes.len() < ALIGNMENT as usize
            });
            let Some(place) = place else {
                at += piece.len() as u64;
                continue;
            };
            at += place as u64 * ALIGNMENT;
            let bytes = self.window.up_to(at, 16)?;
            if bytes.len() < ALIGNMENT as usize {
                return Ok(None);
            }
            if begins_index(bytes, at, file.length) || record_at(&mut self.window, at, end, file.tag)?.is_ok()
            {
                return Ok(Some(at));
            }
            at += ALIGNMENT;
        }
        Ok(None)
    }

    /// Checks the payloads of a record that this walk has just given, through the same window.
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

/// Gives a file's events; made by [`EventFile::events`].
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
