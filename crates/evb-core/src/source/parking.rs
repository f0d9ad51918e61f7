//! [`Parking`]: fragments of assigned events whose lane is over, and events that are outstanding and whose fragments are not here.

use std::collections::BTreeMap;

use crate::{fragment::Fragment, id::EventId, index::LaneIndex};

/// Holds no more than lanes did, and names no more than one message of the supervisor's.
#[derive(Debug, Default)]
pub(super) struct Parking {
    parked: BTreeMap<EventId, Fragment>,
    /// Events that are outstanding, and where their fragments are to go when they come; `None`: here.
    homes: BTreeMap<EventId, Option<LaneIndex>>,
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

    /// Forgets what is not among `held`, ascending, and not beyond `decided`; returns how many.
    pub(super) fn retain(&mut self, decided: EventId, held: &[EventId]) -> usize {
        let before = self.parked.len();
        self.parked.retain(|event, _| *event > decided || held.binary_search(event).is_ok());
        before - self.parked.len()
    }

    /// The fragment of that event is to go there when it comes.
    pub(super) fn expect(&mut self, event: EventId, lane: Option<LaneIndex>) {
        self.homes.insert(event, lane);
    }

    /// Whether an event's fragment is expected though its time was over, and where.
    pub(super) fn take_home(&mut self, event: EventId) -> Option<Option<LaneIndex>> {
        if self.homes.is_empty() { None } else { self.homes.remove(&event) }
    }

    /// Nothing is expected any more.
    pub(super) fn forget_homes(&mut self) {
        self.homes.clear();
    }
}
