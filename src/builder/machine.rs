//! [`Blueprint`]: what a builder's machine is made from, each time that it begins anew.

use std::time::Duration;

use evb_core::{
    builder::{BuilderConfig as CoreConfig, BuilderCore},
    id::SourceId,
    set::MAX_SOURCES,
    time::Instant,
    units::Bytes,
    wire::control::{Roster, RunParameters},
};
use evb_net::pacing::Transport;
use evb_shaper::{Policy, ShapedBuilder, Shaping, cost::PacketCost};
use tokio::net::TcpListener;

use super::{BuilderConfig, ends::out_of_order_memory};
use crate::role::{self, RoleError, RunIdentity};

/// Of all lives of a builder in one run.
pub(super) struct Blueprint {
    pub(super) core: CoreConfig,
    pub(super) shaping: Shaping,
    cost: PacketCost,
    rotation: usize,
}

impl Blueprint {
    /// As the supervisor has it; checked against the memory that there may be.
    pub(super) fn new(
        config: &BuilderConfig,
        identity: RunIdentity,
        parameters: &RunParameters,
        roster: &Roster,
        listener: &TcpListener,
    ) -> Result<Self, RoleError> {
        let core = core_config(config, identity, parameters, roster)?;
        let early = out_of_order_memory(config.transport, &config.shaping, core.sources.len());
        let needed = BuilderCore::<Policy>::memory_bound(&core) + early;
        if let Some(limit) = config.memory.filter(|limit| needed > *limit) {
            return Err(RoleError::Memory { needed, limit });
        }
        // IPv6 takes 20 bytes more of each packet (RFC 8200 §3): so much less is of the lane.
        let is_longer = config.transport == Transport::Udp && listener.local_addr()?.is_ipv6();
        let mtu = config.mtu.saturating_sub(if is_longer { 20 } else { 0 });
        let cost = role::packet_cost(config.transport, mtu, config.cell, config.security.is_protected());
        Ok(Self { core, shaping: config.shaping.clone(), cost, rotation: config.rotation })
    }

    /// A machine with nothing in hand.
    pub(super) fn build(&self, now: Instant) -> ShapedBuilder {
        let policy = self.shaping.policy(self.core.sources.len(), self.cost, self.rotation);
        BuilderCore::new(self.core.clone(), policy, now)
    }
}

fn core_config(
    config: &BuilderConfig,
    identity: RunIdentity,
    parameters: &RunParameters,
    roster: &Roster,
) -> Result<CoreConfig, RoleError> {
    let fault = |problem: &str| RoleError::Roster(problem.to_owned());
    let id = |id: &u32| u16::try_from(*id).map(SourceId::new).map_err(|_| fault("a source id above 65535"));
    let sources = roster.sources.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    if sources.len() > MAX_SOURCES || !sources.is_sorted_by(|a, b| a < b) {
        return Err(fault("too many sources, or not ascending"));
    }
    if roster.max_fragment.len() != sources.len() {
        return Err(fault("not one max_fragment per source"));
    }
    Ok(CoreConfig {
        id: config.id,
        run: identity.run,
        epoch: identity.epoch,
        slots: parameters.slots as usize,
        deadline: Duration::from_nanos(parameters.deadline_ns),
        heartbeat: Duration::from_nanos(parameters.heartbeat_ns),
        shared_clock: parameters.shared_clock,
        lease: Duration::from_nanos(parameters.lease_ns),
        sources,
        max_fragment: roster.max_fragment.iter().copied().map(Bytes::new).collect(),
        queue: config.queue,
        report_period: Duration::from_nanos(parameters.report_ns),
    })
}
