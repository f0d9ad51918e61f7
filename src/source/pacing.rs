//! [`PacingConfig`]: the pace at which a source sends to each builder, and the mechanism that keeps
//! the pace.

use std::{collections::BTreeMap, sync::Arc};

use evb_core::{id::BuilderId, units::Rate};
use evb_net::pacing::{Executor, Offload, Software, Transport};
use evb_shaper::{ByteMeasure, LinkPlan, Pace, Pacing, cost::PacketCost, role::Paces};

/// The pace at which a source sends to each builder, and the mechanism that keeps the pace.
#[derive(Clone, Debug)]
pub struct PacingConfig {
    /// The pace of every lane; `None`: as fast as grants or a token bucket permit.
    pub lane: Option<Pace>,
    /// Paces of lanes to particular builders, in place of [`Self::lane`].
    pub builders: BTreeMap<BuilderId, Pace>,
    /// The link that all lanes share with the connection to the supervisor.
    pub link: LinkPlan,
    /// The mechanism that realizes departure times. Use an executor that
    /// [`evb_net::pacing::choose`] has tested.
    pub executor: Arc<dyn Executor>,
}

impl Default for PacingConfig {
    /// Returns a configuration without pace or limit, whose departures use timers.
    fn default() -> Self {
        Self {
            lane: None,
            builders: BTreeMap::new(),
            link: LinkPlan::unlimited(),
            executor: Arc::new(Software::timer()),
        }
    }
}

impl PacingConfig {
    /// Returns the paces that the source itself has to keep; `usual` is the shaping mode's pace for
    /// all lanes. The result is empty where the kernel keeps the paces.
    pub(super) fn paces(&self, usual: Option<Pace>, cost: PacketCost) -> Paces {
        let pacing = Pacing {
            link: self.link.clone(),
            lead: self.executor.lead(),
            spacing: self.executor.spacing(),
            ..Pacing::none(cost)
        };
        match self.executor.offload() {
            Offload::Tbf => Paces { pacing, ..Paces::none(cost) },
            _ => Paces { lane: self.lane.or(usual), builders: self.builders.clone(), pacing },
        }
    }

    /// Returns the pace of the lane to one builder.
    pub(super) fn pace(&self, builder: BuilderId, usual: Option<Pace>) -> Option<Pace> {
        self.builders.get(&builder).copied().or(self.lane).or(usual)
    }
}

/// Returns the rate to set on a lane's socket for a pace, for full packets. The kernel counts the
/// payload of TCP (`tcp_update_skb_after_send`, net/ipv4/tcp_output.c) and the whole frames of UDP
/// (`qdisc_pkt_len` in `fq_dequeue`, net/sched/sch_fq.c).
pub(super) fn socket_rate(transport: Transport, pace: Pace, cost: PacketCost) -> Rate {
    match transport {
        Transport::Tcp => cost.payload_rate(pace.rate, pace.measure),
        Transport::Udp => cost.rate_in(pace.rate, pace.measure, ByteMeasure::Buffer),
    }
}

/// The rates that the sockets of a source's lanes keep, including lanes to builders that join
/// later.
pub(super) struct SocketRates {
    config: PacingConfig,
    usual: Option<Pace>,
    cost: PacketCost,
    transport: Transport,
}

impl SocketRates {
    /// Creates the rates of lanes over `transport`; `usual` is the shaping mode's pace.
    pub(super) fn new(
        config: PacingConfig,
        usual: Option<Pace>,
        transport: Transport,
        cost: PacketCost,
    ) -> Self {
        Self { config, usual, cost, transport }
    }

    /// Returns the rate of the lane to one builder.
    pub(super) fn of(&self, builder: BuilderId) -> Option<Rate> {
        let pace = self.config.pace(builder, self.usual);
        pace.map(|pace| socket_rate(self.transport, pace, self.cost))
    }
}

#[cfg(test)]
mod tests;
