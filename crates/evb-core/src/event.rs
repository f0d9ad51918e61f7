//! [`Event`]: a built event with its fragments. An incomplete event names the missing sources, with
//! a cause for each.

#[cfg(test)]
mod tests;

use core::{fmt, ops::Range};

use serde::{Serialize, Serializer};

use crate::{
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::{Instant, Utc},
    units::Bytes,
};

/// The reason why a source has no fragment in an event. Causes are ordered by their codes; those of
/// a later version come last.
///
/// ```
/// use evb_core::event::Cause;
///
/// assert_eq!(Cause::Silent.to_string(), "silent until the deadline");
/// assert_eq!(Cause::from_code(Cause::Silent.code()), Cause::Silent);
/// assert_eq!(Cause::from_code(99).to_string(), "cause 99"); // of a later version of evb
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The cause is not known, for example in a file of format 1.
    #[default]
    Unknown,
    /// The source was not connected to the supervisor or counted as down.
    Down,
    /// The source was up and did not announce a fragment until the event's deadline.
    Silent,
    /// No readout delivered data to the source.
    NoReadout,
    /// The fragment reached evb, which could not take it.
    Refused,
    /// The fragment arrived with a wrong checksum.
    Damaged,
    /// The source had announced the fragment, and the lane broke before the fragment had arrived.
    LostInNetwork,
    /// The run ended before the fragment had arrived.
    GivenUp,
    /// An operator excluded the source while the event waited for its fragment.
    Released,
    /// Packets of the fragment were lost before they reached the source.
    LostPackets,
    /// An operator had excluded the source from the run.
    Excluded,
    /// The source is expendable: events are complete without it.
    Expendable,
    /// A cause of a later version of evb, with its code.
    Other(u8),
}

/// Codes of the causes in messages and files (docs/reference/file-format.md).
const CODES: [(Cause, u8, &str); 12] = [
    (Cause::Unknown, 0, "unknown"),
    (Cause::Down, 1, "down"),
    (Cause::Silent, 2, "silent until the deadline"),
    (Cause::NoReadout, 3, "no readout"),
    (Cause::Refused, 4, "refused"),
    (Cause::Damaged, 5, "damaged"),
    (Cause::LostInNetwork, 6, "lost in the network"),
    (Cause::GivenUp, 7, "given up at the end of the run"),
    (Cause::Released, 8, "released by exclude"),
    (Cause::LostPackets, 9, "packets lost before the source"),
    (Cause::Excluded, 16, "excluded"),
    (Cause::Expendable, 17, "expendable"),
];

impl Cause {
    /// Returns the code of this cause in messages and files.
    pub fn code(self) -> u8 {
        match self {
            Self::Other(code) => code,
            known => CODES.iter().find(|(cause, ..)| *cause == known).map_or(0, |(_, code, _)| *code),
        }
    }

    /// Returns the cause of that code.
    pub fn from_code(code: u8) -> Self {
        CODES.iter().find(|(_, known, _)| *known == code).map_or(Self::Other(code), |(cause, ..)| *cause)
    }
}

/// The cause in words.
impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(code) => write!(f, "cause {code}"),
            known => f.write_str(
                CODES.iter().find(|(cause, ..)| cause == known).map_or("unknown", |(.., words)| *words),
            ),
        }
    }
}

/// A source that has no fragment in an event, and the cause.
///
/// ```
/// use evb_core::{
///     event::{Cause, MissingSource},
///     id::SourceId,
/// };
///
/// let missing = MissingSource::new(SourceId::new(7), Cause::Down);
/// assert_eq!(missing.to_string(), "source 7 (down)");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MissingSource {
    /// The source without a fragment.
    pub source: SourceId,
    /// The reason why the source has no fragment.
    pub cause: Cause,
}

impl MissingSource {
    /// Creates an entry of [`Event::missing`] or [`Event::absent`].
    pub const fn new(source: SourceId, cause: Cause) -> Self {
        Self { source, cause }
    }
}

