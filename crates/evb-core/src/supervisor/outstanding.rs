//! [`Outstanding`]: which builder has which event now. A hash table of our own: it is as large as the slots, however far
//! the ids have run on, and a multiplication spreads ids, which are dense, more evenly than chance would.

#[cfg(test)]
mod tests;

/// A position in the list of builders.
pub(super) type BuilderIndex = u16;

/// The events that are assigned and not settled. Linear probing, at most half full; grows to the number of slots, and
/// allocates nothing after that.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    places: Vec<Place>,
    mask: u64,
    count: usize,
}

/// Event 0 does not exist: it marks a free place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    event: u64,
    builder: BuilderIndex,
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

    /// Adds an event that is not in.
    pub(super) fn insert(&mut self, event: u64, builder: BuilderIndex) {
        debug_assert!(event != 0, "event ids start at 1");
        if (self.count + 1) * 2 > self.places.len() {
            self.grow();
        }
        let mut at = self.home(event);
        while self.place(at).event != 0 {
            at = (at + 1) & self.mask;
        }
        self.places[at as usize] = Place { event, builder };
        self.count += 1;
    }

    /// Takes an event out, if it is that builder's.
    pub(super) fn take(&mut self, event: u64, builder: BuilderIndex) -> bool {
        let mut at = self.home(event);
        loop {
            let place = self.place(at);
            if place.event == 0 || event == 0 {
                return false;
            }
            if place.event == event {
                break;
            }
            at = (at + 1) & self.mask;
        }
        if self.place(at).builder != builder {
            return false;
        }
        self.close_gap(at);
        self.count -= 1;
        true
    }

    /// Takes out all events of the builders that `gone` names; calls it with each one's builder.
    pub(super) fn take_all(&mut self, mut gone: impl FnMut(BuilderIndex) -> bool) {
        let places = core::mem::take(&mut self.places);
        self.places = vec![Place::default(); places.len()];
        self.count = 0;
        for place in places {
            if place.event != 0 && !gone(place.builder) {
                self.insert(place.event, place.builder);
            }
        }
    }

    /// Fibonacci hashing (Knuth, vol. 3, 6.4): neighbours come to lie far apart, so that clusters stay short.
    fn home(&self, event: u64) -> u64 {
        event.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) & self.mask
    }

    fn place(&self, at: u64) -> Place {
        self.places[at as usize]
    }

    /// Moves later events of the same cluster up, so that none becomes unreachable (Knuth, vol. 3, 6.4, algorithm R).
    fn close_gap(&mut self, mut gap: u64) {
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            let place = self.place(at);
            if place.event == 0 {
                break;
            }
            let distance_from_home = at.wrapping_sub(self.home(place.event)) & self.mask;
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
            self.insert(place.event, place.builder);
        }
    }
}
