//! [`Filter`]: accept or reject built events before the sink, as a software trigger does.

use evb_core::{event::Event, id::SourceId};

/// A filter's decision about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// The event goes to the sink.
    Accept,
    /// The event is counted as rejected and not given to the sink.
    Reject,
    /// A fragment's content is wrong: the event is counted as lost, and the ledger names the
    /// fragment's source.
    Corrupt {
        /// The fragment's source.
        source_id: SourceId,
        /// Description of the problem.
        problem: String,
    },
}

/// Judges every built event before the sink. A filter runs on the sink's thread and may keep state.
/// A slow filter causes back-pressure, as a slow sink does.
pub trait Filter: Send + 'static {
    /// Decides whether this event goes to the sink.
    fn verdict(&mut self, event: &Event) -> FilterVerdict;
}

impl<F: FnMut(&Event) -> FilterVerdict + Send + 'static> Filter for F {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        self(event)
    }
}

/// Accepts every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Filter for AcceptAll {
    fn verdict(&mut self, _event: &Event) -> FilterVerdict {
        FilterVerdict::Accept
    }
}

/// Accepts one event in `keep_every`, chosen by event id, so that all builders of a run keep the
/// same events.
#[derive(Clone, Copy, Debug)]
pub struct Prescale {
    keep_every: u64,
}

impl Prescale {
    /// Keeps events whose id is a multiple of `keep_every` (at least 1).
    pub fn new(keep_every: u64) -> Self {
        Self { keep_every: keep_every.max(1) }
    }
}

impl Filter for Prescale {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        if event.id.number().is_multiple_of(self.keep_every) {
            FilterVerdict::Accept
        } else {
            FilterVerdict::Reject
        }
    }
}

/// Accepts complete events only.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequireComplete;

impl Filter for RequireComplete {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        if event.is_complete() { FilterVerdict::Accept } else { FilterVerdict::Reject }
    }
}

/// Applies the filters one after the other; the first filter that does not accept the event
/// decides.
impl Filter for Vec<Box<dyn Filter>> {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        let verdicts = self.iter_mut().map(|filter| filter.verdict(event));
        verdicts
            .into_iter()
            .find(|verdict| *verdict != FilterVerdict::Accept)
            .unwrap_or(FilterVerdict::Accept)
    }
}
