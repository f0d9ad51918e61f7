//! [`Unaccounted`]: events that have ended at a builder and are not yet in the supervisor's ledger.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    event::MissingSource,
    id::EventId,
    index::LaneIndex,
    wire::control::{Completions, Exception, MAX_EXCEPTIONS, MAX_MISSING},
};

/// Most complete events in one message, which keeps the message far below
/// [`MAX_MESSAGE`](crate::wire::control::MAX_MESSAGE).
const MAX_COMPLETE: usize = 1 << 16;

/// Marker instead of a lane offset for fragments that arrived on a lane that has been replaced.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Ended events in the order in which they are numbered for the ledger, and the lane offsets of
/// their fragments. Two rings hold the entries and offsets of all events, so that an event needs no
/// allocation of its own, even at a high event rate.
///
/// Requirements: docs/reference/protocol.md RUN-20.
#[derive(Debug, Default)]
pub(super) struct Unaccounted {
    entries: VecDeque<UnaccountedEvent>,
    /// Lane and start offset of each fragment, in the order of `entries`.
    starts: VecDeque<(u16, u64)>,
    /// Events with an exception; in the next message they follow the complete events.
    behind: VecDeque<UnaccountedEvent>,
    behind_starts: VecDeque<(u16, u64)>,
    /// Number of completions in the supervisor's ledger, which is also the number of the first
    /// entry.
    accounted: u64,
    /// The outcome of the last complete event without some sources, which the next one may share.
    last_without: Option<Arc<Outcome>>,
    /// Number of `entries` that have been sent on the present connection.
    said: usize,
}

#[derive(Debug)]
struct UnaccountedEvent {
    event: EventId,
    /// Number of the event's fragments.
    starts: u16,
    /// Outcome of the event; `None` if it is complete with a fragment of every source.
    outcome: Option<Arc<Outcome>>,
}

/// Outcome of an event that lacks fragments.
#[derive(Debug)]
enum Outcome {
    /// The event is complete without these sources, which did not owe it a fragment.
    Without(Box<[MissingSource]>),
    /// The event ended with an exception.
    Except(Exception),
}

impl Unaccounted {
    /// Adds a complete event that the sink has accepted; `absent` are the sources that did not owe
    /// it a fragment, and contributed none.
    pub(super) fn complete(
        &mut self,
        event: EventId,
        absent: &[MissingSource],
        starts: impl Iterator<Item = (usize, u64)>,
    ) {
        let starts = extend(&mut self.starts, starts);
        let outcome = if absent.is_empty() { None } else { Some(self.share(absent)) };
        self.entries.push_back(UnaccountedEvent { event, starts, outcome });
    }

    /// Returns an outcome that neighbours with equal lists share.
    #[cold]
    fn share(&mut self, absent: &[MissingSource]) -> Arc<Outcome> {
        match &self.last_without {
            Some(last) if matches!(&**last, Outcome::Without(known) if **known == *absent) => {
                Arc::clone(last)
            }
            _ => Arc::clone(self.last_without.insert(Arc::new(Outcome::Without(absent.into())))),
        }
    }

    /// Adds an event that ended with an exception: incomplete, rejected or lost.
    pub(super) fn except(&mut self, exception: Exception, starts: impl Iterator<Item = (usize, u64)>) {
        let starts = extend(&mut self.behind_starts, starts);
        let event = EventId::new(exception.event);
        let outcome = Some(Arc::new(Outcome::Except(exception)));
        self.behind.push_back(UnaccountedEvent { event, starts, outcome });
    }

    /// Returns the number of events that are not in the ledger yet.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.behind.len()
    }

    /// Returns true if the supervisor's ledger has all events.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ids of the events, ascending.
    pub(super) fn events(&self) -> Vec<EventId> {
        let mut events: Vec<_> = self.entries.iter().chain(&self.behind).map(|entry| entry.event).collect();
        events.sort_unstable();
        events
    }

    /// Returns the next message, if any event has not been sent: complete events, then exceptions,
    /// in the order of their numbers.
    pub(super) fn next_message(&mut self) -> Option<Completions> {
        self.entries.append(&mut self.behind);
        self.starts.append(&mut self.behind_starts);
        if self.said == self.entries.len() {
            return None;
        }
        let mut message = Completions { before: self.accounted + self.said as u64, ..Completions::default() };
        let (mut last, mut missing_sources) = (EventId::default(), 0);
        for entry in self.entries.range(self.said..) {
            let is_next_complete = message.exceptions.is_empty() && message.complete.len() < MAX_COMPLETE;
            match entry.outcome.as_deref() {
                None if is_next_complete => {
                    message.add(&mut last, entry.event);
                    message.add_absent(&[]);
                }
                Some(Outcome::Without(absent))
                    if is_next_complete && missing_sources + absent.len() <= MAX_MISSING =>
                {
                    missing_sources += absent.len();
                    message.add(&mut last, entry.event);
                    message.add_absent(absent);
                }
                Some(Outcome::Except(exception))
                    if message.exceptions.len() < MAX_EXCEPTIONS
                        && missing_sources + exception.missing.len() <= MAX_MISSING =>
                {
                    missing_sources += exception.missing.len();
                    message.exceptions.push(Exception::clone(exception));
                }
                // The message is full, or the other kind of entry follows.
                _ => break,
            }
            self.said += 1;
        }
        Some(message)
    }

    /// Marks all events as not sent, because a new connection to the supervisor begins.
    pub(super) fn say_again(&mut self) {
        self.said = 0;
    }

    /// Removes the events that the ledger has, by the number of completions that it reports. Calls
    /// `settle` for each fragment of these events. Returns false if this builder has sent fewer
    /// completions.
    pub(super) fn handle_accounted(
        &mut self,
        completions: u64,
        mut settle: impl FnMut(LaneIndex, u64),
    ) -> bool {
        let newly_accounted = completions.saturating_sub(self.accounted);
        if newly_accounted > self.entries.len() as u64 {
            return false;
        }
        for _ in 0..newly_accounted {
            let Some(entry) = self.entries.pop_front() else { break };
            // `drain` would be slower here: it costs more per event than it saves.
            for (lane, start) in core::iter::from_fn(|| self.starts.pop_front()).take(entry.starts.into()) {
                settle(LaneIndex::new(lane.into()), start);
            }
        }
        self.accounted += newly_accounted;
        self.said = self.said.saturating_sub(newly_accounted as usize);
        true
    }

    /// Voids the lane offsets of fragments on a lane that begins again at 0: the source forgets the
    /// old lane, so no commit of its offsets is needed.
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