impl fmt::Display for MissingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {} ({})", self.source, self.cause)
    }
}

/// Agreement of a fragment's timestamp with the others of its event.
///
/// ```
/// use evb_core::event::Alignment;
///
/// assert_eq!(Alignment::from_code(Alignment::Disagrees.code()), Alignment::Disagrees);
/// assert_eq!(Alignment::from_code(99), Alignment::Unknown); // of a later version of evb
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// The timestamp was not compared: the source has no clock, or no other source has one.
    #[default]
    Unchecked,
    /// The fragment belongs to the event.
    Agrees,
    /// The fragment's time is not that of the event.
    Disagrees,
    /// The clock is still being learnt, or no clock is there to compare it with.
    Unknown,
    /// The fragment was built into another event, and a repair moved it to this one, to which it
    /// belongs.
    Moved,
}

impl Alignment {
    const ALL: [Self; 5] = [Self::Unchecked, Self::Agrees, Self::Disagrees, Self::Unknown, Self::Moved];

    /// Returns the code of this state in files (docs/reference/file-format.md).
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the state of that code; [`Self::Unknown`] for a code of a later version of evb.
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unchecked => "not checked",
            Self::Agrees => "agrees",
            Self::Disagrees => "disagrees",
            Self::Unknown => "not known",
            Self::Moved => "moved",
        })
    }
}

/// A built physics event, as a sink receives it. A clone shares the payload memory.
///
/// Fragments are in the order of their source ids. Small fragments share one allocation, and each
/// large fragment has its own. When a sink returns an event and has kept no clone, the builder
/// reuses the memory.
///
/// ```
/// use evb_core::{event::*, fragment::Timestamp, id::*, units::Bytes};
///
/// let (run, epoch, builder) = (RunNumber::new(42), Epoch::new(1), BuilderId::new(1));
/// let mut event = Event::empty(EventId::new(7), run, epoch, builder);
/// event.add(SourceId::new(1), Timestamp::new(1000), "tracker data".into());
/// event.missing.push(MissingSource::new(SourceId::new(2), Cause::Down));
///
/// assert_eq!(event.payload_size(), Bytes::new(12));
/// assert!(event.fragment(SourceId::new(2)).is_none() && !event.is_complete());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's trigger number.
    pub id: EventId,
    /// The number of the run that the event belongs to.
    pub run: RunNumber,
    /// The identity of that run.
    pub run_id: RunId,
    /// The epoch of the event's run.
    pub epoch: Epoch,
    /// The builder that built the event.
    pub builder: BuilderId,
    /// Time of the trigger, on the builder's clock.
    pub triggered: Instant,
    /// Time of the trigger in UTC, on the scale of the run: the supervisor's wall clock at the
    /// start of the run plus its monotonic time since then. It does not depend on the builder.
    pub utc: Utc,
    /// Sources that owe the event a fragment and did not contribute one; ascending. Empty for a
    /// complete event.
    pub missing: Vec<MissingSource>,
    /// Sources that do not owe the event a fragment, because they are excluded or expendable, and
    /// did not contribute one; ascending.
    pub absent: Vec<MissingSource>,
    /// Number that a filter gave the event, with a meaning that the experiment chooses; 0 if none
    /// did.
    pub tag: u64,
    pub(crate) fragments: Vec<Contribution>,
    pub(crate) arena: bytes::Bytes,
}

/// One fragment of an event, by its place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    pub(crate) source: SourceId,
    pub(crate) timestamp: Timestamp,
    pub(crate) checksum: Checksum,
    pub(crate) alignment: Alignment,
    pub(crate) lost_packets: u32,
    pub(crate) place: Place,
}

