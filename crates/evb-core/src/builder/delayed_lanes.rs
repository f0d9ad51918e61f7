//! [`DelayedLanes`]: lanes whose records wait for a while, so that they can be sent together with
//! others.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{index::LaneIndex, set::LaneSet, time::Instant};

/// Lanes in two sets: those inserted since the last tick, and those that were in the set at that
/// tick. A lane is due at the second tick after its insertion, which is one to two ticks later. So
/// no lane needs a timer of its own, and many lanes are due at once.
#[derive(Clone, Debug)]
pub(super) struct DelayedLanes {
    fresh: LaneSet,
    seen: LaneSet,
    tick: Duration,
    next: Option<Instant>,
}

impl DelayedLanes {
    /// Returns an empty set, in which a lane waits for `most` at most, and for half of `most` at
    /// least.
    pub(super) fn new(most: Duration) -> Self {
        Self { fresh: LaneSet::default(), seen: LaneSet::default(), tick: most / 2, next: None }
    }

    /// Adds a lane that has a record to send, unless the lane waits already.
    pub(super) fn insert(&mut self, lane: LaneIndex) {
        if !self.seen.contains(lane) {
            self.fresh.insert(lane);
        }
    }

    /// Removes a lane that has sent the records that waited.
    pub(super) fn remove(&mut self, lane: LaneIndex) {
        self.fresh.remove(lane);
        self.seen.remove(lane);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.seen.is_empty()
    }

    /// Returns the time at which to call [`Self::take_due`] again, as determined by its last call.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Moves the lanes that have waited long enough into `due`: a lane waits in `fresh` until the
    /// next tick, and then in `seen` for one more.
    pub(super) fn take_due(&mut self, now: Instant, due: &mut LaneSet) {
        if self.is_empty() {
            self.next = None;
            return;
        }
        if *self.next.get_or_insert(now + self.tick) > now {
            return;
        }
        due.add_all(&self.seen);
        self.seen.clear();
        core::mem::swap(&mut self.seen, &mut self.fresh);
        self.next = (!self.seen.is_empty()).then(|| now + self.tick);
    }
}
