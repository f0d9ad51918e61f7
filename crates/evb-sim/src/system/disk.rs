//! Simulated disks: the journal and event files, which outlive their process. A disk may be slow,
//! full or broken, or it may hang.

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::wire::encoding::Encoding;
use evb_core::{
    event::Event,
    id::{EventId, RunNumber, SourceId},
    rng::Rng,
    time::Instant,
    wire::journal::Entry,
};

/// Time that a write to the journal takes on a healthy disk.
pub(crate) const WRITE: Duration = Duration::from_micros(100);

/// The state of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskState {
    /// It takes what it is given.
    #[default]
    Well,
    /// It takes everything, but each write takes that much longer.
    Slow(Duration),
    /// It reports that it takes nothing for now.
    Full,
    /// It loses what it is given, and reports the failure.
    Failing,
    /// It does not answer.
    Hanging,
}

/// An event as a file holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    pub(crate) epoch: u64,
    pub(crate) builder: u16,
    pub(crate) present: Vec<SourceId>,
    pub(crate) missing: Vec<SourceId>,
}

impl EventRecord {
    /// Creates the record of an event whose content was checked.
    pub(crate) fn of(event: &Event) -> Self {
        Self {
            epoch: event.epoch.number(),
            builder: event.builder.number(),
            present: event.fragments().map(|fragment| fragment.source).collect(),
            missing: event.missing.clone(),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// The event records of all builders' files, by run and event, in the order of writing.
pub(crate) type Files = BTreeMap<(RunNumber, EventId), Vec<EventRecord>>;

/// The supervisor's journal, as encoded entries.
#[derive(Debug, Default)]
pub(crate) struct JournalFile {
    entries: Vec<Vec<u8>>,
    /// Torn end of the file: the beginning of an entry.
    torn: Vec<u8>,
}

/// A journal from which no supervisor can go on.
#[derive(Debug)]
pub(crate) struct Damaged;

impl JournalFile {
    /// Returns all whole entries, and cuts off a torn end.
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

    /// Writes some of these entries and a part of the next, as if the process was killed meanwhile.
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

/// Result of a look at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is not done yet: look again at that time, or when the disk's state has changed.
    Later(Option<Instant>),
    /// It is done.
    Done,
    /// It has no room.
    Full,
    /// It failed.
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