/// A fragment that was taken out of an event, with the checksum that its source computed.
///
/// ```
/// use evb_core::{event::*, fragment::Timestamp, id::*};
///
/// let (mut before, mut after) = (Event::default(), Event::default());
/// before.add(SourceId::new(3), Timestamp::new(1003), "calorimeter".into());
/// if let Some(fragment) = before.take_fragment(SourceId::new(3)) {
///     after.move_here(fragment);
/// }
/// let moved = after.fragment(SourceId::new(3)).map(|fragment| fragment.alignment);
/// assert_eq!((before.fragments().len(), moved), (0, Some(Alignment::Moved)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenFragment(Contribution);

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
    /// Agreement of the timestamp with the others of the event.
    pub alignment: Alignment,
    /// Number of packets of the fragment that were lost before they reached the source.
    pub lost_packets: u32,
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
        self.add_judged(source, timestamp, Alignment::Unchecked, payload);
    }

    /// Adds a fragment as [`Self::add`] does, with a state of alignment that is known already.
    pub fn add_judged(
        &mut self,
        source: SourceId,
        timestamp: Timestamp,
        alignment: Alignment,
        payload: bytes::Bytes,
    ) {
        let checksum = Checksum::of(&payload);
        let place = Place::Own(payload);
        self.fragments.push(Contribution { source, timestamp, checksum, alignment, lost_packets: 0, place });
    }

    /// Notes whether the fragment of that source belongs to the event. Builders do this before the
    /// event goes to its sink.
    pub fn set_alignment(&mut self, source: SourceId, alignment: Alignment) {
        if let Some(part) = self.fragments.iter_mut().find(|part| part.source == source) {
            part.alignment = alignment;
        }
    }

    /// Notes how many packets of the fragment of that source were lost.
    pub fn set_lost_packets(&mut self, source: SourceId, lost_packets: u32) {
        if let Some(part) = self.fragments.iter_mut().find(|part| part.source == source) {
            part.lost_packets = lost_packets;
        }
    }

    /// Takes the fragment of a source out of the event, for a repair.
    pub fn take_fragment(&mut self, source: SourceId) -> Option<TakenFragment> {
        let place = self.fragments.iter().position(|part| part.source == source)?;
        let payload = self.share_payload(source)?;
        let part = self.fragments.remove(place);
        Some(TakenFragment(Contribution { place: Place::Own(payload), ..part }))
    }

    /// Moves a fragment to this event, to which it belongs. Its source must have none here; it is
    /// no longer missing or absent.
    pub fn move_here(&mut self, TakenFragment(part): TakenFragment) {
        let source = part.source;
        self.missing.retain(|missing| missing.source != source);
        self.absent.retain(|absent| absent.source != source);
        let place = self.fragments.partition_point(|other| other.source < source);
        self.fragments.insert(place, Contribution { alignment: Alignment::Moved, ..part });
    }

    /// Returns true if no fragment is known to belong to another event.
    pub fn is_aligned(&self) -> bool {
        self.fragments.iter().all(|part| part.alignment != Alignment::Disagrees)
    }

    /// Returns true if every source that owes the event a fragment contributed one.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns true if every source of the run contributed, and no fragment lost packets.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.absent.is_empty() && !self.has_lost_packets()
    }

    /// Returns true if packets of a fragment were lost before they reached its source.
    pub fn has_lost_packets(&self) -> bool {
        self.fragments.iter().any(|part| part.lost_packets > 0)
    }

    /// Returns true if that source owes the event a fragment and did not contribute one.
    pub fn is_missing(&self, source: SourceId) -> bool {
        self.missing.iter().any(|missing| missing.source == source)
    }

    /// Returns the sources of [`Self::missing`].
    pub fn missing_sources(&self) -> impl ExactSizeIterator<Item = SourceId> {
        self.missing.iter().map(|missing| missing.source)
    }

    /// Returns the fragments in the order of their source ids.
    pub fn fragments(&self) -> impl ExactSizeIterator<Item = FragmentView<'_>> {
        self.fragments.iter().map(|part| FragmentView {
            source: part.source,
            timestamp: part.timestamp,
            checksum: part.checksum,
            alignment: part.alignment,
            lost_packets: part.lost_packets,
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
