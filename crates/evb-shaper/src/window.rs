//! Window: each lane may have so many buffer bytes under way, whatever the others do.

use evb_core::{
    grant::{Grant, GrantCounters, GrantPolicy, LaneDemand},
    time::Instant,
    units::Bytes,
};

use crate::{charges::Charges, cost::PacketCost};

/// The window policy: BaBar's, who used the TCP window as the throttle; here it counts buffer bytes, headers included, so
/// that sources × window ≤ port buffer is a guarantee.
#[derive(Debug)]
pub struct Window {
    window: Bytes,
    cost: PacketCost,
    charges: Charges,
    next: usize,
}

impl Window {
    /// A window for each of `lanes` lanes, in buffer bytes; at least one packet.
    pub fn new(window: Bytes, cost: PacketCost, lanes: usize) -> Self {
        let window = window.max(cost.buffer(Bytes::new(1)));
        Self { window, cost, charges: Charges::new(lanes), next: 0 }
    }
}

impl GrantPolicy for Window {
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        for step in 0..lanes.len() {
            let lane = (self.next + step) % lanes.len();
            let demand = &lanes[lane];
            let wanted = demand.ready - demand.granted;
            if wanted == 0 || !demand.connected {
                continue;
            }
            let free = self.window.saturating_sub(self.charges.of_lane(lane));
            let length = self.cost.affordable(free).count().min(wanted);
            // No crumbs: wait until half of the window is free, or the whole rest fits (RFC 1122, §4.2.3.3).
            let crumb = length < wanted && free < self.window / 2;
            if length == 0 || crumb {
                continue;
            }
            let end = demand.granted + length;
            self.charges.give(lane, end, self.cost.buffer(Bytes::new(length)), now);
            self.next = (lane + 1) % lanes.len();
            return Some(Grant { lane, end });
        }
        None
    }

    fn handle_received(&mut self, lane: usize, received: u64, now: Instant) {
        self.charges.handle_received(lane, received, now);
    }

    fn handle_reset(&mut self, lane: usize, _received: u64, now: Instant) {
        self.charges.handle_gone(lane, now);
    }

    fn handle_gone(&mut self, lane: usize, now: Instant) {
        self.charges.handle_gone(lane, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.charges.handle_timeout(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.charges.next_timeout()
    }

    fn outstanding(&self) -> Bytes {
        self.charges.outstanding()
    }

    fn counters(&self) -> &GrantCounters {
        &self.charges.counters
    }
}

#[cfg(test)]
mod tests;
