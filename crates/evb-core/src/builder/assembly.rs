//! One slot of a builder: it assembles an event from its fragments.

mod part;
mod waiting;

use bytes::BytesMut;

use self::part::{Part, PartPlace};
use super::pool::Pool;
use crate::{
    event::{Alignment, Cause, Contribution, Event, MissingSource, Place},
    fragment::{Checksum, RunningChecksum},
    id::{Epoch, EventId, SourceId},
    set::SourceSet,
    time::{Instant, Utc},
    wire::record::Announcement,
};

/// Payload length from which on a fragment has its own memory, into which the socket is read
/// without a copy. Shorter fragments are copied side by side into the event's arena: up to 16 KiB,
/// a copy costs less than the extra system call.
pub const LARGE_FRAGMENT: usize = 16 << 10;

#[cfg(test)]
mod tests;

/// A slot of a builder; while it is taken, with the event that takes it.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    event: EventId,
    state: AssemblyState,
    /// The event's assignment; `None` until the supervisor has assigned it.
    assigned: Option<Assigned>,
    /// Time until which an assigned event waits for fragments that are not announced.
    deadline: Instant,
    /// True if the deadline has passed while the event waits for an awaited source.
    overdue: bool,
    /// Sources for whose fragments the event waits: all sources of the run that are not excluded.
    wanted: SourceSet,
    /// Those of `wanted` without which the event is complete.
    expendable: SourceSet,
    /// Those of `expendable` that send fragments of some events only.
    sporadic: SourceSet,
    /// True while the event waits for sporadic sources alone.
    is_lingering: bool,
    /// True if some sources do not owe the event a fragment.
    spares_some: bool,
    announced: SourceSet,
    arrived: SourceSet,
    /// Number of `wanted` sources whose fragment has not arrived.
    lacking: usize,
    /// Sources that the event does not wait for or no longer waits for. Their fragments are used if
    /// they arrive before the event closes.
    given_up: SourceSet,
    opened: Instant,
    arrivals: Arrivals,
    parts: Vec<Part>,
    arena: BytesMut,
    /// Bytes of large fragments that are now in the event at the sink.
    lent: usize,
}

/// The supervisor's assignment of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assigned {
    /// Time of the trigger, on this builder's clock.
    pub(super) triggered: Instant,
    /// UTC of the trigger, on the scale of the run.
    pub(super) utc: Utc,
    /// Epoch of the assignment.
    pub(super) epoch: Epoch,
}

/// The last fragment that arrived, and the arrival times of the last two fragments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    pub(super) last: usize,
    pub(super) last_at: Instant,
    pub(super) previous_at: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AssemblyState {
    #[default]
    Free,
    /// Fragments of the event are arriving.
    Open,
    /// The event is with the sink.
    Writing,
}

impl Assembly {
    /// Returns a free slot of a run with that number of sources.
    pub(super) fn new(sources: usize) -> Self {
        let parts = core::iter::repeat_with(Part::default).take(sources).collect();
        Self { wanted: SourceSet::first(sources), parts, ..Self::default() }
    }

    /// Opens the slot for an event. `room` is the most that the small fragments of all sources can
    /// take together.
    pub(super) fn open(&mut self, event: EventId, room: usize, now: Instant) {
        debug_assert_eq!(self.state, AssemblyState::Free);
        if self.arena.capacity() < room {
            // `extend` would double the arena, beyond the promised memory bound, so all of it is
            // reserved at once. The kernel provides pages only when they are written.
            self.arena = BytesMut::with_capacity(room);
        }
        for part in &mut self.parts {
            (part.room, part.cause) = (0..0, Cause::Unknown);
        }
        (self.event, self.state, self.opened) = (event, AssemblyState::Open, now);
        self.assigned = None;
        self.put_off(Instant::default());
        self.announced.clear();
        self.arrived.clear();
        self.lacking = self.parts.len();
        if core::mem::take(&mut self.spares_some) {
            self.wanted = SourceSet::first(self.parts.len());
            self.expendable.clear();
            self.sporadic.clear();
            self.is_lingering = false;
        }
        self.given_up.clear();
        self.arrivals = Arrivals::default();
        self.lent = 0;
    }

