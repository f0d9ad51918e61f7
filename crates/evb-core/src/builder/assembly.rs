//! One slot of a builder: an event while its fragments come in.

use core::ops::Range;

use bytes::BytesMut;

use crate::{
    event::{Contribution, Event, Place},
    fragment::{Checksum, RunningChecksum, Timestamp},
    id::{Epoch, EventId, SourceId},
    set::SourceSet,
    time::Instant,
    wire::record::Announcement,
};

/// From this payload length on, a fragment has its own memory, into which the socket is read without a copy in between;
/// shorter ones are copied side by side into the event's arena. 16 KiB: a copy costs less than the extra system call.
pub const LARGE_FRAGMENT: usize = 16 << 10;

/// An event in a slot.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    pub(super) event: EventId,
    pub(super) state: State,
    /// `None` until assigned.
    pub(super) assigned: Option<Assigned>,
    /// Until when what is not announced is waited for, once assigned.
    pub(super) deadline: Instant,
    /// That has passed while a source was awaited.
    pub(super) overdue: bool,
    pub(super) announced: SourceSet,
    pub(super) arrived: SourceSet,
    /// Sources that nobody waits for any more.
    pub(super) given_up: SourceSet,
    pub(super) opened: Instant,
    pub(super) arrivals: Arrivals,
    pub(super) parts: Vec<Part>,
    arena: BytesMut,
    /// Memory of large fragments that went out with the event.
    lent: usize,
}

/// What the supervisor said of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assigned {
    /// When the trigger was, on this builder's clock.
    pub(super) triggered: Instant,
    /// Which sources are to contribute.
    pub(super) expected: SourceSet,
    /// Of the assignment.
    pub(super) epoch: Epoch,
}

/// Which fragment came last, and by how much.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    pub(super) last: usize,
    pub(super) last_at: Instant,
    pub(super) previous_at: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Free,
    /// Fragments come in.
    Open,
    /// With the sink.
    Writing,
}

/// One source's part of the event.
#[derive(Debug, Default)]
pub(super) struct Part {
    timestamp: Timestamp,
    checksum: Checksum,
    /// Where it begins in the source's lane.
    pub(super) start: u64,
    place: PartPlace,
    /// Whether its place in the arena has been taken.
    has_room: bool,
    /// A place in the arena that an earlier process of the source had, and that is taken before there is more.
    room: Range<u32>,
}

#[derive(Debug, Default)]
enum PartPlace {
    #[default]
    Nowhere,
    Arena {
        start: u32,
        length: u32,
    },
    Own(BytesMut),
}

/// Memory of large fragments, for the next ones of the same source: shared between sources, every piece would grow to
/// the largest of them.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// By source.
    spare: Vec<Vec<BytesMut>>,
    /// Most pieces kept for one source.
    limit: usize,
    /// Bytes in use or spare.
    pub(super) allocated: usize,
    pub(super) peak: usize,
}

impl Pool {
    pub(super) fn new(sources: usize, limit: usize) -> Self {
        Self { spare: vec![Vec::new(); sources], limit, ..Self::default() }
    }

    fn take(&mut self, source: usize, length: usize) -> BytesMut {
        let memory = match self.spare[source].pop() {
            Some(spare) if spare.capacity() >= length => spare,
            other => {
                self.forget(other.map_or(0, |spare| spare.capacity()));
                let fresh = BytesMut::with_capacity(length);
                self.allocated += fresh.capacity();
                fresh
            }
        };
        self.peak = self.peak.max(self.allocated);
        memory
    }

    fn give(&mut self, source: usize, mut memory: BytesMut) {
        if self.spare[source].len() < self.limit {
            memory.clear();
            self.spare[source].push(memory);
        } else {
            self.forget(memory.capacity());
        }
    }

    fn forget(&mut self, bytes: usize) {
        self.allocated = self.allocated.saturating_sub(bytes);
    }
}

impl Assembly {
    /// Starts on an event; `sources` is how many the run has, `room` what their small fragments can take together.
    pub(super) fn open(&mut self, event: EventId, sources: usize, room: usize, now: Instant) {
        debug_assert_eq!(self.state, State::Free);
        let (mut arena, mut parts) = (core::mem::take(&mut self.arena), core::mem::take(&mut self.parts));
        if arena.capacity() < room {
            // All at once and never again: growing would double it, beyond what is promised. Untouched pages cost nothing.
            arena = BytesMut::with_capacity(room);
        }
        parts.resize_with(sources, Part::default);
        parts.iter_mut().for_each(|part| part.room = 0..0);
        *self = Self { event, state: State::Open, opened: now, arena, parts, ..Self::default() };
    }

    /// A source announced its fragment.
    pub(super) fn announce(&mut self, source: usize, start: u64, announcement: &Announcement) {
        self.announced.insert(source);
        let part = &mut self.parts[source];
        part.start = start;
        part.timestamp = announcement.timestamp;
        part.place = PartPlace::Nowhere;
        part.has_room = false;
    }

    /// Room for a payload whose bytes begin to come. Returns whether it has memory of its own.
    pub(super) fn begin(&mut self, source: usize, length: usize, pool: &mut Pool) -> bool {
        let is_large = length >= LARGE_FRAGMENT;
        self.parts[source].place = if is_large {
            PartPlace::Own(pool.take(source, length))
        } else {
            PartPlace::Arena { start: self.arena.len() as u32, length: length as u32 }
        };
        is_large
    }

