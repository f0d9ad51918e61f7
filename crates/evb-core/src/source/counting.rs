//! [`Counting`]: the widening of the raw trigger counters that readout pushes in place of event
//! ids.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::{
    backlog::Backlog,
    repeats::{Compared, Repeats, Seen},
};
use crate::{
    alignment::{Misfit, TriggerCounter, Widened, Widener},
    fragment::Fragment,
    id::{EventId, SourceId},
    time::Instant,
    wire::control::SourceReport,
};

/// Shortest time between two lines of the log about fragments without a place.
const PAUSE: Duration = Duration::from_secs(10);

/// The counter of a source's boards.
#[derive(Debug)]
pub(super) struct Counting {
    source: SourceId,
    counter: TriggerCounter,
    /// The last event that was decided before the source joined.
    joined: EventId,
    widener: Widener,
    /// Earliest time of the next line of the log.
    next_line: Option<Instant>,
    /// Number of fragments without a place since the last line.
    unlogged: u64,
}

impl Counting {
    pub(super) fn new(source: SourceId, counter: TriggerCounter, joined: EventId) -> Self {
        let widener = Widener::new(counter, joined);
        Self { source, counter, joined, widener, next_line: None, unlogged: 0 }
    }

    /// Forgets all values, because the run has not begun.
    pub(super) fn begin_anew(&mut self) {
        self.widener = Widener::new(self.counter, self.joined);
    }

    /// Returns the event of a fragment with a raw counter; `None` if it has no place. Counts what
    /// the counter shows. `backlog` knows the decisions, and `repeats` the last fragments.
    pub(super) fn event_of(
        &mut self,
        fragment: &Fragment,
        backlog: &Backlog,
        repeats: &Repeats,
        counters: &mut SourceReport,
        now: Instant,
    ) -> Option<EventId> {
        let raw = fragment.event.number();
        let decided = EventId::new(backlog.undecided().number() - 1);
        let is_same = |event| repeats.compare(&Seen::at(event, fragment)) == Compared::Same;
        let (due, expected) = self.widener.expected();
        match self.widener.widen(raw, decided, is_same) {
            Widened::Next(event) | Widened::Repeat(event) => Some(event),
            Widened::Late(event) => {
                counters.counter_late += 1;
                Some(event)
            }
            Widened::Gap { event, missing } => {
                counters.counter_gaps += 1;
                counters.counter_skipped = counters.counter_skipped.saturating_add(missing);
                if missing == 1 && expected == Some(0) {
                    if counters.counter_zero_skips == 0 {
                        tracing::warn!(source = %self.source, event = event.number(), raw, "the trigger counter of this source's board wrapped to {raw} without reading 0 first: either the board missed event {due}, and only that event lacks its fragment, or its counter never reads 0, and all fragments from here on are one event too late; compare its timestamps with other sources, and if the counter never reads 0, use one with more bits");
                    }
                    counters.counter_zero_skips += 1;
                }
                Some(event)
            }
            Widened::Misfit(misfit) => {
                match misfit {
                    Misfit::Reset { is_new, .. } => {
                        counters.counter_resets += u64::from(is_new && !self.widener.is_fresh());
                        counters.unplaced += 1;
                    }
                    Misfit::NoStart => counters.unplaced += 1,
                    Misfit::LostWrap => counters.lost_wraps += 1,
                    Misfit::OffStep | Misfit::TooLarge => counters.counter_invalid += 1,
                }
                self.log(misfit, raw, decided, now);
                None
            }
        }
    }

    /// Writes a line about a fragment without a place, unless there was one recently.
    fn log(&mut self, misfit: Misfit, raw: u64, decided: EventId, now: Instant) {
        self.unlogged += 1;
        if self.next_line.is_some_and(|next| now < next) {
            return;
        }
        self.next_line = Some(now + PAUSE);
        let count = core::mem::take(&mut self.unlogged);
        let (due, _) = self.widener.expected();
        let text = self.explain(misfit, decided);
        tracing::warn!(source = %self.source, raw, event = due.number(), count, "a fragment of this source has no event and is not used ({count} since the last such line): its trigger counter reads {raw}, {text}");
    }

    /// Returns what is wrong with a value, and what to do. It follows "its counter reads 7,".
    fn explain(&self, misfit: Misfit, decided: EventId) -> String {
        let (due, expected) = self.widener.expected();
        let expected = expected.map_or_else(|| "any value".to_owned(), |value| value.to_string());
        let TriggerCounter { bits, step, .. } = self.counter;
        match misfit {
            Misfit::Reset { .. } if self.widener.is_fresh() => format!(
                "but {expected} was due for event {due}, so the board was not reset before the run: reset it before each run, or correct `first` of its `counter`"
            ),
            Misfit::Reset { distance, .. } => format!(
                "but {expected} was due for event {due}: it is off by {distance} triggers, so the board was reset, or missed more triggers than its counter can prove; reset it only between two runs, and start a new run"
            ),
            Misfit::LostWrap => format!(
                "which may mean several events, because {expected} was due for event {due} and event {decided} is decided: find out why the board was silent, declare a counter with more bits if it has one, and start a new run"
            ),
            Misfit::NoStart => format!(
                "and first = \"any\" does not say for which event, because this source joined the run after event {}: reset the board before each run and write its first value, or start a new run",
                self.joined
            ),
            Misfit::OffStep => format!(
                "but {expected} was due for event {due}, and the counter grows in steps of {step}: correct `step`, or what the board sends"
            ),
            Misfit::TooLarge => {
                format!("but a counter has {bits} bits: correct `bits`, or what the board sends")
            }
        }
    }

    pub(super) fn invariants(&self) {
        self.widener.invariants();
    }
}
