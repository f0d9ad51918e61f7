//! One input file of a merge, read in the order of event ids. The file is open only as long as
//! necessary.

use std::path::{Path, PathBuf};

use evb_core::event::Event;

use crate::{
    error::ReadError,
    index::{IndexEntry, IndexState},
    reader::EventFile,
};

/// The largest number of index entries of a file that are held in memory.
const PIECE: usize = 4096;

#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    /// The open file; `None` before its first event is read, and after its last.
    file: Option<EventFile>,
    /// The part of the file's index that is in memory.
    entries: Vec<IndexEntry>,
    /// The position of the next event's entry in `entries`.
    place: usize,
    /// The position of the first of `entries` in the whole index.
    piece: usize,
}

impl Input {
    /// Opens a file and reads its first index entry. A file without an intact index is scanned, and
    /// `damaged` is called for each damage found. The open file is returned too, so that the caller
    /// can read its header.
    pub(super) fn survey(
        path: &Path,
        mut damaged: impl FnMut(String),
    ) -> Result<(Self, EventFile), ReadError> {
        let file = EventFile::open(path)?;
        if file.index_state() != IndexState::Present {
            for error in file.records().filter_map(Result::err) {
                damaged(error.to_string());
            }
        }
        let entries = file.index_entries(0, 1)?;
        Ok((Self { path: path.to_owned(), file: None, entries, place: 0, piece: 0 }, file))
    }

    /// Returns the index entry of the file's next event.
    pub(super) fn next(&self) -> Option<&IndexEntry> {
        self.entries.get(self.place)
    }

    /// Reads the next event of the file.
    pub(super) fn read(&mut self) -> Result<Event, ReadError> {
        let entry = self.entries[self.place];
        self.open()?.event_at(entry)
    }

    /// Advances to the event after the current one, and closes the file at its end.
    pub(super) fn advance(&mut self) -> Result<(), ReadError> {
        self.place += 1;
        if self.place == self.entries.len() {
            self.piece += self.entries.len();
            let piece = self.piece;
            self.entries = self.open()?.index_entries(piece, PIECE)?;
            self.place = 0;
            if self.entries.is_empty() {
                self.file = None;
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<&EventFile, ReadError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => EventFile::open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }
}
