//! The result of a verification, as plain fields.

use std::path::PathBuf;

use evb_core::{
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    units::Bytes,
};

#[cfg(feature = "serde")]
use super::json;
use crate::{index::IndexState, reader::EventFile};

/// Findings of one kind: their number, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Listed<T> {
    /// The number of findings.
    pub total: u64,
    /// The first findings, at most [`Self::LIMIT`].
    pub first: Vec<T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { total: 0, first: Vec::new() }
    }
}

impl<T> Listed<T> {
    /// The number of findings that are kept.
    pub const LIMIT: usize = 1000;

    pub(crate) fn add(&mut self, finding: T) {
        self.total += 1;
        if self.first.len() < Self::LIMIT {
            self.first.push(finding);
        }
    }
}

/// The result of a verification, run by run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VerifyReport {
    /// One report for each run, in the order of run numbers.
    pub runs: Vec<RunReport>,
    /// Files that could not be opened, or not read to their end.
    pub unreadable: Vec<Unreadable>,
}

impl VerifyReport {
    /// Returns true if all files could be read and all runs are clean.
    pub fn is_clean(&self) -> bool {
        self.unreadable.is_empty() && self.runs.iter().all(RunReport::is_clean)
    }
}

/// The findings of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RunReport {
    /// The run.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::run"))]
    pub run: RunNumber,
    /// Its files.
    pub files: Vec<FileReport>,
    /// Intact records, with all copies of an event counted.
    pub records: u64,
    /// Different events among them.
    pub events: u64,
    /// The number of events that there should be, if the caller knows it.
    pub expected: Option<u64>,
    /// Events with all fragments.
    pub complete: u64,
    /// Events with missing sources; of several copies of an event, the one of the highest epoch
    /// counts.
    pub incomplete: Listed<IncompleteEvent>,
    /// The highest event id.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub highest: EventId,
    /// Event ids from 1 to the highest that no file has.
    pub absent: u64,
    /// The same event ids as ranges. Inhibited triggers leave gaps, so gaps are a defect only if
    /// the number of expected events is known.
    pub gaps: Listed<Gap>,
    /// Copies beyond the first of an event in one epoch: a defect.
    pub duplicates: Listed<Duplicate>,
    /// Copies of an event that a later epoch built again: no defect, as they do not count.
    pub superseded: Listed<Superseded>,
    /// Damaged records and indexes (CRC errors): a defect.
    pub damaged: Listed<Damage>,
    /// Files that end inside a record: a defect, unless there is a whole record of the same event,
    /// or as many events as expected.
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
    /// Returns true if every event is complete and there once, nothing is damaged, torn or foreign,
    /// and the number of events is the expected one.
    pub fn is_clean(&self) -> bool {
        let defects = self.incomplete.total + self.duplicates.total + self.damaged.total + self.foreign.total;
        let is_all_there = match self.expected {
            Some(expected) => expected == self.events,
            None => self.torn_tails.total == self.torn_and_built_again(),
        };
        defects == 0 && is_all_there
    }

    /// Returns the number of torn tails whose event has a whole record.
    pub(super) fn torn_and_built_again(&self) -> u64 {
        self.torn_tails.first.iter().filter(|tail| tail.elsewhere).count() as u64
    }
}

/// One file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FileReport {
    /// The path of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// The builder that wrote it; `None` for a merged file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::builder"))]
    pub builder: Option<BuilderId>,
    /// The number of the file within its run and builder.
    pub sequence: u32,
    /// Its size.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub size: Bytes,
    /// Records with an intact head.
    pub records: u64,
    /// The state of its index.
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
    /// The epoch in which it was built.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub epoch: Epoch,
    /// The sources that did not contribute.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::sources"))]
    pub missing: Vec<SourceId>,
}

/// A range of event ids that no file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Gap {
    /// The first event id of the range.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub first: EventId,
    /// The last event id of the range.
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

/// Damaged bytes in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Damage {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// The offset of the damaged record; 0 for an index.
    pub offset: u64,
    /// The record's event, if its head is intact.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::maybe_event"))]
    pub event: Option<EventId>,
    /// The kind of damage, in words.
    pub what: String,
}

/// A file that ends inside a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TornTail {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// The end of the last whole record, in bytes.
    pub offset: u64,
    /// The number of bytes behind it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub length: Bytes,
    /// The event of the torn record, if its head is intact.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::maybe_event"))]
    pub event: Option<EventId>,
    /// True if there is a whole record of the same event: the torn one was never acknowledged, and
    /// the event was built again.
    pub elsewhere: bool,
}

/// A file or record that does not belong to the run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Foreign {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// The run of the file (by its header or its name) or of the record.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::run"))]
    pub run: RunNumber,
    /// The record's event; `None` if the whole file is foreign.
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
    /// The error, in words.
    pub why: String,
}
