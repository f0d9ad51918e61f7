//! Open: a grant policy without limits, in which all ready bytes may be sent at once.

use evb_core::{
    grant::{Grant, LaneDemand},
    index::LaneIndex,
    set::LaneSet,
    time::Instant,
    units::Bytes,
};

use crate::{
    charges::{Charges, Rule},
    cost::PacketCost,
    queue::{keep, wanted},
};

/// The policy that grants all announced bytes at once. This policy serves as the unshaped baseline,
/// and as the builder's policy when sources pace themselves.
#[derive(Debug)]
pub struct Open {
    cost: PacketCost,
    /// Lanes that want to send.
    waiting: LaneSet,
}

impl Open {
    pub(crate) fn new(cost: PacketCost) -> Self {
        Self { cost, waiting: LaneSet::default() }
    }
}

impl Rule for Open {
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        let lane = self.waiting.iter().next()?;
        let end = lanes[lane].ready;
        let length = Bytes::new(end - lanes[lane].granted);
        Some(charges.give_next(lane, &lanes[lane], end, self.cost.buffer(length), now))
    }

    fn handle_demand(&mut self, lane: LaneIndex, demand: &LaneDemand) {
        keep(&mut self.waiting, lane, wanted(demand).is_some());
    }

    fn cost(&self) -> &PacketCost {
        &self.cost
    }
}
