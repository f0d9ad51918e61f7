//! [`Repeats`]: what the last fragments of readout were, to tell a repeated fragment from another
//! one with the same event id.

#[cfg(test)]
mod tests;

use crate::{
    fragment::{Checksum, Fragment, Timestamp},
    id::{EventId, SourceId},
    wire::control::{ContradictionReport, SourceReport},
};

/// Number of fragments that a source remembers after they have gone to a builder.
const REMEMBERED: u32 = 1 << 16;

/// Result of the comparison of a fragment with the remembered fragment of the same event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// The first fragment of the event.
    New,
    /// The remembered fragment has the same payload and timestamp.
    Same,
    /// The remembered fragment has another payload or timestamp; its timestamp.
    Other(Timestamp),
    /// Fragments of events as old as this one are no longer remembered.
    Forgotten,
}

impl Compared {
    /// Counts a fragment that is dropped, because readout has pushed one of its event before.
    pub(super) fn count(self, seen: &Seen, source: SourceId, counters: &mut SourceReport) {
        match self {
            Self::Same => counters.repeats += 1,
            Self::Other(first) => {
                counters.contradictions += 1;
                if counters.contradiction.is_none() {
                    let found = seen.contradicts(first);
                    let event = found.event;
                    tracing::warn!(%source, event, "the readout of this source sent two different fragments for event {event}, of which evb keeps the first; correct the readout, which may have used an event id twice");
                    counters.contradiction = Some(found);
                }
            }
            Self::New | Self::Forgotten => counters.repeats_not_compared += 1,
        }
    }
}

/// The facts about a fragment that are remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    event: EventId,
    timestamp: Timestamp,
    checksum: Checksum,
}

impl Seen {
    pub(super) fn of(fragment: &Fragment) -> Self {
        Self::at(fragment.event, fragment)
    }

    /// Returns the facts about a fragment of that event.
    pub(super) fn at(event: EventId, fragment: &Fragment) -> Self {
        Self { event, timestamp: fragment.timestamp, checksum: fragment.checksum }
    }

    /// Returns the entry of the report for this fragment, which differs from the first one of its
    /// event.
    pub(super) fn contradicts(&self, first: Timestamp) -> ContradictionReport {
        ContradictionReport {
            event: self.event.number(),
            first_timestamp: first.ticks(),
            second_timestamp: self.timestamp.ticks(),
        }
    }
}

/// The last [`REMEMBERED`] fragments, found by their event ids.
///
/// Every push adds a fragment, and only a repeat looks for one. So the fragments stand in a ring in
/// the order of their arrival, and those whose ids end with the same bits form a list, from the
/// newest to the oldest.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    ring: Vec<RepeatPlace>,
    /// Number of fragments that came so far, modulo 2³².
    count: u32,
    /// Number of the newest fragment for each end of an event id.
    newest: Vec<u32>,
    /// Highest event id of a fragment that left the ring.
    forgotten: EventId,
}

#[derive(Clone, Copy, Debug)]
struct RepeatPlace {
    seen: Seen,
    /// Number of the next older fragment whose id ends with the same bits.
    older: u32,
}

impl Repeats {
    /// Remembers a fragment, and forgets the oldest one if there is no room.
    #[inline]
    pub(super) fn remember(&mut self, seen: Seen) {
        if self.newest.is_empty() {
            self.newest = vec![0; REMEMBERED as usize];
        }
        let newest = &mut self.newest[end(seen.event)];
        let place = RepeatPlace { seen, older: core::mem::replace(newest, self.count) };
        match self.ring.get_mut(position(self.count)) {
            Some(oldest) => {
                self.forgotten = self.forgotten.max(oldest.seen.event);
                *oldest = place;
            }
            None => self.ring.push(place),
        }
        self.count = self.count.wrapping_add(1);
    }

    /// Compares a fragment with the newest remembered one of the same event.
    pub(super) fn compare(&self, seen: &Seen) -> Compared {
        let mut number = self.newest.get(end(seen.event)).copied().unwrap_or_default();
        let mut age = 0;
        // A number that was overwritten, or was never set, leads to a fragment that is too old, not
        // older than the one before it, or of another event.
        while let Some(place) = self.place(number, age) {
            if place.seen.event == seen.event {
                let same = (place.seen.checksum, place.seen.timestamp) == (seen.checksum, seen.timestamp);
                return if same { Compared::Same } else { Compared::Other(place.seen.timestamp) };
            }
            age = self.count.wrapping_sub(number);
            number = place.older;
        }
        if seen.event <= self.forgotten { Compared::Forgotten } else { Compared::New }
    }

    /// Returns the place with that number, if it is still in the ring and came earlier than the
    /// fragment of that age.
    fn place(&self, number: u32, age: u32) -> Option<&RepeatPlace> {
        let own = self.count.wrapping_sub(number);
        (own > age && own as usize <= self.ring.len()).then(|| &self.ring[position(number)])
    }
}

/// Returns the last bits of an event id.
fn end(event: EventId) -> usize {
    event.number() as usize % REMEMBERED as usize
}

/// Returns the position in the ring of the fragment with that number.
fn position(number: u32) -> usize {
    (number % REMEMBERED) as usize
}
