//! [`Event`]: a built event with its fragments. An incomplete event names the missing sources.

use core::ops::Range;

use crate::{
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    time::Instant,
    units::Bytes,
};

/// A built physics event, as a sink receives it. A clone shares the payload memory.
///
/// Fragments are in the order of their source ids. Small fragments share one allocation, and each
/// large fragment has its own. When a sink returns an event and has kept no clone, the builder
/// reuses the memory.
///
/// ```
/// use evb_core::{event::Event, fragment::Timestamp, id::*, units::Bytes};
///
/// let (run, epoch, builder) = (RunNumber::new(42), Epoch::new(1), BuilderId::new(1));
/// let mut event = Event::empty(EventId::new(7), run, epoch, builder);
/// event.add(SourceId::new(1), Timestamp::new(1000), "tracker data".into());
/// event.missing.push(SourceId::new(2));
///
/// assert_eq!(event.payload_size(), Bytes::new(12));
/// assert!(event.fragment(SourceId::new(2)).is_none() && !event.is_complete());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's trigger number.
    pub id: EventId,
    /// The run that the event belongs to.
    pub run: RunNumber,
    /// The epoch of the event's run.
    pub epoch: Epoch,
    /// The builder that built the event.
    pub builder: BuilderId,
    /// Time of the trigger, on the builder's clock.
    pub triggered: Instant,
    /// Sources that were expected and did not contribute; empty for a complete event.
    pub missing: Vec<SourceId>,
    pub(crate) fragments: Vec<Contribution>,
    pub(crate) arena: bytes::Bytes,
}

/// One fragment of an event, by its place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    pub(crate) source: SourceId,
    pub(crate) timestamp: Timestamp,
    pub(crate) checksum: Checksum,
    pub(crate) place: Place,
}

/// Place of a fragment's payload in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Arena(Range<u32>),
    Own(bytes::Bytes),
}

impl Place {
    /// Returns the length of the payload, in bytes.
    fn length(&self) -> usize {
        match self {
            Self::Arena(range) => range.len(),
            Self::Own(payload) => payload.len(),
        }
    }
}

/// A view of one fragment of an event.
///
/// ```
/// use evb_core::{event::Event, fragment::Timestamp, id::SourceId};
///
/// let mut event = Event::default();
/// event.add(SourceId::new(1), Timestamp::new(1000), vec![7; 300].into());
/// event.add(SourceId::new(2), Timestamp::new(1003), vec![9; 200].into());
/// let earliest = event.fragments().min_by_key(|fragment| fragment.timestamp);
/// assert_eq!(earliest.map(|fragment| fragment.payload.len()), Some(300));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentView<'a> {
    /// Source of the fragment.
    pub source: SourceId,
    /// The detector's own timestamp, in its ticks.
    pub timestamp: Timestamp,
    /// Checksum of the payload, which the builder has verified.
    pub checksum: Checksum,
    /// Payload bytes.
    pub payload: &'a [u8],
}

impl Event {
    /// Returns an event without fragments, for tools and tests. Call [`Self::add`] for each
    /// fragment, in the order of the source ids. Builders use another way, which shares memory
    /// between fragments.
    pub fn empty(id: EventId, run: RunNumber, epoch: Epoch, builder: BuilderId) -> Self {
        Self { id, run, epoch, builder, ..Self::default() }
    }

    /// Adds a fragment whose payload has memory of its own.
    pub fn add(&mut self, source: SourceId, timestamp: Timestamp, payload: bytes::Bytes) {
        let checksum = Checksum::of(&payload);
        self.fragments.push(Contribution { source, timestamp, checksum, place: Place::Own(payload) });
    }

    /// Returns true if every expected source contributed.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the fragments in the order of their source ids.
    pub fn fragments(&self) -> impl ExactSizeIterator<Item = FragmentView<'_>> {
        self.fragments.iter().map(|part| FragmentView {
            source: part.source,
            timestamp: part.timestamp,
            checksum: part.checksum,
            payload: self.slice(&part.place),
        })
    }

    /// Returns the fragment of that source; `None` if the event has none from it.
    pub fn fragment(&self, source: SourceId) -> Option<FragmentView<'_>> {
        self.fragments().find(|part| part.source == source)
    }

    /// Returns the payload of that source as a shared buffer, which outlives the event. The bytes
    /// are not copied.
    pub fn share_payload(&self, source: SourceId) -> Option<bytes::Bytes> {
        let part = self.fragments.iter().find(|part| part.source == source)?;
        Some(match &part.place {
            Place::Arena(range) => self.arena.slice(range.start as usize..range.end as usize),
            Place::Own(payload) => payload.clone(),
        })
    }

    /// Returns the sum of the payload sizes of all fragments.
    pub fn payload_size(&self) -> Bytes {
        Bytes::new(self.fragments.iter().map(|part| part.place.length() as u64).sum())
    }

    fn slice<'a>(&'a self, place: &'a Place) -> &'a [u8] {
        match place {
            Place::Arena(range) => &self.arena[range.start as usize..range.end as usize],
            Place::Own(payload) => payload,
        }
    }
}
