//! [`RecentReadings`]: the timestamps of the source's last events, and the supervisor's question
//! for them.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{
    alignment::{ReadingRing, readings_message},
    fragment::Timestamp,
    id::EventId,
    time::Instant,
    wire::control::{Readings, ReadingsWanted},
};

/// Time after which a question is answered although the fragment it waits for has not come.
const PATIENCE: Duration = Duration::from_secs(2);

/// The ring of a source whose timestamps are compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentReadings {
    ring: ReadingRing,
    /// The supervisor's question, and the latest time of the answer.
    wanted: Option<(ReadingsWanted, Instant)>,
    answer: Option<Readings>,
}

impl RecentReadings {
    /// Adds the timestamp of a fragment. The answer to a question that waits for it contains the
    /// events before it, however many follow at once.
    #[inline]
    pub(crate) fn add(&mut self, event: EventId, timestamp: Timestamp) {
        self.ring.push(event, timestamp);
        if self.wanted.is_some_and(|(wanted, _)| wanted.event <= event.number()) {
            self.answer();
        }
    }

    /// Takes a question, in place of an earlier one.
    pub(crate) fn handle_wanted(&mut self, wanted: ReadingsWanted, now: Instant) {
        self.wanted = Some((wanted, now + PATIENCE));
        let newest = self.ring.iter().next().map_or(0, |(event, _)| event.number());
        if wanted.event <= newest {
            self.answer();
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.answer();
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.wanted.map(|(_, due)| due)
    }

    /// Returns the answer to the supervisor, once.
    pub(crate) fn take_answer(&mut self) -> Option<Readings> {
        self.answer.take()
    }

    fn answer(&mut self) {
        let Some((wanted, _)) = self.wanted.take() else { return };
        let readings = self.ring.iter().map(|(event, timestamp)| (event.number(), timestamp.ticks()));
        self.answer = Some(readings_message(wanted.question, readings));
    }
}
