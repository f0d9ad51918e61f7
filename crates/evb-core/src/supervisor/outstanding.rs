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
    /// the event; 0 if none is awaited.
    pub(super) confirmation: u32,
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

    /// Removes an event if it has that builder (`None`: if it is unassigned); returns false
    /// otherwise.
    pub(super) fn take(&mut self, event: u64, builder: Option<BuilderIndex>) -> bool {
        match self.0.entry(event) {
            Entry::Occupied(entry) if entry.get().builder == builder => {
                entry.remove();
                true
            }
            _ => false,
        }
    }

    /// Returns the entry of an event; `None` if the event is not in the table.
    pub(super) fn get(&self, event: u64) -> Option<OutstandingEvent> {
        self.0.get(&event).copied()
    }

    /// Changes the builder of an event, and the number of the confirmation that the builder must
    /// send (0: none). Returns the new entry; `None` if the event is not in the table.
    pub(super) fn hand_over(
        &mut self,
        event: u64,
        builder: Option<BuilderIndex>,
        confirmation: u32,
    ) -> Option<OutstandingEvent> {
        let entry = self.0.get_mut(&event)?;
        (entry.builder, entry.confirmation) = (builder, confirmation);
        Some(*entry)
    }

    /// Notes that a builder has opened its slots for all events up to the confirmation with this
    /// number. Returns true if any of its events waited for that.
    pub(super) fn accept(&mut self, builder: BuilderIndex, confirmation: u32) -> bool {
        let mut any = false;
        for entry in self.0.values_mut().filter(|entry| entry.builder == Some(builder)) {
            if (1..=confirmation).contains(&entry.confirmation) {
                // This event waits for no confirmation any more.
                entry.confirmation = 0;
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
        for entry in self.0.values_mut() {
            entry.triggered_ns = entry.triggered_ns.wrapping_add_signed(nanos);
        }
    }

    /// Returns the events of a builder, or the unassigned events for `None`, in ascending order.
    pub(super) fn of(&self, builder: Option<BuilderIndex>) -> Vec<OutstandingEvent> {
        let mut entries: Vec<OutstandingEvent> =
            self.iter().filter(|entry| entry.builder == builder).copied().collect();
        entries.sort_unstable_by_key(|entry| entry.event);
        entries
    }

    /// Removes all events of a builder.
    pub(super) fn take_all(&mut self, builder: BuilderIndex) {
        self.0.retain(|_, entry| entry.builder != Some(builder));
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        for (event, entry) in &self.0 {
            assert_eq!(*event, entry.event, "an entry stands under its event: {entry:?}");
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
