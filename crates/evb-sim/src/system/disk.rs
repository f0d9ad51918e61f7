//! Simulated disks with the journal and the event files, which survive the death of their process.
//! A disk may be slow, full or broken, or it may hang.

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::wire::encoding::Encoding;
use evb_core::{
    event::{Alignment, Cause, Event, MissingSource},
    id::{EventId, RunNumber, SourceId},
    rng::Rng,
    time::{Instant, Utc},
    wire::journal::Entry,
};

/// Time that a write to the journal takes on a healthy disk.
pub(crate) const WRITE: Duration = Duration::from_micros(100);

/// The state of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskState {
    /// The disk works.
    #[default]
    Well,
    /// The disk works, but each write takes longer by the given time.
    Slow(Duration),
    /// The disk is full: writes fail with an error that says so.
    Full,
    /// Writes fail with an error, and their data are lost.
    Failing,
    /// The disk hangs: writes do not end.
    Hanging,
}

/// The facts that an event file holds about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    pub(crate) epoch: u64,
    pub(crate) builder: u16,
    /// Number of the builder's process among all that were started.
    pub(crate) process: u64,
    pub(crate) utc: Utc,
    pub(crate) present: Vec<SourceId>,
    pub(crate) missing: Vec<SourceId>,
    pub(crate) absent: Vec<MissingSource>,
    /// The missing sources for which the event did not wait, because their readout was quiet.
    pub(crate) quiet: Vec<SourceId>,
    /// The sources whose timestamp agrees with the others.
    pub(crate) agree: Vec<SourceId>,
    /// The sources whose timestamp does not.
    pub(crate) disagree: Vec<SourceId>,
}

impl EventRecord {
    /// Creates the record of an event whose content has been checked.
    pub(crate) fn of(event: &Event, process: u64) -> Self {
        let quiet = event.missing.iter().filter(|missing| missing.cause == Cause::NoReadout);
        Self {
            epoch: event.epoch.number(),
            builder: event.builder.number(),
            process,
            utc: event.utc,
            present: event.fragments().map(|fragment| fragment.source).collect(),
            missing: event.missing_sources().collect(),
            absent: event.absent.clone(),
            quiet: quiet.map(|missing| missing.source).collect(),
            agree: with(event, Alignment::Agrees),
            disagree: with(event, Alignment::Disagrees),
        }
    }

    /// Returns the sources of the run, whose ids are 1 to `sources`, without a fragment in the
    /// event. The list does not depend on the one that the event has.
    pub(crate) fn lacks(&self, sources: u16) -> Vec<SourceId> {
        (1..=sources).map(SourceId::new).filter(|id| !self.present.contains(id)).collect()
    }
}

/// Returns the sources whose fragments have this state.
fn with(event: &Event, state: Alignment) -> Vec<SourceId> {
    event.fragments().filter(|one| one.alignment == state).map(|one| one.source).collect()
}

/// The event records of all builders' files, by run and event, in the order of writing.
pub(crate) type Files = BTreeMap<(RunNumber, EventId), Vec<EventRecord>>;

/// The supervisor's journal, as encoded entries.
#[derive(Debug, Default)]
pub(crate) struct JournalFile {
    entries: Vec<Vec<u8>>,
    /// Incomplete entry at the end of the file.
    torn: Vec<u8>,
}

/// The error of a journal that cannot be decoded.
#[derive(Debug)]
pub(crate) struct Damaged;

impl JournalFile {
    /// Returns all whole entries, and removes an incomplete entry at the end.
    pub(crate) fn read(&mut self) -> Result<Vec<Entry>, Damaged> {
        self.torn.clear();
        self.entries.iter().map(|bytes| Entry::decode(bytes).map_err(|_| Damaged)).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.torn.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn append(&mut self, entries: &[Entry]) {
        self.entries.extend(entries.iter().map(Encoding::encode_to_vec));
    }

    /// Writes some of the entries and a part of the next one, as if the process had been killed
    /// during the write.
    pub(crate) fn tear(&mut self, entries: &[Entry], rng: &mut Rng) {
        let whole = rng.below(entries.len() as u64 + 1) as usize;
        self.append(&entries[..whole]);
        if let Some(next) = entries.get(whole) {
            let next = next.encode_to_vec();
            self.torn = next[..rng.below(next.len() as u64 + 1) as usize].to_vec();
        }
    }

    pub(crate) fn replace(&mut self, entries: &[Entry]) {
        self.clear();
        self.append(entries);
    }
}

/// State of a write at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The write is not finished. Check again at the given time, or when the state of the disk has
    /// changed.
    Later(Option<Instant>),
    /// The write is finished.
    Done,
    /// The write failed because the disk is full.
    Full,
    /// The write failed because of a disk error.
    Failed,
}

impl DiskState {
    /// Returns the state of a write that began at `since` and takes `length` on a healthy disk.
    pub(crate) fn look(self, since: Instant, length: Duration, now: Instant) -> Written {
        let ends = match self {
            Self::Hanging => return Written::Later(None),
            Self::Slow(more) => since + length + more,
            Self::Well | Self::Full | Self::Failing => since + length,
        };
        match self {
            _ if now < ends => Written::Later(Some(ends)),
            Self::Full => Written::Full,
            Self::Failing => Written::Failed,
            _ => Written::Done,
        }
    }
}
