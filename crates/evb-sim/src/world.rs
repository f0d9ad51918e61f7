//! [`World`]: virtual time, and what happens next.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

use evb_core::time::Instant;

/// What is to happen, in the order of time; at the same instant, in the order in which it was said.
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
    /// At time zero, with nothing to happen.
    pub(crate) fn new() -> Self {
        Self { now: Instant::ZERO, sequence: 0, agenda: BinaryHeap::new() }
    }

    /// Virtual time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// `happening` comes at `at`; now, where that is past.
    pub(crate) fn schedule(&mut self, at: Instant, happening: H) {
        let (at, sequence) = (at.max(self.now), self.sequence);
        self.sequence += 1;
        self.agenda.push(Entry { at, sequence, happening });
    }

    /// Moves time on to the next happening.
    pub(crate) fn advance(&mut self) -> Option<H> {
        let next = self.agenda.pop()?;
        self.now = next.at;
        Some(next.happening)
    }

    /// How many happenings there were and are to come.
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
    /// The heap gives the greatest first: the earliest must be the greatest.
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
