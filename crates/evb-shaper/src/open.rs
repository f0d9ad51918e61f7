//! Open: a grant policy without limits, in which all ready bytes may be sent at once.

use evb_core::{
    grant::{Grant, LaneDemand},
    index::LaneIndex,
    time::Instant,
    units::Bytes,
};

use crate::{
    charges::{Charges, Rule},
    cost::PacketCost,
};

/// The policy that grants all announced bytes at once. This policy serves as the unshaped baseline,
/// and as the builder's policy when sources pace themselves.
#[derive(Debug)]
pub struct Open {
    cost: PacketCost,
}

impl Open {
    pub(crate) fn new(cost: PacketCost) -> Self {
        Self { cost }
    }
}

impl Rule for Open {
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        let wants = |demand: &LaneDemand| demand.ready > demand.granted && demand.connected;
        let lane = lanes.iter().position(wants)?;
        let end = lanes[lane].ready;
        let length = Bytes::new(end - lanes[lane].granted);
        Some(charges.give_next(LaneIndex::new(lane), &lanes[lane], end, self.cost.buffer(length), now))
    }

    fn cost(&self) -> &PacketCost {
        &self.cost
    }
}
