//! [`BuilderPlan`]: what a builder's machine is made from, each time that it begins anew.

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

/// What a builder has to know; the rest comes from the supervisor.
#[derive(Clone, Debug)]
pub struct BuilderRoleConfig {
    /// Which builder.
    pub id: BuilderId,
    /// Who may send when.
    pub shaping: Shaping,
    /// What lane bytes cost on the wire.
    pub cost: PacketCost,
    /// Where the rotation over the sources begins.
    pub rotation: usize,
    /// How long data may wait in full queues on its way; zero if not known.
    pub queue: Duration,
    /// The most payload memory; `None`: no limit.
    pub memory: Option<Bytes>,
    /// Whether lanes go by datagrams.
    pub datagrams: bool,
}

/// What a builder's machine is made from, in all lives of a builder in one run.
#[derive(Clone, Debug)]
pub struct BuilderPlan {
    pub(super) core: BuilderConfig,
    pub(super) config: BuilderRoleConfig,
    report_period: Duration,
}

impl BuilderPlan {
    /// As the supervisor has it.
    ///
    /// # Errors
    /// [`RoleFault::Roster`]: the roster cannot be. [`RoleFault::Memory`].
    pub fn new(config: BuilderRoleConfig, start: &Start) -> Result<Self, RoleFault> {
        let core = core_config(config.id, start)?;
        let lanes = core.sources.len();
        let early = if config.datagrams { config.shaping.out_of_order_memory(lanes) } else { Bytes::ZERO };
        let needed = BuilderCore::<Policy>::memory_bound(&core) + early;
        if let Some(limit) = config.memory.filter(|limit| needed > *limit) {
            return Err(RoleFault::Memory { needed, limit });
        }
        let report_period = Duration::from_nanos(start.registered.parameters.report_ns);
        Ok(Self { core, config, report_period })
    }

    /// All sources of the run, ascending; a source's position is its lane.
    pub fn sources(&self) -> &[SourceId] {
        &self.core.sources
    }

    /// How many events may be open at once.
    pub fn slots(&self) -> usize {
        self.core.slots
    }

    /// Who may send when: to be lowered to what sockets hold.
    pub fn shaping_mut(&mut self) -> &mut Shaping {
        &mut self.config.shaping
    }

    /// A machine with nothing in hand.
    pub(super) fn build(&self, now: Instant) -> ShapedBuilder {
        let BuilderRoleConfig { shaping, cost, rotation, queue, .. } = &self.config;
        let policy = shaping.policy(self.core.sources.len(), *cost, *rotation);
        let mut core = BuilderCore::new(self.core.clone(), policy, now).with_reports(self.report_period, now);
        core.expect_queue(*queue);
        core
    }
}

fn core_config(id: BuilderId, start: &Start) -> Result<BuilderConfig, RoleFault> {
    let (identity, parameters, roster) = (start.identity, &start.registered.parameters, &start.roster);
    let fault = |problem: &str| RoleFault::Roster(problem.to_owned());
    let source =
        |id: &u32| u16::try_from(*id).map(SourceId::new).map_err(|_| fault("a source id above 65535"));
    let sources = roster.sources.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    if sources.len() > MAX_SOURCES || !sources.is_sorted_by(|a, b| a < b) {
        return Err(fault("too many sources, or not ascending"));
    }
    if roster.max_fragment.len() != sources.len() {
        return Err(fault("not one max_fragment per source"));
    }
    Ok(BuilderConfig {
        id,
        run: identity.run,
        epoch: identity.epoch,
        slots: parameters.slots as usize,
        deadline: Duration::from_nanos(parameters.deadline_ns),
        heartbeat: Duration::from_nanos(parameters.heartbeat_ns),
        shared_clock: parameters.shared_clock,
        lease: Duration::from_nanos(parameters.lease_ns),
        sources,
        max_fragment: roster.max_fragment.iter().copied().map(Bytes::new).collect(),
    })
}