    /// Payload bytes from `position` on; `running` sums up those that go to memory of their own.
    pub(super) fn write(
        &mut self,
        source: usize,
        position: usize,
        bytes: &[u8],
        running: &mut RunningChecksum,
    ) {
        let part = &mut self.parts[source];
        match &mut part.place {
            PartPlace::Own(memory) => {
                memory.extend_from_slice(bytes);
                running.follow(memory);
            }
            PartPlace::Arena { start, length } => {
                if position == 0 && part.room.len() < *length as usize {
                    // Another lane's fragment may have begun meanwhile: room is taken when the first byte comes.
                    *start = self.arena.len() as u32;
                    self.arena.extend_from_slice(bytes);
                    self.arena.resize(*start as usize + *length as usize, 0);
                    part.has_room = true;
                    return;
                }
                if position == 0 {
                    *start = part.room.start;
                    part.has_room = true;
                }
                let at = *start as usize + position;
                self.arena[at..at + bytes.len()].copy_from_slice(bytes);
            }
            PartPlace::Nowhere => {}
        }
    }

    /// Memory of its own of a large fragment, to be read into.
    pub(super) fn own_memory(&mut self, source: usize) -> Option<&mut BytesMut> {
        match &mut self.parts[source].place {
            PartPlace::Own(memory) => Some(memory),
            PartPlace::Arena { .. } | PartPlace::Nowhere => None,
        }
    }

    /// All bytes are here: checks them. `running` knows those of a large fragment.
    pub(super) fn finish(
        &mut self,
        source: usize,
        checksum: Checksum,
        running: &mut RunningChecksum,
    ) -> bool {
        let part = &mut self.parts[source];
        let found = match &part.place {
            PartPlace::Own(memory) => {
                running.catch_up(memory);
                running.take()
            }
            PartPlace::Arena { start, length } => {
                Checksum::of(&self.arena[*start as usize..(*start + *length) as usize])
            }
            PartPlace::Nowhere => return false,
        };
        part.checksum = checksum;
        found == checksum
    }

    /// Marks a checked fragment as part of the event.
    pub(super) fn arrive(&mut self, source: usize, now: Instant) {
        self.arrived.insert(source);
        self.given_up.remove(source);
        self.arrivals = Arrivals { last: source, last_at: now, previous_at: self.arrivals.last_at };
    }

    /// Whether nothing more is waited for.
    pub(super) fn is_over(&self) -> bool {
        let Some(assigned) = &self.assigned else { return false };
        self.state == State::Open && self.arrived.union(&self.given_up).is_superset(&assigned.expected)
    }

    /// Whether sources spoke of it and the supervisor did not.
    pub(super) fn is_provisional(&self) -> bool {
        self.state == State::Open && self.assigned.is_none()
    }

    /// The sources that were expected and are not there.
    pub(super) fn missing(&self) -> SourceSet {
        self.assigned.map(|assigned| assigned.expected.without(&self.arrived)).unwrap_or_default()
    }

    /// The sources that it still waits for.
    pub(super) fn awaits(&self) -> SourceSet {
        self.missing().without(&self.given_up)
    }

    /// The source is another process, which has announced nothing: as if it had not been announced. Whether it was, and had not
    /// arrived.
    pub(super) fn withdraw(&mut self, source: usize, pool: &mut Pool) -> bool {
        if self.arrived.contains(source) || !self.announced.remove(source) {
            return false;
        }
        let part = &mut self.parts[source];
        match core::mem::take(&mut part.place) {
            PartPlace::Own(memory) => pool.give(source, memory),
            PartPlace::Arena { start, length } if part.has_room => part.room = start..start + length,
            PartPlace::Arena { .. } | PartPlace::Nowhere => {}
        }
        part.has_room = false;
        true
    }

    /// Moves the data into `event`, whose identity the caller has set. Incomplete fragments stay behind.
    pub(super) fn fill(&mut self, event: &mut Event, sources: &[SourceId], pool: &mut Pool) {
        event.fragments.clear();
        for (index, part) in self.parts.iter_mut().enumerate() {
            let place = match core::mem::take(&mut part.place) {
                PartPlace::Own(memory) if !self.arrived.contains(index) => {
                    pool.give(index, memory);
                    continue;
                }
                PartPlace::Own(memory) => {
                    self.lent += memory.capacity();
                    Place::Own(memory.freeze())
                }
                PartPlace::Arena { start, length } if self.arrived.contains(index) => {
                    Place::Arena(start..start + length)
                }
                PartPlace::Arena { .. } | PartPlace::Nowhere => continue,
            };
            let (source, timestamp, checksum) = (sources[index], part.timestamp, part.checksum);
            event.fragments.push(Contribution { source, timestamp, checksum, place });
        }
        event.arena = core::mem::take(&mut self.arena).freeze();
        self.state = State::Writing;
    }

    /// The sink is done: takes the memory back, unless somebody kept a share of it.
    pub(super) fn recycle(&mut self, event: &mut Event, sources: &[SourceId], pool: &mut Pool) {
        let arena = core::mem::take(&mut event.arena);
        self.arena = arena.try_into_mut().unwrap_or_default();
        self.arena.clear();
        for part in event.fragments.drain(..) {
            if let Place::Own(payload) = part.place
                && let Ok(index) = sources.binary_search(&part.source)
                && let Ok(memory) = payload.try_into_mut()
            {
                self.lent = self.lent.saturating_sub(memory.capacity());
                pool.give(index, memory);
            }
        }
        pool.forget(core::mem::take(&mut self.lent));
    }

    /// Bytes that this slot's arena takes.
    pub(super) fn arena_capacity(&self) -> usize {
        self.arena.capacity()
    }

    /// Gives the slot free.
    pub(super) fn close(&mut self) {
        self.state = State::Free;
        self.assigned = None;
        self.arena.clear();
    }

    /// Lets go of everything that came in: the event is nobody's.
    pub(super) fn abandon(&mut self, pool: &mut Pool) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            if let PartPlace::Own(memory) = core::mem::take(&mut part.place) {
                pool.give(index, memory);
            }
        }
        self.close();
    }
}
