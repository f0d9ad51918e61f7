//! [`Division`]: the parts of ports and trunks that each builder and each lane may use.

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    BuilderBudget, budgets,
    cost::PacketCost,
    topology::{Crossings, Direction, Queue},
};

use super::{
    layout::{Layout, NodeKind},
    network::NetworkConfig,
    trunk::{Trunk, TrunkKind},
};

/// Default budget if the port's buffer is unknown: such a budget limits only the memory that is
/// used.
pub(super) const FREE_BUDGET: Bytes = Bytes::mib(8);

/// Percentage of a link that the default paces of its lanes fill together.
const PACED_PERCENT: u64 = 95;

/// The rates and buffers of a network, to be divided among builders and lanes.
pub(super) struct Division<'l> {
    network: &'l NetworkConfig,
    layout: &'l Layout,
    crossings: Crossings<'l>,
    pub(super) cost: PacketCost,
    /// The budget of a port as the configuration states it.
    stated: Option<Bytes>,
    /// Number of sources, and the largest number of builders at a port.
    sources: u64,
    most_sharing: u64,
}

impl<'l> Division<'l> {
    pub(super) fn new(
        network: &'l NetworkConfig,
        layout: &'l Layout,
        cost: PacketCost,
        stated: Option<Bytes>,
    ) -> Self {
        let sources = (layout.topology.source_count() as u64).max(1);
        let most_sharing = layout.ports.iter().map(|port| port.ids.len() as u64).max().unwrap_or(1);
        let crossings = layout.topology.crossings();
        Self { network, layout, crossings, cost, stated, sources, most_sharing }
    }

    /// Returns the budget of a port with this rate: the stated one, or else the usual part of the
    /// port's buffer.
    pub(super) fn port_budget(&self, rate: Option<Rate>) -> Option<Bytes> {
        let usual = |buffer| self.cost.budget(buffer, rate, self.sources * self.most_sharing);
        self.stated.or_else(|| self.network.port_buffer.map(usual))
    }

    /// Returns each builder's part of the buffers on the way to it.
    pub(super) fn budgets(&self) -> Vec<BuilderBudget> {
        budgets(&self.layout.topology, |queue| self.capacity(queue))
    }

    /// Returns the buffer bytes of a queue that granted data may fill.
    fn capacity(&self, queue: Queue) -> Option<Bytes> {
        match self.layout.kind(queue.node) {
            NodeKind::Trunk(trunk) => {
                trunk_capacity(&self.network.trunks[trunk], self.crossings.lanes(queue), &self.cost)
            }
            // Data wait in the memory of the host, which does not drop them.
            NodeKind::Uplink(_) => None,
            NodeKind::Port(port) => {
                let port = self.layout.ports.get(port).filter(|_| queue.direction == Direction::Down)?;
                // Without a known port buffer, each builder gets the whole default budget: builders
                // then share no buffer that could overflow.
                Some(self.port_budget(port.rate).unwrap_or(FREE_BUDGET * port.ids.len() as u64))
            }
        }
    }

    /// Returns the queues of trunks, each with the trunk's position.
    fn trunk_queues(&self) -> impl Iterator<Item = (Queue, usize)> + '_ {
        self.crossings.queues().filter_map(|queue| match self.layout.kind(queue.node) {
            NodeKind::Trunk(trunk) => Some((queue, trunk)),
            NodeKind::Uplink(_) | NodeKind::Port(_) => None,
        })
    }

    /// Returns the trunk that leaves a builder the smallest part of its buffer, and that part.
    pub(super) fn smallest_trunk(&self) -> Option<(usize, Bytes)> {
        let part = |(queue, trunk)| {
            let builders = self.crossings.builder_count(queue) as u64;
            Some((trunk, self.capacity(queue)? / builders.max(1)))
        };
        self.trunk_queues().filter_map(part).min_by_key(|(_, part)| *part)
    }

    /// Returns the part of the trunks' buffers that each lane has.
    pub(super) fn trunk_share(&self) -> Option<Bytes> {
        let share = |(queue, _)| Some(self.capacity(queue)? / self.crossings.lanes(queue).max(1));
        self.trunk_queues().filter_map(share).min()
    }

    /// Returns the rate of the slowest port; `None` if the rate of a port is unknown.
    pub(super) fn slowest_port(&self) -> Option<Rate> {
        let rates: Option<Vec<Rate>> = self.layout.ports.iter().map(|port| port.rate).collect();
        rates?.into_iter().min()
    }

    /// Returns the default window of a lane: the largest number of full packets for which the
    /// windows of all lanes fit into nine tenths of a port's buffer and into the trunks' buffers.
    pub(super) fn lane_window(&self) -> Option<Bytes> {
        let lanes = self.sources * self.most_sharing;
        let port = self.network.port_buffer.map(|port| nine_tenths(port) / lanes.max(1));
        port.into_iter().chain(self.trunk_share()).min().map(|share| self.cost.window(share))
    }

    /// Returns the default pace of a lane. The link of a source carries a lane to every builder,
    /// the link of a port a lane from every source, and a trunk all lanes that cross it.
    pub(super) fn lane_rate(&self) -> Option<Rate> {
        let lanes = (self.sources * self.most_sharing).max(self.layout.topology.builder_count() as u64);
        let part =
            |rate: Rate, lanes: u64| (rate.bits_per_second() / 100 * PACED_PERCENT / lanes.max(1)).max(1);
        let every = self.network.link_rate.map(|rate| part(rate, lanes));
        let of_queues = self.crossings.queues().filter_map(|queue| {
            let rate = self.layout.topology.node(queue.node)?.rate?;
            let is_trunk = matches!(self.layout.kind(queue.node), NodeKind::Trunk(_));
            let counts = is_trunk || Some(rate) != self.network.link_rate;
            counts.then(|| part(rate, self.crossings.lanes(queue)))
        });
        of_queues.chain(every).min().map(Rate::from_bits_per_second)
    }
}

/// Returns the buffer bytes of a trunk that granted data may fill if this number of lanes crosses
/// it: nine tenths of the buffer, or less if many lanes may announce an event at once.
pub(crate) fn trunk_capacity(trunk: &Trunk, lanes: u64, cost: &PacketCost) -> Option<Bytes> {
    let buffer = trunk.buffer?;
    Some(match trunk.kind {
        TrunkKind::Link => cost.budget(buffer, None, lanes),
        TrunkKind::Buffer => nine_tenths(buffer),
    })
}

/// Returns the part of a buffer that may be filled with granted data. The remaining tenth is for
/// traffic without grants: acknowledgements and control.
pub fn nine_tenths(port_buffer: Bytes) -> Bytes {
    Bytes::new(port_buffer.count() / 10 * 9 + port_buffer.count() % 10 * 9 / 10)
}
