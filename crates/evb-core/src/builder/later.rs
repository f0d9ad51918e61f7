//! [`Later`]: lanes whose records may wait for others to go along with.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{index::LaneIndex, set::LaneSet, time::Instant};

/// Lanes in two sets: those that were inserted since the last tick, and those that were there at
/// it. A lane that has seen one tick is due at the next, after one to two ticks. So no lane needs a
/// timer of its own, and many are due at once.
#[derive(Clone, Debug)]
pub(super) struct Later {
    fresh: LaneSet,
    seen: LaneSet,
    tick: Duration,
    next: Option<Instant>,
}

impl Later {
    /// Returns an empty set, in which no lane waits for longer than `most` or less than half of
    /// that.
    pub(super) fn new(most: Duration) -> Self {
        Self { fresh: LaneSet::default(), seen: LaneSet::default(), tick: most / 2, next: None }
    }

    /// Lets a lane wait, if it does not already.
    pub(super) fn insert(&mut self, lane: LaneIndex) {
        if !self.seen.contains(lane) {
            self.fresh.insert(lane);
        }
    }

    /// Removes a lane that has sent its records.
    pub(super) fn remove(&mut self, lane: LaneIndex) {
        self.fresh.remove(lane);
        self.seen.remove(lane);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.seen.is_empty()
    }

    /// Returns the time at which to call [`Self::take_due`] again, as its last call found.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Takes out the lanes that have waited long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> LaneSet {
        if self.is_empty() {
            self.next = None;
            return LaneSet::default();
        }
        if *self.next.get_or_insert(now + self.tick) > now {
            return LaneSet::default();
        }
        let due = core::mem::replace(&mut self.seen, core::mem::take(&mut self.fresh));
        self.next = (!self.seen.is_empty()).then(|| now + self.tick);
        due
    }
}
