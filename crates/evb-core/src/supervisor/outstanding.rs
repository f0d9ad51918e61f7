//! [`Outstanding`]: the builder of each outstanding event.

#[cfg(test)]
mod tests;

use core::hash::{BuildHasherDefault, Hasher};

use hashbrown::{HashMap, hash_map::Entry};

use crate::index::BuilderIndex;

/// The outstanding events (assigned and not settled), by event id. The map grows until it has room
/// for all slots, and then allocates no more memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding(HashMap<u64, OutstandingEvent, BuildHasherDefault<EventHasher>>);

/// An outstanding event with all data that is needed to assign it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutstandingEvent {
    pub(super) event: u64,
    /// Trigger time on the supervisor's clock, modulo 2⁶⁴: it may lie before the boot of the host.
    pub(super) triggered_ns: u64,
    /// Roster version that determines which sources the event expects.
    pub(super) version: u32,
    /// Number of the confirmation that the builder must send before sources are told that it has
    /// the event; 0 if it has confirmed.
    pub(super) answer: u32,
    /// The event's builder. The builder is `None` while the event is unassigned, because the
    /// previous builder is gone and no other builder has a slot yet.
    pub(super) builder: Option<BuilderIndex>,
}

impl Outstanding {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an event, which must not be in the table.
    pub(super) fn insert(&mut self, new: OutstandingEvent) {
        debug_assert!(new.event != 0, "event ids start at 1");
        let earlier = self.0.insert(new.event, new);
        debug_assert!(earlier.is_none(), "event {} is in the table already", new.event);
    }

    /// Removes an event if it is assigned to that builder; returns false otherwise.
    pub(super) fn take(&mut self, event: u64, builder: Option<BuilderIndex>) -> bool {
        match self.0.entry(event) {
            Entry::Occupied(place) if place.get().builder == builder => {
                place.remove();
                true
            }
            _ => false,
        }
    }

    /// Returns the entry of an event; `None` if the event is not in the table.
    pub(super) fn get(&self, event: u64) -> Option<OutstandingEvent> {
        self.0.get(&event).copied()
    }

    /// Assigns an event in the table to another builder, which has to confirm it by the number
    /// `answer`. Returns the new entry.
    pub(super) fn hand_over(
        &mut self,
        event: u64,
        builder: Option<BuilderIndex>,
        answer: u32,
    ) -> Option<OutstandingEvent> {
        let place = self.0.get_mut(&event)?;
        (place.builder, place.answer) = (builder, answer);
        Some(*place)
    }

    /// Notes that the builder has confirmed its slots by the number `answer`. Returns true if any
    /// of its events waited for that confirmation.
    pub(super) fn accept(&mut self, builder: BuilderIndex, answer: u32) -> bool {
        let mut any = false;
        for place in self.0.values_mut().filter(|place| place.builder == Some(builder)) {
            if (1..=answer).contains(&place.answer) {
                place.answer = 0;
                any = true;
            }
        }
        any
    }

    /// Returns the entries of all events, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OutstandingEvent> {
        self.0.values()
    }

    /// Converts all trigger times to a clock that is `nanos` ahead of the present one.
    pub(super) fn shift_times(&mut self, nanos: i64) {
        for place in self.0.values_mut() {
            place.triggered_ns = place.triggered_ns.wrapping_add_signed(nanos);
        }
    }

    /// Returns the events of a builder, or the unassigned events for `None`, in ascending order.
    pub(super) fn of(&self, builder: Option<BuilderIndex>) -> Vec<OutstandingEvent> {
        let mut places: Vec<OutstandingEvent> =
            self.iter().filter(|place| place.builder == builder).copied().collect();
        places.sort_unstable_by_key(|place| place.event);
        places
    }

    /// Removes all events of a builder.
    pub(super) fn take_all(&mut self, builder: BuilderIndex) {
        self.0.retain(|_, place| place.builder != Some(builder));
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        for (event, place) in &self.0 {
            assert_eq!(*event, place.event, "an entry stands under its event: {place:?}");
        }
    }
}

/// The hash of an event id: a multiplication by 2⁶⁴/φ spreads consecutive ids evenly (Fibonacci
/// hashing: Knuth, TAOCP vol. 3, §6.4), and no random seed changes it. The map takes the place from
/// the low bits of the hash, so the well-mixed high half of the product goes there.
#[derive(Clone, Copy, Debug, Default)]
struct EventHasher(u64);

impl Hasher for EventHasher {
    fn write_u64(&mut self, event: u64) {
        self.0 = event.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
