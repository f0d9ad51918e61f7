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
///
/// ```
/// use evb_core::{
///     event::{Cause, Event, MissingSource},
///     id::*,
/// };
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// event.missing.push(MissingSource::new(SourceId::new(3), Cause::Down));
/// # writer.append(&event)?;
/// # writer.close()?;
/// let report = verify(&[dir.path().to_owned()], &VerifyOptions::default())?;
/// assert_eq!(report.runs[0].incomplete.first[0].missing[0].to_string(), "source 3 (down)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use evb_core::id::EventId;
/// use evb_file::Gap;
///
/// let gap = Gap { first: EventId::new(18), last: EventId::new(20) };
/// assert_eq!(gap.last.number() - gap.first.number() + 1, 3, "events are in no file");
/// ```
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
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.append(&event)?;
/// # writer.close()?;
/// // The file has two records of event 1.
/// let report = verify(&[path], &VerifyOptions::default())?;
/// assert_eq!(report.runs[0].duplicates.first, [Duplicate { event: EventId::FIRST, epoch }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use evb_core::id::{Epoch, EventId};
/// use evb_file::Superseded;
///
/// let (epoch, by) = (Epoch::new(1), Epoch::new(2));
/// let copy = Superseded { event: EventId::new(7), epoch, by };
/// assert!(copy.by > copy.epoch, "event {} was built again", copy.event);
/// ```
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
///
/// ```
/// use evb_core::id::EventId;
/// use evb_file::{Damage, Listed};
///
/// /// Returns the events whose records are damaged, as far as they are known.
/// fn events(damaged: &Listed<Damage>) -> Vec<EventId> {
///     damaged.first.iter().filter_map(|damage| damage.event).collect()
/// }
///
/// assert!(events(&Listed::default()).is_empty());
/// ```
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
///
/// ```
/// use evb_core::{id::EventId, units::Bytes};
/// use evb_file::TornTail;
///
/// let (path, event) = ("run000007_b01_0000.evb".into(), Some(EventId::new(7)));
/// let tail = TornTail { path, offset: 4096, length: Bytes::new(96), event, elsewhere: true };
/// assert!(tail.elsewhere, "nothing is lost");
/// ```
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
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// // The name of the file says that it is of run 8.
/// std::fs::rename(path, dir.path().join("run000008_b01_0000.evb"))?;
/// let report = verify(&[dir.path().to_owned()], &VerifyOptions::default())?;
/// assert_eq!((report.runs[0].run, report.runs[0].foreign.first[0].run), (run, RunNumber::new(8)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// writer.commit()?; // and still runs
/// let report = verify(&[dir.path().to_owned()], &VerifyOptions::default())?;
/// assert_eq!(report.runs[0].without_index.first, [NotClosed { path }]);
/// assert!(report.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NotClosed {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
}

/// A file that could not be read.
///
/// ```
/// use evb_file::{VerifyOptions, verify};
///
/// # let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("notes.evb"), "this is not an event file")?;
/// let report = verify(&[dir.path().to_owned()], &VerifyOptions::default())?;
/// assert!(report.unreadable[0].why.contains("not an event file"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unreadable {
    /// The file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::path"))]
    pub path: PathBuf,
    /// The error, in words.
    pub why: String,
}
