//! [`Filter`]: accept or reject built events before the sink, as a software trigger does.

mod parallel;
mod process;
#[cfg(test)]
mod tests;

pub use evb_core::wire::control::FilterReport;
use evb_core::{event::Event, id::SourceId};
use evb_file::FileIdentity;

pub use parallel::ParallelFilter;
#[cfg(all(target_os = "linux", feature = "fuzzing"))]
pub use process::fuzzing;
pub use process::{OnFailure, ProcessError, ProcessFilter, ProcessOptions, RECORD_LIMIT};

/// A filter's decision about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// The event goes to the sink.
    Accept,
    /// The event goes to the sink with this number as its [`Event::tag`].
    Tag(u64),
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

impl FilterVerdict {
    /// Returns true if the event goes on.
    pub const fn is_accepting(&self) -> bool {
        matches!(self, Self::Accept | Self::Tag(_))
    }

    /// Adds the verdict of the next filter on an event that goes on. An earlier tag stays unless
    /// the next filter gives another.
    fn followed_by(&mut self, next: Self) {
        if next != Self::Accept {
            *self = next;
        }
    }
}

/// Judges every built event before the sink. A filter runs on the sink's thread and may keep state.
/// A slow filter causes back-pressure, as a slow sink does; [`ParallelFilter`] uses several
/// threads.
///
/// ```
/// use evb::{
///     filter::{Filter, FilterVerdict},
///     prelude::*,
/// };
///
/// /// Accepts events as long as a payload budget lasts.
/// struct Budget(Bytes);
///
/// impl Filter for Budget {
///     fn verdict(&mut self, event: &Event) -> FilterVerdict {
///         let size = event.payload_size();
///         if size > self.0 {
///             return FilterVerdict::Reject;
///         }
///         self.0 -= size;
///         FilterVerdict::Accept
///     }
/// }
///
/// let mut event = Event::default();
/// event.add(SourceId::new(1), Timestamp::new(0), "12 bytes now".into());
/// let mut budget = Budget(Bytes::new(20));
/// assert_eq!(budget.verdict(&event), FilterVerdict::Accept);
/// assert_eq!(budget.verdict(&event), FilterVerdict::Reject);
/// ```
pub trait Filter: Send + 'static {
    /// Decides whether this event goes to the sink.
    fn verdict(&mut self, event: &Event) -> FilterVerdict;

    /// Decides about several events, which are all that wait for the filter, and returns a verdict
    /// for each in their order. An event without a verdict is lost.
    fn verdicts(&mut self, events: &[Event]) -> Vec<FilterVerdict> {
        events.iter().map(|event| self.verdict(event)).collect()
    }

    /// Learns which run begins, before its first event. By default, a filter does not care.
    fn begin(&mut self, _run: &FileIdentity) {}

    /// Returns what the filter's processes have done in this run; `None` if it has none, as by
    /// default. Is called about once a second, also while no event waits.
    fn report(&mut self) -> Option<FilterReport> {
        None
    }
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
///
/// ```
/// use evb::{
///     filter::{Filter, FilterVerdict, Prescale},
///     prelude::*,
/// };
///
/// let mut prescale = Prescale::new(100);
/// let ids = (1..=1000).map(EventId::new);
/// let kept = ids.filter(|id| {
///     let mut event = Event::default();
///     event.id = *id;
///     prescale.verdict(&event) == FilterVerdict::Accept
/// });
/// assert_eq!(kept.count(), 10);
/// ```
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
///
/// ```
/// use evb::{
///     event::{Cause, MissingSource},
///     filter::{Filter, FilterVerdict, Prescale, RequireComplete},
///     prelude::*,
/// };
///
/// // One complete event in two goes to the sink.
/// let mut filters: Vec<Box<dyn Filter>> =
///     vec![Box::new(RequireComplete), Box::new(Prescale::new(2))];
/// let mut event = Event::default();
/// event.id = EventId::new(2);
/// assert_eq!(filters.verdict(&event), FilterVerdict::Accept);
/// event.missing.push(MissingSource::new(SourceId::new(7), Cause::Down));
/// assert_eq!(filters.verdict(&event), FilterVerdict::Reject);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RequireComplete;

impl Filter for RequireComplete {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        if event.is_complete() { FilterVerdict::Accept } else { FilterVerdict::Reject }
    }
}

/// Rejects events without a fragment of any source of the run: also events that are complete
/// without an excluded or expendable source.
///
/// ```
/// use evb::{
///     event::{Cause, MissingSource},
///     filter::{Filter, FilterVerdict, RequireComplete, RequireWhole},
///     prelude::*,
/// };
///
/// let mut event = Event::default();
/// event.absent.push(MissingSource::new(SourceId::new(7), Cause::Excluded));
/// assert_eq!(RequireComplete.verdict(&event), FilterVerdict::Accept);
/// assert_eq!(RequireWhole.verdict(&event), FilterVerdict::Reject);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RequireWhole;

impl Filter for RequireWhole {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        if event.is_whole() { FilterVerdict::Accept } else { FilterVerdict::Reject }
    }
}

/// Rejects events of which a fragment is known to belong to another event.
///
/// ```
/// use evb::{
///     event::Alignment,
///     filter::{Filter, FilterVerdict, RequireAligned},
///     prelude::*,
/// };
///
/// let mut event = Event::default();
/// event.add(SourceId::new(7), Timestamp::new(1), "data".into());
/// event.set_alignment(SourceId::new(7), Alignment::Unknown);
/// assert_eq!(RequireAligned.verdict(&event), FilterVerdict::Accept);
/// event.set_alignment(SourceId::new(7), Alignment::Disagrees);
/// assert_eq!(RequireAligned.verdict(&event), FilterVerdict::Reject);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RequireAligned;

impl Filter for RequireAligned {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        if event.is_aligned() { FilterVerdict::Accept } else { FilterVerdict::Reject }
    }
}

/// Applies the filters one after the other; the first filter that does not accept the event
/// decides. The last tag counts.
impl Filter for Vec<Box<dyn Filter>> {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        let mut verdict = FilterVerdict::Accept;
        for filter in self {
            if verdict.is_accepting() {
                verdict.followed_by(filter.verdict(event));
            }
        }
        verdict
    }

    /// Accepts the events that all filters accept; others have the verdict of the first that does
    /// not.
    fn verdicts(&mut self, events: &[Event]) -> Vec<FilterVerdict> {
        let mut verdicts = vec![FilterVerdict::Accept; events.len()];
        for filter in self {
            // Each filter judges the events that all filters before it have accepted, as many at a
            // time as are one behind the other.
            let mut begin = 0;
            for run in verdicts.chunk_by_mut(|a, b| a.is_accepting() == b.is_accepting()) {
                let events = &events[begin..begin + run.len()];
                begin += run.len();
                if run[0].is_accepting() {
                    let mut judged = filter.verdicts(events).into_iter();
                    for (verdict, event) in run.iter_mut().zip(events) {
                        verdict.followed_by(judged.next().unwrap_or_else(|| filter.verdict(event)));
                    }
                }
            }
        }
        verdicts
    }

    fn begin(&mut self, run: &FileIdentity) {
        self.iter_mut().for_each(|filter| filter.begin(run));
    }

    fn report(&mut self) -> Option<FilterReport> {
        self.iter_mut().find_map(|filter| filter.report())
    }
}
