//! [`Outstanding`]: a hash table with the builder of each outstanding event. This custom table is
//! used for two reasons: its size depends on the number of slots and not on the ids, and a
//! multiplication as hash function spreads consecutive ids more evenly than a random hash would.

#[cfg(test)]
mod tests;

use crate::index::BuilderIndex;

/// The outstanding events (assigned and not settled). The table uses linear probing and is at most
/// half full. The table grows until it has room for all slots, and then allocates no more memory.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    places: Vec<Place>,
    mask: u64,
    count: usize,
}

/// An entry of the table: an event with all data that is needed to assign it again. Event id 0 does
/// not exist, so it marks a free entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) event: u64,
    /// Trigger time on the supervisor's clock.
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
        Self { places: vec![Place::default(); 64], mask: 63, count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds an event, which must not be in the table.
    pub(super) fn insert(&mut self, new: Place) {
        debug_assert!(new.event != 0, "event ids start at 1");
        if (self.count + 1) * 2 > self.places.len() {
            self.grow();
        }
        let mut at = self.first_probe(new.event);
        while self.place(at).event != 0 {
            at = (at + 1) & self.mask;
        }
        self.places[at as usize] = new;
        self.count += 1;
    }

    /// Removes an event if it is assigned to that builder; returns false otherwise.
    pub(super) fn take(&mut self, event: u64, builder: Option<BuilderIndex>) -> bool {
        let Some(at) = self.find(event).filter(|at| self.place(*at).builder == builder) else { return false };
        self.close_gap(at);
        self.count -= 1;
        true
    }

    /// Returns the entry of an event; `None` if the event is not in the table.
    pub(super) fn get(&self, event: u64) -> Option<Place> {
        self.find(event).map(|at| self.place(at))
    }

    /// Assigns an event in the table to another builder, which has to confirm it by the number
    /// `answer`. Returns the new entry.
    pub(super) fn hand_over(
        &mut self,
        event: u64,
        builder: Option<BuilderIndex>,
        answer: u32,
    ) -> Option<Place> {
        let at = self.find(event)?;
        let place = &mut self.places[at as usize];
        (place.builder, place.answer) = (builder, answer);
        Some(*place)
    }

    /// Notes that the builder has confirmed its slots by the number `answer`. Returns true if any
    /// of its events waited for that confirmation.
    pub(super) fn accept(&mut self, builder: BuilderIndex, answer: u32) -> bool {
        let mut any = false;
        for place in self.places.iter_mut().filter(|place| place.event != 0 && place.builder == Some(builder))
        {
            if (1..=answer).contains(&place.answer) {
                place.answer = 0;
                any = true;
            }
        }
        any
    }

    /// Returns the entries of all events, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.event != 0)
    }

    /// Converts all trigger times to a clock that is `nanos` ahead of the present one.
    pub(super) fn shift_times(&mut self, nanos: i64) {
        for place in self.places.iter_mut().filter(|place| place.event != 0) {
            place.triggered_ns = place.triggered_ns.saturating_add_signed(nanos);
        }
    }

    /// Returns the events of a builder, or the unassigned events for `None`, in ascending order.
    pub(super) fn of(&self, builder: Option<BuilderIndex>) -> Vec<Place> {
        let mut places: Vec<Place> = self.iter().filter(|place| place.builder == builder).copied().collect();
        places.sort_unstable_by_key(|place| place.event);
        places
    }

    /// Removes all events of a builder.
    pub(super) fn take_all(&mut self, builder: BuilderIndex) {
        let places = core::mem::take(&mut self.places);
        self.places = vec![Place::default(); places.len()];
        self.count = 0;
        for place in places {
            if place.event != 0 && place.builder != Some(builder) {
                self.insert(place);
            }
        }
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        assert_eq!(self.iter().count(), self.count);
        assert!(self.count * 2 <= self.places.len(), "the table is at most half full");
        for place in self.iter() {
            assert_eq!(self.get(place.event).as_ref(), Some(place), "each event has one entry: {place:?}");
        }
    }

    fn find(&self, event: u64) -> Option<u64> {
        if event == 0 {
            return None;
        }
        let mut at = self.first_probe(event);
        loop {
            match self.place(at).event {
                0 => return None,
                found if found == event => return Some(at),
                _ => at = (at + 1) & self.mask,
            }
        }
    }

    /// Returns the index of the first entry to probe, by Fibonacci hashing (Knuth, vol. 3, 6.4).
    /// Consecutive ids are spread over the table, so clusters stay short.
    fn first_probe(&self, event: u64) -> u64 {
        event.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) & self.mask
    }

    fn place(&self, at: u64) -> Place {
        self.places[at as usize]
    }

    /// Moves later entries of the same cluster into the gap, so that all of them stay reachable
    /// (Knuth, vol. 3, 6.4, algorithm R).
    fn close_gap(&mut self, mut gap: u64) {
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            let place = self.place(at);
            if place.event == 0 {
                break;
            }
            let distance_from_home = at.wrapping_sub(self.first_probe(place.event)) & self.mask;
            let distance_from_gap = at.wrapping_sub(gap) & self.mask;
            if distance_from_home >= distance_from_gap {
                self.places[gap as usize] = place;
                gap = at;
            }
        }
        self.places[gap as usize] = Place::default();
    }

    fn grow(&mut self) {
        let doubled = self.places.len() * 2;
        let places = core::mem::replace(&mut self.places, vec![Place::default(); doubled]);
        self.mask = doubled as u64 - 1;
        self.count = 0;
        for place in places.into_iter().filter(|place| place.event != 0) {
            self.insert(place);
        }
    }
}
