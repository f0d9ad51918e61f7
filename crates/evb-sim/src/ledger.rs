//! [`Ledger`]: the simulator's record of the events that sinks received. The simulator checks
//! events byte by byte, and its record is independent of the supervisor's own ledger.

use std::collections::BTreeMap;

use evb_core::{event::Event, id::EventId, index::BuilderIndex, ledger::EventCounts, time::Instant};

use crate::workload::Workload;

/// A record of every event that reached a sink.
#[derive(Debug)]
pub(crate) struct Ledger {
    workload: Workload,
    sources: u16,
    /// The ids of the events; the value is true for a complete event.
    seen: BTreeMap<EventId, bool>,
    /// Payload of all events, by source and by builder.
    pub(crate) payload_by_source: Vec<u64>,
    pub(crate) payload_by_builder: Vec<u64>,
    /// For each complete event, the time from the trigger to the arrival of the last fragment, in
    /// ns.
    pub(crate) latencies: Vec<u64>,
    pub(crate) first_trigger: Instant,
    pub(crate) last_event: Instant,
}

impl Ledger {
    pub(crate) fn new(workload: Workload, sources: u16, builders: u16) -> Self {
        Self {
            workload,
            sources,
            seen: BTreeMap::new(),
            payload_by_source: vec![0; sources.into()],
            payload_by_builder: vec![0; builders.into()],
            latencies: Vec::new(),
            first_trigger: Instant::FAR_FUTURE,
            last_event: Instant::ZERO,
        }
    }

    /// Checks an event that has reached the sink of a builder.
    ///
    /// # Errors
    /// Returns a description of the first error found in the event.
    pub(crate) fn handle_event(
        &mut self,
        event: &Event,
        builder: BuilderIndex,
        now: Instant,
    ) -> Result<(), String> {
        let wrong = |problem: String| format!("event {}: {problem}", event.id);
        let is_complete = event.fragments().len() == usize::from(self.sources);
        if self.seen.insert(event.id, is_complete).is_some() {
            return Err(wrong("it came to a sink twice".to_owned()));
        }
        self.workload.check(event, self.sources).map_err(wrong)?;
        self.payload_by_builder[builder.get()] += event.payload_size().count();
        for fragment in event.fragments() {
            let source = usize::from(fragment.source.number()) - 1;
            self.payload_by_source[source] += fragment.payload.len() as u64;
        }
        self.first_trigger = self.first_trigger.min(event.triggered);
        self.last_event = now;
        if is_complete {
            self.latencies.push(now.since(event.triggered).as_nanos() as u64);
        }
        Ok(())
    }

    /// Returns the number of events that have reached a sink so far.
    pub(crate) fn count(&self) -> usize {
        self.seen.len()
    }

    /// Returns the number of events that could not be complete, because a source had no fragment
    /// for them.
    pub(crate) fn silenced(&self) -> u64 {
        let is_silenced = |event: &&EventId| {
            (0..usize::from(self.sources)).any(|source| !self.workload.has(source, **event))
        };
        self.seen.keys().filter(is_silenced).count() as u64
    }

    /// Checks that the supervisor's ledger is closed and agrees with the events that the sinks
    /// received.
    ///
    /// # Errors
    /// Returns a description of the difference.
    pub(crate) fn check(&self, events: &EventCounts) -> Result<(), String> {
        let complete = self.seen.values().filter(|complete| **complete).count() as u64;
        let incomplete = self.seen.len() as u64 - complete;
        let last = self.seen.keys().next_back().copied().unwrap_or_default();
        let consistent = events.open() == Some(0)
            && (events.complete, events.incomplete) == (complete, incomplete)
            && events.assigned == complete + incomplete + events.lost
            && last.number() <= events.triggered;
        if consistent {
            return Ok(());
        }
        Err(format!(
            "the ledger does not close: sinks have {complete} complete and {incomplete} incomplete events up to {last}; {events:?}"
        ))
    }
}
