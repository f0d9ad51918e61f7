//! What a verification found, as plain fields.

use std::path::PathBuf;

use evb_core::{
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    units::Bytes,
};

#[cfg(feature = "serde")]
use super::json;
use crate::{index::IndexState, reader::EventFile};

/// Findings of one kind: how many, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Listed<T> {
    /// How many there are.
    pub total: u64,
    /// The first of them, [`Self::LIMIT`] at most.
    pub first: Vec<T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { total: 0, first: Vec::new() }
    }
}

impl<T> Listed<T> {
    /// How many are kept.
    pub const LIMIT: usize = 1000;

    pub(crate) fn add(&mut self, finding: T) {
        self.total += 1;
        if self.first.len() < Self::LIMIT {
            self.first.push(finding);
        }
    }
}

/// What a verification found, run by run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VerifyReport {
    /// One report for each run, in the order of run numbers.
    pub runs: Vec<RunReport>,
    /// Files that could not be opened, or not be read to their end.
    pub unreadable: Vec<Unreadable>,
}

impl VerifyReport {
    /// Whether all files could be read and all runs are clean.
    pub fn is_clean(&self) -> bool {
        self.unreadable.is_empty() && self.runs.iter().all(RunReport::is_clean)
    }
}

/// What was found of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RunReport {
    /// The run.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::run"))]
    pub run: RunNumber,
    /// Its files.
    pub files: Vec<FileReport>,
    /// Intact records, all copies of an event counted.
    pub records: u64,
    /// Different events among them.
    pub events: u64,
    /// How many events there should be, if the caller knows.
    pub expected: Option<u64>,
    /// Events with all fragments.
    pub complete: u64,
    /// Events with missing sources; of several copies of an event, that of the highest epoch counts.
    pub incomplete: Listed<IncompleteEvent>,
    /// The highest event id.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub highest: EventId,
    /// Event ids from 1 to the highest that no file has.
    pub absent: u64,
    /// The same as ranges. Inhibited triggers leave gaps, so they are no defect unless events were expected.
    pub gaps: Listed<Gap>,
    /// Copies beyond the first of an event in one epoch: a defect.
    pub duplicates: Listed<Duplicate>,
    /// Copies of an event that a later epoch built again: no defect, as they do not count.
    pub superseded: Listed<Superseded>,
    /// Damaged records and indexes (CRC errors): a defect.
    pub damaged: Listed<Damage>,
    /// Files that end inside a record: a defect, unless its event has a whole record, or as many events as were expected are there.
    pub torn_tails: Listed<TornTail>,
    /// Files or records of another run, or of another builder than their file: a defect.
    pub foreign: Listed<Foreign>,
    /// Files that were not closed: no defect, as all their records were read.
    pub without_index: Listed<NotClosed>,
    /// The payloads of all intact records.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub payload: Bytes,
}

impl RunReport {
    /// Whether every event is complete and there once, nothing is damaged, torn or foreign, and no event less or more
    /// than expected.
    pub fn is_clean(&self) -> bool {
        let defects = self.incomplete.total + self.duplicates.total + self.damaged.total + self.foreign.total;
        let is_all_there = match self.expected {
            Some(expected) => expected == self.events,
            None => self.torn_tails.total == self.torn_and_built_again(),
        };
        defects == 0 && is_all_there
    }

    /// Torn tails whose event has a whole record.
    pub(super) fn torn_and_built_again(&self) -> u64 {
        self.torn_tails.first.iter().filter(|tail| tail.elsewhere).count() as u64
    }
}

/// One file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FileReport {
    /// Where it is.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// Who wrote it; `None` for a merged file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::builder"))]
    pub builder: Option<BuilderId>,
    /// Which of the builder's files.
    pub sequence: u32,
    /// Its size.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub size: Bytes,
    /// Records with an intact head.
    pub records: u64,
    /// Whether it has its index.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::index"))]
    pub index: IndexState,
}

impl FileReport {
    pub(super) fn of(file: &EventFile) -> Self {
        Self {
            path: file.path().to_owned(),
            builder: file.header().builder,
            sequence: file.header().sequence,
            size: file.size(),
            records: 0,
            index: file.index_state(),
        }
    }
}

/// An event without all its fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct IncompleteEvent {
    /// The event.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub event: EventId,
    /// In which life of the run it was built.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub epoch: Epoch,
    /// The sources that did not contribute.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::sources"))]
    pub missing: Vec<SourceId>,
}

/// Event ids in a row that no file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Gap {
    /// The first of them.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub first: EventId,
    /// The last of them.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub last: EventId,
}

/// A second or later copy of an event in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Duplicate {
    /// The event.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub event: EventId,
    /// The epoch of both copies.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub epoch: Epoch,
}

/// A copy of an event that does not count, because a later epoch built it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Superseded {
    /// The event.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub event: EventId,
    /// The epoch of this copy.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub epoch: Epoch,
    /// The epoch that counts.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub by: Epoch,
}

/// Something in a file that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Damage {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// Where the damaged record begins; 0 for an index.
    pub offset: u64,
    /// Whose record it is, if its head is intact.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::maybe_event"))]
    pub event: Option<EventId>,
    /// What is wrong, in words.
    pub what: String,
}

/// A file that ends inside a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TornTail {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// Where the last whole record ends.
    pub offset: u64,
    /// How much follows.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub length: Bytes,
    /// Whose record was torn, if its head is intact.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::maybe_event"))]
    pub event: Option<EventId>,
    /// Whether there is a whole record of that event: what was torn was never acknowledged, and was built again.
    pub elsewhere: bool,
}

/// A file or record that does not belong here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Foreign {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// Of which run the file (by its header or its name) or the record is.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::run"))]
    pub run: RunNumber,
    /// Whose record it is; `None` if it is the whole file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::maybe_event"))]
    pub event: Option<EventId>,
}

/// A file without an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NotClosed {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
}

/// A file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unreadable {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// Why.
    pub why: String,
}
