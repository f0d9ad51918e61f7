//! [`World`]: the simulated time, and the queue of scheduled steps of a simulation.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

use evb_core::time::Instant;

/// The queue of scheduled steps, ordered by time. Steps at the same instant keep the order in which
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
    /// Creates an empty queue at time zero.
    pub(crate) fn new() -> Self {
        Self { now: Instant::ZERO, sequence: 0, agenda: BinaryHeap::new() }
    }

    /// Returns the simulated time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Schedules the step `happening` at the time `at`, or now if `at` is in the past.
    pub(crate) fn schedule(&mut self, at: Instant, happening: H) {
        let (at, sequence) = (at.max(self.now), self.sequence);
        self.sequence += 1;
        self.agenda.push(Entry { at, sequence, happening });
    }

    /// Advances the time to the next scheduled step, and returns the step.
    pub(crate) fn advance(&mut self) -> Option<H> {
        let next = self.agenda.pop()?;
        self.now = next.at;
        Some(next.happening)
    }

    /// Returns the number of steps scheduled since the start, including those that are still to
    /// come.
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
    /// Returns a key that reverses the order of time, because the heap returns the greatest entry
    /// first.
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
