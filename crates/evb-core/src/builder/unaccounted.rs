//! [`Unaccounted`]: events that this builder is done with, until the supervisor's ledger has them.

use std::collections::VecDeque;

use crate::{
    id::EventId,
    index::LaneIndex,
    wire::control::{Completions, Exception, MAX_EXCEPTIONS},
};

/// The most complete events in one message: keeps it far below [`MAX_MESSAGE`](crate::wire::control::MAX_MESSAGE).
const MAX_COMPLETE: usize = 1 << 16;

/// Where nothing begins: of a lane that is over.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Events in the order in which they are numbered, and where their fragments begin in their lanes. Two rings and no memory of
/// an event's own, so that small events at a high rate cost no allocation.
///
/// Requirements: docs/reference/protocol.md RUN-20.
#[derive(Debug, Default)]
pub(super) struct Unaccounted {
    entries: VecDeque<Entry>,
    /// Lane and start of their fragments, in the same order.
    starts: VecDeque<(u16, u64)>,
    /// Exceptions that go behind the complete events of the next message, and their fragments.
    behind: VecDeque<Entry>,
    behind_starts: VecDeque<(u16, u64)>,
    /// How many are in the ledger: the number of the first entry.
    accounted: u64,
    /// How many of `entries` were said on this connection.
    said: usize,
}

#[derive(Debug)]
struct Entry {
    event: EventId,
    /// How many fragments it has.
    starts: u16,
    /// What was not ordinary about it.
    exception: Option<Box<Exception>>,
}

impl Unaccounted {
    /// The sink has a complete event.
    pub(super) fn complete(&mut self, event: EventId, starts: impl Iterator<Item = (usize, u64)>) {
        let starts = extend(&mut self.starts, starts);
        self.entries.push_back(Entry { event, starts, exception: None });
    }

    /// An event ended otherwise.
    pub(super) fn except(&mut self, exception: Exception, starts: impl Iterator<Item = (usize, u64)>) {
        let starts = extend(&mut self.behind_starts, starts);
        let event = EventId::new(exception.event);
        self.behind.push_back(Entry { event, starts, exception: Some(Box::new(exception)) });
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.behind.len()
    }

    /// Whether the ledger has all.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their ids, ascending.
    pub(super) fn events(&self) -> Vec<EventId> {
        let mut events: Vec<_> = self.entries.iter().chain(&self.behind).map(|entry| entry.event).collect();
        events.sort_unstable();
        events
    }

    /// What is to be said next: complete events, then exceptions, in the order of their numbers.
    pub(super) fn next_message(&mut self) -> Option<Completions> {
        self.entries.append(&mut self.behind);
        self.starts.append(&mut self.behind_starts);
        if self.said == self.entries.len() {
            return None;
        }
        let mut message = Completions { before: self.accounted + self.said as u64, ..Completions::default() };
        let mut last = EventId::default();
        for entry in self.entries.range(self.said..) {
            match &entry.exception {
                None if message.exceptions.is_empty() && message.complete.len() < MAX_COMPLETE => {
                    message.add(&mut last, entry.event);
                }
                Some(exception) if message.exceptions.len() < MAX_EXCEPTIONS => {
                    message.exceptions.push(Exception::clone(exception));
                }
                _ => break,
            }
            self.said += 1;
        }
        Some(message)
    }

    /// All of them are to be said anew: the connection is another.
    pub(super) fn say_again(&mut self) {
        self.said = 0;
    }

    /// The ledger has so many of all that were ever completed; `settle` is called for each fragment that may be forgotten.
    /// False: so many were never completed.
    pub(super) fn handle_accounted(
        &mut self,
        completions: u64,
        mut settle: impl FnMut(LaneIndex, u64),
    ) -> bool {
        let news = completions.saturating_sub(self.accounted);
        if news > self.entries.len() as u64 {
            return false;
        }
        for _ in 0..news {
            let Some(entry) = self.entries.pop_front() else { break };
            // Not by `drain`, which costs more than what it brings, for each event.
            for (lane, start) in core::iter::from_fn(|| self.starts.pop_front()).take(entry.starts.into()) {
                settle(LaneIndex::new(lane.into()), start);
            }
        }
        self.accounted += news;
        self.said = self.said.saturating_sub(news as usize);
        true
    }

    /// A lane began anew: what its old fragments are told does not matter any more.
    pub(super) fn void(&mut self, lane: LaneIndex) {
        let starts = self.starts.iter_mut().chain(&mut self.behind_starts);
        starts.filter(|(of, _)| usize::from(*of) == lane.get()).for_each(|(_, start)| *start = NOWHERE);
    }
}

fn extend(starts: &mut VecDeque<(u16, u64)>, of_event: impl Iterator<Item = (usize, u64)>) -> u16 {
    let before = starts.len();
    of_event.for_each(|(lane, start)| starts.push_back((lane as u16, start)));
    (starts.len() - before) as u16
}

#[cfg(test)]
mod tests;
