//! [`Parking`]: fragments of assigned events whose lane has ended, and outstanding events whose
//! fragments have not arrived.

use std::collections::BTreeMap;

use crate::{fragment::Fragment, id::EventId, index::LaneIndex};

/// Parked fragments, which are in no lane, and events that expect a fragment. The parked fragments
/// are at most those that lanes held; the expecting events are at most those that one message of
/// the supervisor names.
#[derive(Debug, Default)]
pub(super) struct Parking {
    parked: BTreeMap<EventId, Fragment>,
    /// Outstanding events that expect a fragment, each with the lane for it; with `None`, the
    /// fragment will be parked.
    assignments: BTreeMap<EventId, Option<LaneIndex>>,
}

impl Parking {
    pub(super) fn park(&mut self, fragment: Fragment) {
        self.parked.insert(fragment.event, fragment);
    }

    pub(super) fn len(&self) -> usize {
        self.parked.len()
    }

    pub(super) fn take(&mut self, event: EventId) -> Option<Fragment> {
        self.parked.remove(&event)
    }

    /// Drops the fragments of events up to `decided` that are not among `held` (ascending). Returns
    /// the number of dropped fragments.
    pub(super) fn retain(&mut self, decided: EventId, held: &[EventId]) -> usize {
        let before = self.parked.len();
        self.parked.retain(|event, _| *event > decided || held.binary_search(event).is_ok());
        before - self.parked.len()
    }

    /// Sets the lane for the fragment of that event, for when the fragment arrives.
    pub(super) fn expect(&mut self, event: EventId, lane: Option<LaneIndex>) {
        self.assignments.insert(event, lane);
    }

    /// Returns the lane for the fragment of an event that [`Self::expect`] noted; the inner `None`
    /// means that the event has no builder yet.
    pub(super) fn take_assignment(&mut self, event: EventId) -> Option<Option<LaneIndex>> {
        if self.assignments.is_empty() { None } else { self.assignments.remove(&event) }
    }

    /// Forgets all events that expect a fragment.
    pub(super) fn forget_assignments(&mut self) {
        self.assignments.clear();
    }
}
