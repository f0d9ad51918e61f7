//! Window: each lane may have a fixed number of bytes under way, independently of the others.

use evb_core::{
    grant::{Grant, LaneDemand},
    index::LaneIndex,
    time::Instant,
    units::Bytes,
};

use crate::{
    charges::{Charges, Room, Rule},
    cost::PacketCost,
};

/// The window policy of BaBar, which used the TCP window as the throttle. A lane may send up to
/// `received` + window.
///
/// The window is lane bytes, as a TCP window is stream bytes. Its guarantee is in buffer bytes: a
/// window in small grants has more headers than one in a piece, and so less of it is granted; there
/// is never more under way than the window in one piece takes of a port
/// ([`sums::windows_buffer`](crate::sums::windows_buffer)).
#[derive(Debug)]
pub struct Window {
    window: Bytes,
    /// Buffer bytes that the window takes of a port, in one piece.
    limit: Bytes,
    cost: PacketCost,
    next: usize,
}

impl Window {
    /// A window for each lane, in lane bytes; at least one.
    pub(crate) fn new(window: Bytes, cost: PacketCost) -> Self {
        let window = window.max(Bytes::new(1));
        Self { window, limit: cost.buffer(window), cost, next: 0 }
    }

    /// The most lane bytes whose grant costs at most `free`, with what announces them.
    fn affordable(&self, free: Bytes, demand: &LaneDemand) -> Bytes {
        let announcing = self.cost.announcing(free, demand.fragment).count();
        let part = u128::from(free.count()).pow(2) / u128::from((free.count() + announcing).max(1));
        match self.cost.affordable(Bytes::new(part as u64)) {
            // All that there is, and too little for both.
            Bytes::ZERO if free == self.limit => self.cost.affordable(free),
            length => length,
        }
    }
}

impl Rule for Window {
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        for step in 0..lanes.len() {
            let lane = (self.next + step) % lanes.len();
            let demand = &lanes[lane];
            let wanted = demand.ready - demand.granted;
            if wanted == 0 || !demand.connected {
                continue;
            }
            let free = self.limit.saturating_sub(charges.in_port(LaneIndex::new(lane)));
            let within = demand.received.saturating_add(self.window.count()).saturating_sub(demand.granted);
            let length = self.affordable(free, demand).count().min(within).min(wanted);
            // Tiny grants are avoided: it waits until half of the window is free, or the whole rest
            // fits (RFC 1122, §4.2.3.3).
            let crumb = length < wanted && free < self.limit / 2;
            if length == 0 || crumb {
                continue;
            }
            let end = demand.granted + length;
            self.next = (lane + 1) % lanes.len();
            let cost = self.cost.grant(Bytes::new(length), demand.fragment).min(self.limit);
            return Some(charges.give_next(LaneIndex::new(lane), demand, end, cost, now));
        }
        None
    }

    /// Checks the room for pieces that are sent again, which have headers of their own: they too
    /// stay within the buffer bytes of the window.
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
