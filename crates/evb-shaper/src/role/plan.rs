//! [`BuilderPlan`]: the plan from which a builder's machine is made, each time that it begins
//! again.

use core::time::Duration;

use evb_core::{
    builder::{BuilderConfig, BuilderCore},
    id::{BuilderId, SourceId},
    session::{RoleFault, Start},
    set::MAX_SOURCES,
    time::Instant,
    units::Bytes,
};

use crate::{
    ShapedBuilder,
    cost::PacketCost,
    policy::{Policy, Shaping},
};

/// Configuration of a builder; the rest comes from the supervisor.
#[derive(Clone, Debug)]
pub struct BuilderRoleConfig {
    /// Id of the builder.
    pub id: BuilderId,
    /// Policy by which sources may send.
    pub shaping: Shaping,
    /// Cost of lane bytes on the wire.
    pub cost: PacketCost,
    /// Start of the rotation over the sources.
    pub rotation: usize,
    /// Time that data may wait in full queues on their way; zero if not known.
    pub queue: Duration,
    /// The most payload memory; `None`: no limit.
    pub memory: Option<Bytes>,
    /// True if lanes use datagrams.
    pub datagrams: bool,
}

/// Plan from which a builder's machine is made, in all lives of a builder in one run.
#[derive(Clone, Debug)]
pub struct BuilderPlan {
    pub(super) core: BuilderConfig,
    pub(super) config: BuilderRoleConfig,
}

impl BuilderPlan {
    /// Creates the plan from the supervisor's data.
    ///
    /// # Errors
    /// [`RoleFault::Roster`]: the roster cannot be. [`RoleFault::Memory`].
    pub fn new(config: BuilderRoleConfig, start: &Start) -> Result<Self, RoleFault> {
        let core = core_config(&config, start)?;
        let lanes = core.sources.len();
        let early = if config.datagrams { config.shaping.out_of_order_memory(lanes) } else { Bytes::ZERO };
        let needed = BuilderCore::<Policy>::memory_bound(&core) + early;
        if let Some(limit) = config.memory.filter(|limit| needed > *limit) {
            return Err(RoleFault::Memory { needed, limit });
        }
        Ok(Self { core, config })
    }

    /// All sources of the run, ascending; a source's position is its lane.
    pub fn sources(&self) -> &[SourceId] {
        &self.core.sources
    }

    /// Returns the number of events that may be open at once.
    pub fn slots(&self) -> usize {
        self.core.slots
    }

    /// Returns the shaping policy, to be lowered to the buffers of sockets.
    pub fn shaping_mut(&mut self) -> &mut Shaping {
        &mut self.config.shaping
    }

    /// A machine with nothing in hand.
    pub(super) fn build(&self, now: Instant) -> ShapedBuilder {
        let BuilderRoleConfig { shaping, cost, rotation, .. } = &self.config;
        let policy = shaping.policy(self.core.sources.len(), *cost, *rotation);
        BuilderCore::new(self.core.clone(), policy, now)
    }
}

fn core_config(config: &BuilderRoleConfig, start: &Start) -> Result<BuilderConfig, RoleFault> {
    let (identity, parameters, roster) = (start.identity, &start.registered.parameters, &start.roster);
    let fault = |problem: &str| RoleFault::Roster(problem.to_owned());
    let source = |id: &u32| {
        u16::try_from(*id).map(SourceId::new).map_err(|_| fault("a source id in the roster is above 65535"))
    };
    let sources = roster.sources.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    if sources.len() > MAX_SOURCES || !sources.is_sorted_by(|a, b| a < b) {
        return Err(fault("the roster has too many sources, or their ids are not ascending"));
    }
    if roster.max_fragment.len() != sources.len() {
        return Err(fault("the roster does not have one max_fragment per source"));
    }
    Ok(BuilderConfig {
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
