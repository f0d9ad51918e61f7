//! [`ReadingRing`]: the timestamps of a source's last events, which the supervisor asks for when a
//! builder doubts a source.

use crate::{fragment::Timestamp, id::EventId};

/// Number of readings that a ring keeps: as many as fit in 4 KiB.
pub const RING_READINGS: usize = 240;

/// The last 240 event ids and timestamps of a source, in the order in which the fragments came.
#[derive(Clone, Debug)]
pub struct ReadingRing {
    readings: [(EventId, Timestamp); RING_READINGS],
    next: u32,
    count: u32,
}

impl Default for ReadingRing {
    fn default() -> Self {
        Self { readings: [(EventId::new(0), Timestamp::new(0)); RING_READINGS], next: 0, count: 0 }
    }
}

impl ReadingRing {
    /// Adds the reading of a fragment, in place of the oldest one.
    #[inline]
    pub fn push(&mut self, event: EventId, reading: Timestamp) {
        self.readings[self.next as usize] = (event, reading);
        self.next = (self.next + 1) % RING_READINGS as u32;
        self.count = (self.count + 1).min(RING_READINGS as u32);
    }

    /// Returns all readings, beginning with the one that came last.
    pub fn iter(&self) -> impl Iterator<Item = (EventId, Timestamp)> + '_ {
        let (count, next) = (self.count as usize, self.next as usize);
        (1..=count).map(move |back| self.readings[(next + RING_READINGS - back) % RING_READINGS])
    }

    /// Returns the timestamp of an event that is still in the ring. It tells a repeated fragment
    /// from another fragment with the same number.
    pub fn ticks_of(&self, event: EventId) -> Option<Timestamp> {
        self.iter().find(|(known, _)| *known == event).map(|(_, reading)| reading)
    }
}

#[cfg(test)]
mod tests;
