//! The result of a verification, as plain fields.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use evb_core::{
    event::{Cause, MissingSource},
    id::{BuilderId, EventId, RunId, RunNumber, SourceId},
    time::Utc,
    units::Bytes,
};

#[cfg(feature = "serde")]
use super::json;
use super::{Damage, Duplicate, Foreign, Gap, IncompleteEvent, NotClosed, Superseded, TornTail, Unreadable};
use crate::{
    format::FormatVersion,
    index::IndexState,
    reader::{EventFile, Recovery},
    runs::FoundRun,
};

/// A list of findings of one kind: their total number, and the details of the first ones.
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
    /// The largest number of findings whose details are kept.
    pub const LIMIT: usize = 1000;

    pub(crate) fn add(&mut self, finding: T) {
        self.total += 1;
        if self.first.len() < Self::LIMIT {
            self.first.push(finding);
        }
    }
}

/// The result of a verification, with a report for each run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VerifyReport {
    /// The reports of the runs, in the order of run numbers.
    pub runs: Vec<RunReport>,
    /// Run numbers that several runs have: a defect.
    pub shared_numbers: Vec<SharedNumber>,
    /// Files that could not be opened, or not read to their end.
    pub unreadable: Vec<Unreadable>,
}

impl VerifyReport {
    /// Returns true if all files could be read, each run has a number of its own, and all runs are
    /// clean.
    pub fn is_clean(&self) -> bool {
        self.unreadable.is_empty()
            && self.shared_numbers.is_empty()
            && self.runs.iter().all(RunReport::is_clean)
    }
}

/// Two or more runs that have the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SharedNumber {
    /// The number.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::run"))]
    pub run: RunNumber,
    /// The runs that have it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::found"))]
    pub runs: Vec<FoundRun>,
}

/// The number of events without a source, for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WithoutSource {
    /// The source.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::source"))]
    pub source: SourceId,
    /// The reason why the source has no fragment in the events.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::cause"))]
    pub cause: Cause,
    /// The number of events.
    pub events: u64,
}

impl fmt::Display for WithoutSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} without {}", self.events, MissingSource::new(self.source, self.cause))
    }
}

/// The number of events in which the fragment of a source disagrees, or lost packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EventsOfSource {
    /// The source.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::source"))]
    pub source: SourceId,
    /// The number of events.
    pub events: u64,
}

impl fmt::Display for EventsOfSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of source {}", self.events, self.source)
    }
}

/// The result of verifying one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RunReport {
    /// The run.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::run"))]
    pub run: RunNumber,
    /// The identity of the run.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::run_id"))]
    pub run_id: RunId,
    /// The time at which the run was begun.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::utc"))]
    pub begun: Utc,
    /// The kind of the run.
    pub kind: String,
    /// The comment on the run.
    pub comment: String,
    /// The names of sources that have one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::source_names"))]
    pub source_names: BTreeMap<SourceId, String>,
    /// The names of builders that have one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::builder_names"))]
    pub builder_names: BTreeMap<BuilderId, String>,
    /// The files of the run.
    pub files: Vec<FileReport>,
    /// The number of intact records; every copy of an event counts.
    pub records: u64,
    /// The number of different events in all intact records.
    pub events: u64,
    /// The expected number of events, if the caller has given it.
    pub expected: Option<u64>,
    /// The number of events that have a fragment of every source that owes them one.
    pub complete: u64,
    /// Of the complete events, those without a source that does not owe them a fragment, by source
    /// and cause.
    pub complete_without: Vec<WithoutSource>,
    /// Events with missing sources. If there are several copies of an event, only the one of the
    /// highest epoch counts.
    pub incomplete: Listed<IncompleteEvent>,
    /// The incomplete events by missing source and cause. An event without several sources counts
    /// for each of them.
    pub incomplete_without: Vec<WithoutSource>,
    /// The number of events with a fragment whose time is not that of the event, as the guard of
    /// the run found: no defect of the files.
    pub misaligned: u64,
    /// These events by the source of the fragment. An event with several counts for each of them.
    pub misaligned_by: Vec<EventsOfSource>,
    /// The number of events with a fragment of which packets were lost before they reached its
    /// source: no defect of the files.
    pub lossy: u64,
    /// These events by the source of the fragment. An event with several counts for each of them.
    pub lossy_by: Vec<EventsOfSource>,
    /// The highest event id in the run's files.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub highest: EventId,
    /// The number of event ids, from 1 to the highest, that are in no file.
    pub absent: u64,
    /// Ranges of event ids that are in no file. Inhibited triggers leave such gaps too, so a gap
    /// alone is no defect. If the expected number of events is given, a wrong number is a defect.
    pub gaps: Listed<Gap>,
    /// Second and later copies of an event in the same epoch: a defect.
    pub duplicates: Listed<Duplicate>,
    /// Copies of events that were built again in a later epoch: no defect, as only the later copy
    /// counts.
    pub superseded: Listed<Superseded>,
    /// Records that are not verified because of the selection of epochs.
    pub other_epochs: u64,
    /// Damaged records, indexes and headers (CRC errors): a defect.
    pub damaged: Listed<Damage>,
    /// Files that end inside a record. Such a torn tail is a defect unless another record of the
    /// same event is whole, or the number of events is the expected one.
    pub torn_tails: Listed<TornTail>,
    /// Files or records of another run, and records of another builder than their file: a defect.
    pub foreign: Listed<Foreign>,
    /// Files that were not closed: no defect, as all their records were read.
    pub without_index: Listed<NotClosed>,
    /// The total payload size of all intact records.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub payload: Bytes,
}

impl RunReport {
    /// Returns true if every event is complete and has no duplicate, nothing is damaged or foreign,
    /// and the number of events is the expected one. If no number is expected, the event of every
    /// torn record must have a whole record too.
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

/// The facts found about one file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FileReport {
    /// The path of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// The builder that wrote the file; `None` for a merged file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::builder"))]
    pub builder: Option<BuilderId>,
    /// The number of the file within its run and builder.
    pub sequence: u32,
    /// The version of the file's format.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::format"))]
    pub format: FormatVersion,
    /// The part of the file from which its damaged header was recovered.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::recovery"))]
    pub recovered: Option<Recovery>,
    /// The size of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub size: Bytes,
    /// The number of records with an intact head.
    pub records: u64,
    /// The state of the file's index.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::index"))]
    pub index: IndexState,
}

impl FileReport {
    /// Creates the report on a file before its records are counted.
    pub(super) fn of(file: &EventFile) -> Self {
        Self {
            path: file.path().to_owned(),
            builder: file.header().builder,
            sequence: file.header().sequence,
            format: file.header().version,
            recovered: file.recovery(),
            size: file.size(),
            records: 0,
            index: file.index_state(),
        }
    }
}
