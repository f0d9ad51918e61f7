//! Open: all that is ready may go at once.

use evb_core::{
    grant::{Grant, GrantCounters, GrantPolicy, LaneDemand},
    time::Instant,
    units::Bytes,
};

use crate::{charges::Charges, cost::PacketCost};

/// The policy that grants whatever is announced: the unshaped baseline, and what lies under sources that pace themselves.
#[derive(Debug)]
pub struct Open {
    cost: PacketCost,
    charges: Charges,
}

impl Open {
    /// For `lanes` lanes.
    pub fn new(cost: PacketCost, lanes: usize) -> Self {
        Self { cost, charges: Charges::new(lanes) }
    }
}

impl GrantPolicy for Open {
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        let wants = |demand: &LaneDemand| demand.ready > demand.granted && demand.connected;
        let lane = lanes.iter().position(wants)?;
        let end = lanes[lane].ready;
        let length = Bytes::new(end - lanes[lane].granted);
        self.charges.give(lane, end, self.cost.buffer(length), now);
        Some(Grant { lane, end })
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
