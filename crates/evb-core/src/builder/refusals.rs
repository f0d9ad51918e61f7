//! [`Refusals`]: announced fragments that a builder could not take, because their event was not
//! assigned and had no slot.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::{id::EventId, set::SourceSet};

/// Most refused fragments that a builder remembers.
const REMEMBERED: usize = 1 << 12;

/// The latest fragments that were refused, as event and source. If such an event is assigned later,
/// it names the fragment as refused, and not the source as silent.
#[derive(Debug, Default)]
pub(super) struct Refusals(VecDeque<(EventId, usize)>);

impl Refusals {
    /// Notes a refused fragment, and forgets the oldest one if there are too many.
    pub(super) fn note(&mut self, event: EventId, source: usize) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((event, source));
    }

    /// Returns the sources whose fragments of that event were refused.
    pub(super) fn of(&self, event: EventId) -> SourceSet {
        let of_event = self.0.iter().filter(|(refused, _)| *refused == event);
        of_event.map(|(_, source)| *source).collect()
    }

    /// Forgets the fragments of a source that restarted. It announces again those that it still
    /// has.
    pub(super) fn forget(&mut self, source: usize) {
        self.0.retain(|(_, of)| *of != source);
    }
}
