//! [`BuilderPlan`]: the parameters from which the state machine of a builder is created, for each
//! of its incarnations.

use core::time::Duration;

use evb_core::{
    builder::{BuilderCore, BuilderCoreConfig},
    id::{BuilderId, RunNumber, SourceId},
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

/// The builder's own configuration; all other parameters come from the supervisor.
#[derive(Clone, Debug)]
pub struct BuilderRoleConfig {
    /// Id of the builder.
    pub id: BuilderId,
    /// Policy that decides when sources may send.
    pub shaping: Shaping,
    /// Cost of lane bytes on the wire.
    pub cost: PacketCost,
    /// Position in the list of sources at which the rotation of grants starts.
    pub rotation: usize,
    /// Longest time that data may wait in full queues on the way to the builder; zero if not known.
    pub queue_delay: Duration,
    /// Limit on the memory for payloads; `None` for no limit.
    pub memory: Option<Bytes>,
    /// True if lanes use datagrams.
    pub datagrams: bool,
}

/// Parameters from which the state machine of a builder is created, for each incarnation of the
/// builder in one run.
#[derive(Clone, Debug)]
pub struct BuilderPlan {
    pub(super) core: BuilderCoreConfig,
    pub(super) config: BuilderRoleConfig,
}

impl BuilderPlan {
    /// Creates the plan from the supervisor's data.
    ///
    /// # Errors
    /// Returns [`RoleFault::Roster`] if the roster is invalid, and [`RoleFault::Memory`] if the
    /// builder would need more memory than its limit.
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

    /// Returns all sources of the run in ascending order; the position of a source is the index of
    /// its lane.
    pub fn sources(&self) -> &[SourceId] {
        &self.core.sources
    }

    /// Returns the number of events that the builder may have open at once.
    pub fn slots(&self) -> usize {
        self.core.slots
    }

    /// Returns the shaping policy for changes: the driver lowers its limits to the sizes of the
    /// socket buffers.
    pub fn shaping_mut(&mut self) -> &mut Shaping {
        &mut self.config.shaping
    }

    /// Changes the number of the run, which is final only when the run begins.
    pub(super) fn set_run(&mut self, run: RunNumber) {
        self.core.run = run;
    }

    /// Creates the state machine of a builder, without any events.
    pub(super) fn build(&self, now: Instant) -> ShapedBuilder {
        let BuilderRoleConfig { shaping, cost, rotation, .. } = &self.config;
        let policy = shaping.policy(self.core.sources.len(), *cost, *rotation);
        BuilderCore::new(self.core.clone(), policy, now)
    }
}

/// Takes what the state machine needs from the supervisor's parameters and roster, which are
/// checked.
fn core_config(config: &BuilderRoleConfig, start: &Start) -> Result<BuilderCoreConfig, RoleFault> {
    let (identity, parameters, roster) = (start.identity, &start.registered.parameters, &start.roster);
    let fault = |problem: &str| RoleFault::Roster(problem.to_owned());
    let source = |id: &u32| {
        u16::try_from(*id).map(SourceId::new).map_err(|_| fault("a source id in its list is above 65535"))
    };
    let sources = roster.sources.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    if sources.len() > MAX_SOURCES || !sources.is_sorted_by(|a, b| a < b) {
        return Err(fault("its list has too many sources, or their ids are not ascending"));
    }
    if roster.max_fragment.len() != sources.len() {
        return Err(fault("its list does not have one max_fragment per source"));
    }
    Ok(BuilderCoreConfig {
        id: config.id,
        run_id: identity.id,
        run: identity.run,
        epoch: identity.epoch,
        slots: parameters.slots as usize,
        deadline: Duration::from_nanos(parameters.deadline_ns),
        heartbeat: Duration::from_nanos(parameters.heartbeat_ns),
        shared_clock: parameters.shared_clock,
        lease: Duration::from_nanos(parameters.lease_ns),
        sources,
        max_fragment: roster.max_fragment.iter().copied().map(Bytes::new).collect(),
        queue_delay: config.queue_delay,
        report_period: Duration::from_nanos(parameters.report_ns),
    })
}
