//! [`Parking`]: fragments of assigned events whose lane is over, and outstanding events whose
//! fragments are not here.

use std::collections::BTreeMap;

use crate::{fragment::Fragment, id::EventId, index::LaneIndex};

/// Parked fragments and expected ones. The former are no more than the lanes held, the latter no
/// more than one message of the supervisor names.
#[derive(Debug, Default)]
pub(super) struct Parking {
    parked: BTreeMap<EventId, Fragment>,
    /// Outstanding events and the lanes for their fragments; with `None`, a fragment is parked.
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

    /// Drops fragments up to `decided` whose events are not among `held` (ascending). Returns their
    /// number.
    pub(super) fn retain(&mut self, decided: EventId, held: &[EventId]) -> usize {
        let before = self.parked.len();
        self.parked.retain(|event, _| *event > decided || held.binary_search(event).is_ok());
        before - self.parked.len()
    }

    /// Sets the lane for the fragment of that event when it comes.
    pub(super) fn expect(&mut self, event: EventId, lane: Option<LaneIndex>) {
        self.assignments.insert(event, lane);
    }

    /// Returns the lane of an event's fragment, if it is expected although its time was over.
    pub(super) fn take_assignment(&mut self, event: EventId) -> Option<Option<LaneIndex>> {
        if self.assignments.is_empty() { None } else { self.assignments.remove(&event) }
    }

    /// Forgets all expected fragments.
    pub(super) fn forget_assignments(&mut self) {
        self.assignments.clear();
    }
}
