//! [`Outstanding`]: the builder of each outstanding event. This is a hash table of our own: its
//! size depends on the number of slots, not on the ids, and a multiplication spreads dense ids more
//! evenly than a random hash would.

#[cfg(test)]
mod tests;

use crate::index::BuilderIndex;

/// The events that are assigned and not settled. The table uses linear probing and is at most half
/// full; it grows to the number of slots, and allocates nothing after that.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    places: Vec<Place>,
    mask: u64,
    count: usize,
}

/// An event with everything needed to assign it again. Event 0 does not exist: it marks a free
/// place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) event: u64,
    /// The trigger time by the supervisor's clock.
    pub(super) triggered_ns: u64,
    /// The roster version that names the sources with fragments of the event.
    pub(super) version: u32,
    /// The answer that the builder must give before sources are told that it has the event; 0 if it
    /// has.
    pub(super) answer: u32,
    /// The event's builder; `None` while the event is unassigned: its builder is gone, and no other
    /// has a slot yet.
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

    /// Adds an event that is not in the table.
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

    /// Takes out an event, if that builder has it.
    pub(super) fn take(&mut self, event: u64, builder: Option<BuilderIndex>) -> bool {
        let Some(at) = self.find(event).filter(|at| self.place(*at).builder == builder) else { return false };
        self.close_gap(at);
        self.count -= 1;
        true
    }

    /// Returns an event's place, if it is in the table.
    pub(super) fn get(&self, event: u64) -> Option<Place> {
        self.find(event).map(|at| self.place(at))
    }

    /// Gives an event in the table to that builder, which is to confirm it with that answer;
    /// returns its new place.
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

    /// Notes that the builder has slots for all events up to that answer; returns true if any event
    /// waited for it.
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

    /// Returns all events in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.event != 0)
    }

    /// Moves all trigger times to a clock that is `nanos` ahead.
    pub(super) fn shift_times(&mut self, nanos: i64) {
        for place in self.places.iter_mut().filter(|place| place.event != 0) {
            place.triggered_ns = place.triggered_ns.saturating_add_signed(nanos);
        }
    }

    /// Returns a builder's events in ascending order.
    pub(super) fn of(&self, builder: Option<BuilderIndex>) -> Vec<Place> {
        let mut places: Vec<Place> = self.iter().filter(|place| place.builder == builder).copied().collect();
        places.sort_unstable_by_key(|place| place.event);
        places
    }

    /// Takes out all events of a builder.
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

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub(super) fn invariants(&self) {
        assert_eq!(self.iter().count(), self.count);
        assert!(self.count * 2 <= self.places.len(), "at most half full");
        for place in self.iter() {
            assert_eq!(self.get(place.event).as_ref(), Some(place), "an event is found, and once: {place:?}");
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

    /// Returns the first place to probe by Fibonacci hashing (Knuth, vol. 3, 6.4): neighbouring ids
    /// lie far apart, so clusters stay short.
    fn first_probe(&self, event: u64) -> u64 {
        event.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) & self.mask
    }

    fn place(&self, at: u64) -> Place {
        self.places[at as usize]
    }

    /// Moves later events of the same cluster up, so that none becomes unreachable (Knuth, vol. 3,
    /// 6.4, algorithm R).
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
