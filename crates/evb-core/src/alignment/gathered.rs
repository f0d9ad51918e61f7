//! [`Gathered`]: the readings that the supervisor has from the rings of sources, for one inquiry.

use crate::{fragment::Timestamp, id::EventId, index::ClockIndex, time::Instant};

/// Largest number of readings of a clock, and of trigger times.
const KEPT: usize = 1024;

/// The reading of a clock at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) event: u64,
    pub(super) ticks: u64,
}

/// The readings of an inquiry. Rings that were asked for one after the other are joined.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Readings of each clock, sorted by event.
    readings: Vec<Vec<Reading>>,
    /// Events and the times of their triggers, sorted by event.
    hosts: Vec<(u64, Instant)>,
}

impl Gathered {
    /// Creates an empty collection for that many clocks.
    pub fn new(clocks: usize) -> Self {
        Self { readings: vec![Vec::new(); clocks], hosts: Vec::new() }
    }

    /// Adds the ring of the source that has this clock. Of an event's readings, the first counts.
    pub fn add(&mut self, clock: ClockIndex, ring: impl IntoIterator<Item = (EventId, Timestamp)>) {
        if let Some(readings) = self.readings.get_mut(clock.get()) {
            let of_ring = |(event, timestamp): (EventId, Timestamp)| Reading {
                event: event.number(),
                ticks: timestamp.ticks(),
            };
            merge(readings, ring.into_iter().map(of_ring), |reading| reading.event);
        }
    }

    /// Returns true if no reading of any clock is there.
    pub fn is_empty(&self) -> bool {
        self.readings.iter().all(Vec::is_empty)
    }

    /// Adds the supervisor's times of triggers.
    pub fn add_hosts(&mut self, hosts: impl IntoIterator<Item = (EventId, Instant)>) {
        merge(
            &mut self.hosts,
            hosts.into_iter().map(|(event, host)| (event.number(), host)),
            |(event, _)| *event,
        );
    }

    /// Returns the readings of a clock, by event.
    pub(super) fn readings(&self, clock: ClockIndex) -> &[Reading] {
        self.readings.get(clock.get()).map_or(&[], Vec::as_slice)
    }

    /// Returns the time of an event's trigger on the host.
    pub(super) fn host(&self, event: u64) -> Option<Instant> {
        let at = self.hosts.binary_search_by_key(&event, |(known, _)| *known).ok()?;
        Some(self.hosts[at].1)
    }
}

/// Adds entries to a list that is sorted by event, and drops the oldest beyond [`KEPT`].
fn merge<T>(list: &mut Vec<T>, entries: impl Iterator<Item = T>, event_of: impl Fn(&T) -> u64) {
    list.extend(entries);
    list.sort_by_key(&event_of);
    list.dedup_by_key(|entry| event_of(entry));
    let beyond = list.len().saturating_sub(KEPT);
    list.drain(..beyond);
}

#[cfg(test)]
mod tests;