    /// Returns the event of a slot that is not free.
    pub(super) fn event(&self) -> EventId {
        self.event
    }

    pub(super) fn state(&self) -> AssemblyState {
        self.state
    }

    /// Returns the event's assignment; `None` until the supervisor has assigned it.
    pub(super) fn assigned(&self) -> Option<&Assigned> {
        self.assigned.as_ref()
    }

    /// Restarts the time for which an event waits for its assignment.
    pub(super) fn wait_anew(&mut self, now: Instant) {
        self.opened = now;
    }

    /// Returns the time of the first announcement or assignment of the event.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Returns the arrivals of the last two fragments; `None` if any fragment is missing, or none
    /// has arrived, which a complete event only permits if it spares sources.
    #[inline]
    pub(super) fn completed_by(&self) -> Option<&Arrivals> {
        let has_some = !self.spares_some || !self.arrived.is_empty();
        (self.is_complete() && has_some).then_some(&self.arrivals)
    }

    /// Returns true if that source announced its fragment.
    pub(super) fn is_announced(&self, source: usize) -> bool {
        self.announced.contains(source)
    }

    /// Returns the sources that announced a fragment, with the lane offsets at which the fragments
    /// begin.
    pub(super) fn announced(&self) -> impl Iterator<Item = (usize, u64)> {
        self.starts(&self.announced)
    }

    /// Returns sources and lane offsets of the fragments that are part of the event.
    pub(super) fn arrived(&self) -> impl Iterator<Item = (usize, u64)> {
        self.starts(&self.arrived)
    }

    /// Returns true if a fragment was announced and has not arrived.
    #[inline]
    pub(super) fn has_unfinished(&self) -> bool {
        let lacks_some = self.lacking > 0 || self.spares_some;
        lacks_some && !self.arrived.is_superset(&self.announced)
    }

