//! The findings of a verification: what is wrong, and where.

use std::path::PathBuf;

use evb_core::{
    event::MissingSource,
    id::{Epoch, EventId, RunNumber},
    units::Bytes,
};

#[cfg(feature = "serde")]
use super::json;

/// An event without all its fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct IncompleteEvent {
    /// The event.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub event: EventId,
    /// The epoch in which the event was built.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub epoch: Epoch,
    /// The sources that owe the event a fragment and did not contribute one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::missing"))]
    pub missing: Vec<MissingSource>,
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
    /// The epoch in which both copies of the event were built.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub epoch: Epoch,
}

/// A copy of an event that does not count, because the event was built again in a later epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Superseded {
    /// The event.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::event"))]
    pub event: EventId,
    /// The epoch of the copy that does not count.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::epoch"))]
    pub epoch: Epoch,
    /// The epoch of the copy that counts.
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
    /// The event of the damaged record, if the record's head is intact.
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
    /// The offset at which the last whole record ends, in bytes.
    pub offset: u64,
    /// The number of bytes after the end of the last whole record.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::bytes"))]
    pub length: Bytes,
    /// The event of the torn record, if the record's head is intact.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::maybe_event"))]
    pub event: Option<EventId>,
    /// True if a whole record of the same event exists. If a whole record exists, the torn record
    /// was never acknowledged, and the event was built again.
    pub elsewhere: bool,
}

/// A file or record that does not belong to the run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Foreign {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// The run that the file's header or name states, or the run of the foreign record.
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
