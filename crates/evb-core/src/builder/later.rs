//! [`Later`]: lanes that have something to say which may wait for something else to go along with.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{index::LaneIndex, set::LaneSet, time::Instant};

/// Lanes in two lots: those that came in since the last tick, and those that saw it. At a tick, who has seen one before has
/// waited for one to two ticks, and waits no more. So nobody needs a time of its own, and many leave at once.
#[derive(Clone, Debug)]
pub(super) struct Later {
    fresh: LaneSet,
    seen: LaneSet,
    tick: Duration,
    next: Option<Instant>,
}

impl Later {
    /// None waits. None will wait for longer than `most`, and none is let go before half of it.
    pub(super) fn new(most: Duration) -> Self {
        Self { fresh: LaneSet::default(), seen: LaneSet::default(), tick: most / 2, next: None }
    }

    /// That lane waits, if it does not already.
    pub(super) fn insert(&mut self, lane: LaneIndex) {
        if !self.seen.contains(lane) {
            self.fresh.insert(lane);
        }
    }

    /// That lane has said it.
    pub(super) fn remove(&mut self, lane: LaneIndex) {
        self.fresh.remove(lane);
        self.seen.remove(lane);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.seen.is_empty()
    }

    /// When to call [`Self::take_due`], as far as it has been called.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Those that wait no more.
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
