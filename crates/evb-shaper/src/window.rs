//! Window: a grant policy in which each lane may have a fixed number of bytes under way,
//! independently of other lanes.

use evb_core::{
    grant::{Grant, LaneDemand},
    index::LaneIndex,
    set::LaneSet,
    time::Instant,
    units::Bytes,
};

use crate::{
    charges::{Charges, Room, Rule},
    cost::PacketCost,
    queue::{keep, wanted},
};

/// The window policy, after the event builder of BaBar, which limited each source by its TCP
/// window. A lane may send up to the offset `received` + window.
///
/// The window counts lane bytes, as a TCP window counts stream bytes. The guaranteed limit,
/// however, is in buffer bytes: a lane never has more under way than the window takes in a port if
/// it is sent in one piece ([`sums::windows_buffer`](crate::sums::windows_buffer)). A window in
/// many small grants needs more headers, so less of it is granted.
#[derive(Debug)]
pub struct Window {
    window: Bytes,
    /// Buffer bytes that the window takes in a port if it is sent in one piece.
    limit: Bytes,
    cost: PacketCost,
    next: LaneIndex,
    /// Lanes that want to send.
    waiting: LaneSet,
}

impl Window {
    /// Creates the policy with a window of `window` lane bytes, at least one, for each lane.
    pub(crate) fn new(window: Bytes, cost: PacketCost) -> Self {
        let window = window.max(Bytes::new(1));
        Self {
            window,
            limit: cost.buffer(window),
            cost,
            next: LaneIndex::new(0),
            waiting: LaneSet::default(),
        }
    }

    /// Returns the largest number of lane bytes whose grant costs at most `free` buffer bytes,
    /// including their announcements.
    fn affordable(&self, free: Bytes, demand: &LaneDemand) -> Bytes {
        let announcing = self.cost.announcing(free, demand.fragment).count();
        let part = u128::from(free.count()).pow(2) / u128::from((free.count() + announcing).max(1));
        match self.cost.affordable(Bytes::new(part as u64)) {
            // Even the whole window is too small for data with their announcements, so the
            // announcements are not counted.
            Bytes::ZERO if free == self.limit => self.cost.affordable(free),
            length => length,
        }
    }
}

impl Rule for Window {
    /// Grants the next lane, in rotation, as many bytes as its window and the port's buffer have
    /// free.
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        for lane in self.waiting.iter_from(self.next) {
            let demand = &lanes[lane];
            let wanted = demand.ready - demand.granted;
            let free = self.limit.saturating_sub(charges.in_port(lane));
            let window_left =
                demand.received.saturating_add(self.window.count()).saturating_sub(demand.granted);
            let length = self.affordable(free, demand).count().min(window_left).min(wanted);
            // To avoid tiny grants, a lane waits until half of its window is free or all of its
            // ready bytes fit (RFC 1122, §4.2.3.3).
            let is_crumb = length < wanted && free < self.limit / 2;
            if length == 0 || is_crumb {
                continue;
            }
            let end = demand.granted + length;
            self.next = LaneIndex::new((lane.get() + 1) % lanes.len());
            let cost = self.cost.grant(Bytes::new(length), demand.fragment).min(self.limit);
            return Some(charges.give_next(lane, demand, end, cost, now));
        }
        None
    }

    fn handle_demand(&mut self, lane: LaneIndex, demand: &LaneDemand) {
        keep(&mut self.waiting, lane, wanted(demand).is_some());
    }

    /// Decides if a retransmission fits. Retransmitted pieces have packet headers of their own, and
    /// must also stay within the buffer bytes of the window.
    fn room(&self, charges: &Charges, lane: LaneIndex, cost: Bytes) -> Room {
        let held = charges.in_port(lane);
        if held == Bytes::ZERO || held + cost <= self.limit { Room::Free } else { Room::LaneFull }
    }

    fn cost(&self) -> &PacketCost {
        &self.cost
    }
}

#[cfg(test)]
mod tests;
