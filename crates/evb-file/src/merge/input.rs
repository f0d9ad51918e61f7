//! One file on its way into a merge: its events in order, and open no longer than need be.

use std::path::{Path, PathBuf};

use evb_core::event::Event;

use crate::{
    error::ReadError,
    index::{IndexEntry, IndexState},
    reader::EventFile,
};

/// So many index entries are in memory.
const PIECE: usize = 4096;

#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    /// Open from the first event read to the last.
    file: Option<EventFile>,
    /// A piece of the index.
    entries: Vec<IndexEntry>,
    /// The next entry, in the piece.
    place: usize,
    /// Where the piece stands in the index.
    piece: usize,
}

impl Input {
    /// Looks at a file; gives it open for a look at its header.
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

    /// The entry of the next event.
    pub(super) fn next(&self) -> Option<&IndexEntry> {
        self.entries.get(self.place)
    }

    /// Reads the event that is next.
    pub(super) fn read(&mut self) -> Result<Event, ReadError> {
        let entry = self.entries[self.place];
        self.open()?.event_at(entry)
    }

    /// Goes on to the event after it.
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