    /// Returns sources and lane offsets of the fragments that were announced and have not arrived.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (usize, u64)> {
        self.announced.iter_without(&self.arrived).map(|source| (source, self.parts[source].start))
    }

    fn starts<'a>(&'a self, sources: &'a SourceSet) -> impl Iterator<Item = (usize, u64)> {
        sources.iter().map(|source| (source, self.parts[source].start))
    }

    /// Records the announcement of a source's fragment.
    pub(super) fn announce(&mut self, source: usize, start: u64, announcement: &Announcement) {
        self.announced.insert(source);
        let part = &mut self.parts[source];
        part.start = start;
        part.length = announcement.length;
        part.lost_packets = announcement.lost_packets;
        part.timestamp = announcement.timestamp;
        part.place = PartPlace::Nowhere;
        part.has_room = false;
    }

    /// Returns true if nothing of a source's fragment is left but the number of its lost packets.
    #[inline]
    pub(super) fn is_lost(&self, source: usize) -> bool {
        let part = &self.parts[source];
        part.length == 0 && part.lost_packets > 0
    }

    /// Makes room for a payload whose first bytes have arrived. Returns true if the payload has
    /// memory of its own.
    #[inline]
    pub(super) fn begin(&mut self, source: usize, pool: &mut Pool) -> bool {
        let part = &mut self.parts[source];
        let length = part.length as usize;
        let is_large = length >= LARGE_FRAGMENT;
        part.place = if is_large {
            PartPlace::Own(pool.take(source, length))
        } else {
            PartPlace::Arena { start: self.arena.len() as u32 }
        };
        is_large
    }

    /// Stores payload bytes from `position` on. `running` adds those with memory of their own to
    /// the checksum.
    #[inline]
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
            PartPlace::Arena { start } => {
                if position == 0 && part.room.len() < part.length as usize {
                    // Other fragments may have been appended since `begin`, so the fragment gets
                    // its place in the arena when its first byte arrives.
                    *start = self.arena.len() as u32;
                    self.arena.extend_from_slice(bytes);
                    self.arena.resize(*start as usize + part.length as usize, 0);
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

    /// Returns the memory of a large fragment, for the socket to read into.
    pub(super) fn own_memory(&mut self, source: usize) -> Option<&mut BytesMut> {
        match &mut self.parts[source].place {
            PartPlace::Own(memory) => Some(memory),
            PartPlace::Arena { .. } | PartPlace::Nowhere => None,
        }
    }

    /// Returns true if the whole payload matches `checksum`. `running` has the checksum of a large
    /// fragment so far.
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
            PartPlace::Arena { start } => {
                let place = part.in_arena(*start);
                Checksum::of(&self.arena[place.start as usize..place.end as usize])
            }
            PartPlace::Nowhere => return false,
        };
        part.checksum = checksum;
        found == checksum
    }

    /// Adds a fragment with a correct checksum to the event.
    #[inline]
    pub(super) fn arrive(&mut self, source: usize, now: Instant) {
        if self.arrived.insert(source) && (!self.spares_some || self.wanted.contains(source)) {
            self.lacking -= 1;
        }
        self.given_up.remove(source);
        self.arrivals = Arrivals { last: source, last_at: now, previous_at: self.arrivals.last_at };
    }

    /// Ends the assembly: the event goes to the sink, and the slot accepts no more fragments.
    pub(super) fn end(&mut self) {
        self.state = AssemblyState::Writing;
    }

    /// Returns true if the event was announced by sources but not assigned by the supervisor.
    pub(super) fn is_provisional(&self) -> bool {
        self.state == AssemblyState::Open && self.assigned.is_none()
    }

    /// Returns true if every source that owes the event a fragment has contributed it.
    #[inline]
    fn is_complete(&self) -> bool {
        self.lacking == 0 || self.missing().is_empty()
    }

    /// Withdraws the announcement of a source that restarted, so that it counts as not announced. A
    /// fragment that has arrived stays, with `nowhere` as its lane offset. Returns true if an open
    /// event lost an announced fragment that way.
    pub(super) fn withdraw(&mut self, source: usize, nowhere: u64, pool: &mut Pool) -> bool {
        if self.state == AssemblyState::Free {
            return false;
        }
        self.parts[source].start = nowhere;
        if self.state != AssemblyState::Open
            || self.arrived.contains(source)
            || !self.announced.remove(source)
        {
            return false;
        }
        let part = &mut self.parts[source];
        match core::mem::take(&mut part.place) {
            PartPlace::Own(memory) => pool.give(source, memory),
            PartPlace::Arena { start } if part.has_room => part.room = part.in_arena(start),
            PartPlace::Arena { .. } | PartPlace::Nowhere => {}
        }
        part.has_room = false;
        if !self.given_up.contains(source) {
            part.cause = Cause::LostInNetwork;
        }
        true
    }

    /// Moves the data into `event`; the caller sets its run and builder. Incomplete fragments stay
    /// behind.
    pub(super) fn fill(&mut self, event: &mut Event, sources: &[SourceId], pool: &mut Pool) {
        event.id = self.event;
        (event.triggered, event.utc) =
            self.assigned.map(|assigned| (assigned.triggered, assigned.utc)).unwrap_or_default();
        event.missing.clear();
        event.absent.clear();
        event.tag = 0;
        if self.lacking > 0 {
            let missing = self.missing();
            let entry = |index: usize| MissingSource::new(sources[index], self.parts[index].cause);
            event.missing.extend(missing.iter().map(entry));
        }
        if self.spares_some {
            self.add_absent(event, sources);
        }
        event.fragments.clear();
        for (index, part) in self.parts.iter_mut().enumerate() {
            let place = match core::mem::take(&mut part.place) {
                // Memory of a fragment that has not arrived whole.
                PartPlace::Own(memory) if !self.arrived.contains(index) => {
                    pool.give(index, memory);
                    continue;
                }
                PartPlace::Own(memory) => {
                    self.lent += memory.capacity();
                    Place::Own(memory.freeze())
                }
                PartPlace::Arena { start } if self.arrived.contains(index) => {
                    Place::Arena(part.in_arena(start))
                }
                PartPlace::Arena { .. } | PartPlace::Nowhere => continue,
            };
            let Part { timestamp, checksum, lost_packets, .. } = *part;
            let (source, alignment) = (sources[index], Alignment::Unchecked);
            event.fragments.push(Contribution {
                source,
                timestamp,
                checksum,
                alignment,
                lost_packets,
                place,
            });
        }
        event.arena = core::mem::take(&mut self.arena).freeze();
    }

    /// Adds to an event the sources that do not owe it a fragment and have not contributed one. A
    /// sporadic source is not expected to contribute.
    fn add_absent(&self, event: &mut Event, sources: &[SourceId]) {
        for (index, source) in sources.iter().enumerate().filter(|(index, _)| !self.arrived.contains(*index))
        {
            let cause = match self.wanted.contains(index) {
                false => Cause::Excluded,
                true if self.sporadic.contains(index) => continue,
                true if self.expendable.contains(index) => Cause::Expendable,
                true => continue,
            };
            event.absent.push(MissingSource::new(*source, cause));
        }
    }

    /// Takes back the memory of an event after the sink, unless a clone of the event still exists.
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

    /// Returns the capacity of this slot's arena in bytes.
    pub(super) fn arena_capacity(&self) -> usize {
        self.arena.capacity()
    }

    /// Frees the slot.
    pub(super) fn close(&mut self) {
        self.state = AssemblyState::Free;
        self.assigned = None;
        self.arena.clear();
    }

    /// Drops all fragments that arrived, and frees the slot of an unassigned event.
    pub(super) fn abandon(&mut self, pool: &mut Pool) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            if let PartPlace::Own(memory) = core::mem::take(&mut part.place) {
                pool.give(index, memory);
            }
        }
        self.close();
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        if self.state == AssemblyState::Free {
            assert!(self.assigned.is_none() && self.arena.is_empty(), "a free slot is empty: {self:?}");
            return;
        }
        assert!(self.announced.is_superset(&self.arrived), "only what was announced arrives: {self:?}");
        assert!(
            self.arrived.intersection(&self.given_up).is_empty(),
            "no arrived fragment is given up: {self:?}"
        );
        assert_eq!(
            self.lacking,
            self.wanted.without(&self.arrived).len(),
            "the missing fragments are counted: {self:?}"
        );
        let has_cause = |source: usize| self.parts[source].cause != Cause::Unknown;
        assert!(self.given_up.iter().all(has_cause), "what is given up has a cause: {self:?}");
        assert!(!self.overdue || self.assigned.is_some(), "only an assigned event has a deadline: {self:?}");
        assert!(
            self.state == AssemblyState::Open || self.awaits().is_empty(),
            "the sink awaits nothing: {self:?}"
        );
        let is_last_here = self.arrived.is_empty() || self.arrived.contains(self.arrivals.last);
        assert!(is_last_here, "the last arrival has arrived: {self:?}");
        for source in self.announced.iter() {
            let (part, has_arrived) = (&self.parts[source], self.arrived.contains(source));
            match &part.place {
                PartPlace::Own(memory) => {
                    assert!(memory.len() <= part.length as usize, "more bytes than announced: {part:?}");
                    assert!(!has_arrived || memory.len() == part.length as usize, "it is whole: {part:?}");
                }
                PartPlace::Arena { start } => {
                    let is_inside = part.in_arena(*start).end as usize <= self.arena.len();
                    assert!(!part.has_room || is_inside, "the fragment lies in the arena: {part:?}");
                    let is_whole = part.has_room || part.length == 0;
                    assert!(!has_arrived || is_whole, "an arrived fragment has room: {part:?}");
                }
                PartPlace::Nowhere => {}
            }
        }
    }
}
