//! [`World`]: virtual time, and the schedule of future happenings.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

use evb_core::time::Instant;

/// The schedule, in the order of time; happenings at the same instant are in the order in which
/// they were scheduled.
#[derive(Debug)]
pub(crate) struct World<H> {
    now: Instant,
    sequence: u64,
    agenda: BinaryHeap<Entry<H>>,
}

#[derive(Debug)]
struct Entry<H> {
    at: Instant,
    sequence: u64,
    happening: H,
}

impl<H> World<H> {
    /// Creates a world at time zero, with an empty schedule.
    pub(crate) fn new() -> Self {
        Self { now: Instant::ZERO, sequence: 0, agenda: BinaryHeap::new() }
    }

    /// Returns the virtual time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Schedules `happening` at `at`, or now if that is in the past.
    pub(crate) fn schedule(&mut self, at: Instant, happening: H) {
        let (at, sequence) = (at.max(self.now), self.sequence);
        self.sequence += 1;
        self.agenda.push(Entry { at, sequence, happening });
    }

    /// Moves time on to the next happening, and returns it.
    pub(crate) fn advance(&mut self) -> Option<H> {
        let next = self.agenda.pop()?;
        self.now = next.at;
        Some(next.happening)
    }

    /// Returns the number of happenings so far, including the scheduled ones.
    pub(crate) fn count(&self) -> u64 {
        self.sequence
    }
}

impl<H> Default for World<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> Entry<H> {
    /// Returns the reversed order in time, because the heap returns the greatest first.
    fn key(&self) -> core::cmp::Reverse<(Instant, u64)> {
        core::cmp::Reverse((self.at, self.sequence))
    }
}

impl<H> PartialEq for Entry<H> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<H> Eq for Entry<H> {}

impl<H> PartialOrd for Entry<H> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for Entry<H> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests;
