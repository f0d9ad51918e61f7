//! [`Queue`]: lanes that want to send, in the order in which they are served.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ops::Bound};

use evb_core::{grant::LaneDemand, id::EventId, index::LaneIndex, set::LaneSet};

/// Last possible lane.
const LAST: LaneIndex = LaneIndex::new(u16::MAX as usize);

/// Lanes that want to send, each with the event that it would send first. A change of a lane, and
/// each lane in the order of service, takes time that grows with the logarithm of the number of
/// lanes.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeSet<(EventId, LaneIndex)>,
}

impl Queue {
    /// Replaces the event of a lane; `None` for a lane that does not want to send.
    pub(crate) fn change(&mut self, lane: LaneIndex, before: Option<EventId>, now: Option<EventId>) {
        if before == now {
            return;
        }
        if let Some(event) = before {
            self.waiting.remove(&(event, lane));
        }
        if let Some(event) = now {
            self.waiting.insert((event, lane));
        }
    }

    /// Returns the lanes with the oldest event first. Of lanes with the same event, the lanes from
    /// `next` on come before the others.
    pub(crate) fn in_order(&self, next: LaneIndex) -> impl Iterator<Item = (EventId, LaneIndex)> {
        let first = self.waiting.first().map(|(event, _)| *event);
        let events = core::iter::successors(first, |event| {
            let later = (Bound::Excluded((*event, LAST)), Bound::Unbounded);
            self.waiting.range(later).next().map(|(event, _)| *event)
        });
        events.flat_map(move |event| {
            let (begin, turn) = ((event, LaneIndex::new(0)), (event, next));
            self.waiting.range(turn..=(event, LAST)).chain(self.waiting.range(begin..turn)).copied()
        })
    }
}

/// Makes a set contain the lane, or not contain it.
pub(crate) fn keep(lanes: &mut LaneSet, lane: LaneIndex, is_member: bool) {
    if is_member {
        lanes.insert(lane);
    } else {
        lanes.remove(lane);
    }
}

/// Returns the event that a lane would send first, or `None` if the lane does not want to send.
pub(crate) fn wanted(demand: &LaneDemand) -> Option<EventId> {
    (demand.connected && demand.ready > demand.granted).then_some(demand.oldest)
}
