//! One input file of a merge, read in the order of event ids. The file is open only as long as
//! necessary.

use std::{
    cmp::Reverse,
    mem,
    path::{Path, PathBuf},
};

use evb_core::event::Event;

use crate::{
    error::ReadError,
    format::{FileHeader, FormatVersion, Record},
    index::{IndexEntry, IndexState},
    reader::EventFile,
    verify::WRONG_INDEX,
    window::{Window, WindowBytes},
};

/// The largest number of index entries of a file that are held in memory.
const PIECE: usize = 4096;

/// An event on its way to a merged file.
#[derive(Debug)]
pub(super) enum EventCopy {
    Decoded(Event),
    /// The head of a record whose bytes are copied.
    Bytes(Record),
}

#[derive(Debug)]
pub(super) struct MergeInput {
    path: PathBuf,
    /// The open file; `None` before its first event is read, and after its last.
    file: Option<EventFile>,
    /// True if the file has an index that matches its records.
    has_whole_index: bool,
    /// The part of the file's index that is in memory.
    entries: Vec<IndexEntry>,
    /// The position of the next event's entry in `entries`.
    place: usize,
    /// The position of the first of `entries` in the whole index.
    piece: usize,
    /// The bytes of the file around the last event, for the next one is mostly near.
    held: WindowBytes,
}

impl MergeInput {
    /// Opens a file and reads its first index entries. A file without an intact index is scanned,
    /// and `damaged` is called for each damage found. The file's header is returned too.
    pub(super) fn survey(
        path: &Path,
        mut damaged: impl FnMut(String),
    ) -> Result<(Self, FileHeader), ReadError> {
        let file = EventFile::open(path)?;
        if let Some(recovery) = file.recovery() {
            damaged(format!("{}: {recovery}", path.display()));
        }
        let has_whole_index = file.has_whole_index()?;
        if !has_whole_index {
            if file.index_state() == IndexState::Present {
                damaged(format!("{}: {WRONG_INDEX}", path.display()));
            }
            for error in file.records().filter_map(Result::err) {
                damaged(error.to_string());
            }
        }
        let (episodes, changes) = (file.episodes(), file.changes());
        let header = FileHeader { episodes, changes, ..file.header().clone() };
        let (path, entries, held) = (path.to_owned(), Vec::new(), WindowBytes::default());
        let mut input = Self { path, file: Some(file), has_whole_index, entries, place: 0, piece: 0, held };
        input.load(2)?;
        input.file = None;
        Ok((input, header))
    }

    /// Returns the index entry of the file's next event.
    pub(super) fn next(&self) -> Option<&IndexEntry> {
        self.entries.get(self.place)
    }

    /// Reads the next event of the file for a copy in this format: a record of version 2 for a file
    /// of version 2 goes to `bytes` as it is, all else is decoded.
    pub(super) fn read_copy(
        &mut self,
        format: FormatVersion,
        bytes: &mut Vec<u8>,
    ) -> Result<EventCopy, ReadError> {
        self.read_by(|file, record, window| {
            if format < FormatVersion::Two || file.header().version < FormatVersion::Two {
                return file.payloads(&record, window).map(EventCopy::Decoded);
            }
            file.copy_into(&record, window, bytes)?;
            Ok(EventCopy::Bytes(record))
        })
    }

    /// Reads the next event of the file.
    pub(super) fn read(&mut self) -> Result<Event, ReadError> {
        self.read_by(|file, record, window| file.payloads(&record, window))
    }

    /// Reads the head of the file's next event, and appends the payloads to `memory`.
    pub(super) fn read_into(&mut self, memory: &mut Vec<u8>) -> Result<Record, ReadError> {
        self.read_by(|file, record, window| file.payloads_into(&record, window, memory).map(|()| record))
    }

    /// Reads the event that is next in this file. The buffer of the window is kept between calls.
    fn read_by<T>(
        &mut self,
        read: impl FnOnce(&EventFile, Record, &mut Window<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let (entry, held) = (self.entries[self.place], mem::take(&mut self.held));
        let file = self.open()?;
        let mut window = file.window_with(held);
        let outcome = file.record_at(entry, &mut window).and_then(|record| read(file, record, &mut window));
        self.held = window.into_held();
        outcome
    }

    /// Advances to the event after the current one, and closes the file at its end.
    pub(super) fn advance(&mut self) -> Result<(), ReadError> {
        self.place += 1;
        if self.place == self.entries.len() {
            self.piece += self.entries.len();
            self.load(PIECE)?;
            if self.entries.is_empty() {
                (self.file, self.held) = (None, WindowBytes::default());
            }
        }
        Ok(())
    }

    /// Loads the next index entries, about `count` of them, with all copies of the last event. The
    /// copies of an event are put into the order of falling epochs, because the highest epoch
    /// counts.
    fn load(&mut self, mut count: usize) -> Result<(), ReadError> {
        let piece = self.piece;
        self.entries = loop {
            let mut entries = self.open()?.index_entries(piece, count)?;
            if entries.len() < count {
                break entries;
            }
            // More copies of the last event may follow these entries, so its copies are left for
            // the next piece.
            let last = entries[count - 1].event;
            match entries.iter().position(|entry| entry.event == last) {
                // All these entries are copies of one event.
                None | Some(0) => count *= 2,
                Some(whole) => {
                    entries.truncate(whole);
                    break entries;
                }
            }
        };
        self.entries.sort_by_key(|entry| (entry.event, Reverse(entry.epoch)));
        self.place = 0;
        Ok(())
    }

    /// Returns the file, which is opened when it is needed.
    fn open(&mut self) -> Result<&EventFile, ReadError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = EventFile::open(&self.path)?;
                file.trust_index(self.has_whole_index);
                file
            }
        };
        Ok(self.file.insert(file))
    }
}
