//! [`Troubles`]: the failures of workers and the events without a verdict, joined for the log.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use evb_core::{
    id::{EventId, ranges},
    quantities::counted,
};

use super::OnFailure;

/// Least time between two warnings.
const PERIOD: Duration = Duration::from_secs(10);

/// Number of events that a warning can name.
const NAMED: usize = 1000;

/// Failures that the log does not tell yet.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// Failures since the last warning.
    failures: u64,
    /// The latest failure.
    latest: String,
    events: Vec<u64>,
    /// Events beyond those.
    more: u64,
    said: Option<Instant>,
}

impl Troubles {
    pub(super) fn note(&mut self, what: String) {
        self.failures += 1;
        self.latest = what;
    }

    pub(super) fn note_event(&mut self, event: EventId) {
        if self.events.len() < NAMED {
            self.events.push(event.number());
        } else {
            self.more += 1;
        }
    }

    /// Returns the latest failure; empty if there was none.
    pub(super) fn latest(&self) -> &str {
        &self.latest
    }

    /// Warns of what is new, if the last warning is old.
    pub(super) fn say(&mut self, on_failure: OnFailure, now: Instant) {
        if self.said.is_none_or(|said| now.duration_since(said) >= PERIOD) {
            self.said = (self.failures > 0 || !self.events.is_empty()).then_some(now).or(self.said);
            self.say_all(on_failure);
        }
    }

    /// Warns of what is new.
    pub(super) fn say_all(&mut self, on_failure: OnFailure) {
        let latest = &self.latest;
        match std::mem::take(&mut self.failures) {
            0 => {}
            1 => tracing::warn!(
                "a worker of this builder's filter has failed: {latest}; evb starts it again and gives its events to another worker: correct the program if this comes back"
            ),
            failures => tracing::warn!(
                failures,
                "workers of this builder's filter have failed {failures} times, at last: {latest}; evb starts them again and gives their events to other workers: correct the program"
            ),
        }
        if !self.events.is_empty() {
            self.events.sort_unstable();
            let count = counted(self.events.len() as u64 + self.more, "event");
            let (events, done) = (ranges(self.events.drain(..)), on_failure.in_words());
            tracing::warn!(
                "the filter of this builder did not judge {count} ({events}), which `on_failure` has {done}"
            );
            self.more = 0;
        }
    }
}
