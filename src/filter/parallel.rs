//! [`ParallelFilter`]: several threads that judge events at the same time.

#[cfg(test)]
mod tests;

use std::{
    panic,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use evb_core::event::Event;

use super::{Filter, FilterVerdict};

/// Judges events by several filters at the same time, each on a thread of its own: a third-level
/// trigger that takes milliseconds per event, on a host with many cores. Events reach the sink in
/// the order in which they were built.
///
/// Threads are started for each batch of waiting events, which takes tens of microseconds for each
/// thread; a single event is judged on the sink's thread. So a `ParallelFilter` pays where a
/// verdict takes longer than that.
///
/// ```
/// use evb::{
///     filter::{Filter, FilterVerdict, ParallelFilter},
///     prelude::*,
/// };
///
/// // Each thread has buffers of its own.
/// let reconstruct = |_thread: usize| {
///     let mut hits = Vec::new();
///     move |event: &Event| {
///         hits.clear();
///         hits.extend(event.fragments().map(|fragment| fragment.payload.len()));
///         match hits.iter().sum::<usize>() {
///             0..4 => FilterVerdict::Reject,
///             _ => FilterVerdict::Accept,
///         }
///     }
/// };
/// let mut filter = ParallelFilter::new((0..4).map(reconstruct));
/// let events = ["large", "tiny", "it"].map(|payload| {
///     let mut event = Event::default();
///     event.add(SourceId::new(1), Timestamp::new(0), payload.into());
///     event
/// });
/// let verdicts = filter.verdicts(&events);
/// assert_eq!(verdicts, [FilterVerdict::Accept, FilterVerdict::Accept, FilterVerdict::Reject]);
/// ```
#[derive(Clone, Debug)]
pub struct ParallelFilter<F> {
    filters: Vec<F>,
}

impl<F: Filter> ParallelFilter<F> {
    /// Creates a filter with a thread for each of `filters`. Each event is judged by one of them,
    /// so they must decide alike. Without any filter, every event is accepted.
    pub fn new(filters: impl IntoIterator<Item = F>) -> Self {
        Self { filters: filters.into_iter().collect() }
    }
}

impl<F: Filter> Filter for ParallelFilter<F> {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        self.filters.first_mut().map_or(FilterVerdict::Accept, |filter| filter.verdict(event))
    }

    /// Judges the events on this thread and on others, each of which takes the next event in turn.
    fn verdicts(&mut self, events: &[Event]) -> Vec<FilterVerdict> {
        let mut verdicts = vec![FilterVerdict::Accept; events.len()];
        let needed = self.filters.len().min(events.len());
        let Some((own, others)) = self.filters[..needed].split_first_mut() else { return verdicts };
        let next = &AtomicUsize::new(0);
        let judged = thread::scope(|scope| {
            // If the system refuses a thread, the others judge all events.
            let named = || thread::Builder::new().name("filter".to_owned());
            let threads: Vec<_> = others
                .iter_mut()
                .filter_map(|filter| named().spawn_scoped(scope, move || judge(filter, events, next)).ok())
                .collect();
            let mut judged = judge(own, events, next);
            for thread in threads {
                judged.extend(thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)));
            }
            judged
        });
        for (place, verdict) in judged {
            verdicts[place] = verdict;
        }
        verdicts
    }
}

/// Judges one event after the other that no other thread has taken; returns their places and
/// verdicts.
fn judge(filter: &mut impl Filter, events: &[Event], next: &AtomicUsize) -> Vec<(usize, FilterVerdict)> {
    let take = || {
        let place = next.fetch_add(1, Ordering::Relaxed);
        events.get(place).map(|event| (place, event))
    };
    std::iter::from_fn(take).map(|(place, event)| (place, filter.verdict(event))).collect()
}
