//! [`Scenario::run`] creates the simulated system, and runs it until the supervisor's ledger is
//! closed.

mod summary;

use core::time::Duration;

use evb_core::{
    builder::BuilderCoreConfig,
    id::{Epoch, Peer, RunId, RunNumber},
    index::{BuilderIndex, LaneIndex},
    ledger::RunReport,
    source::{SourceCore, SourceCoreConfig},
    supervisor::{PlanError, RunPlan, SupervisorCore},
    time::Instant,
    transport::Transport,
    units::Bytes,
    wire::{
        control::RunParameters,
        datagram::{Association, IPV4_UDP},
    },
};
use evb_shaper::{PacedSource, Pacing, ShapedBuilder, Shaping, sums::windows_buffer};

use crate::{
    host::{BuilderHost, LaneEnd, SourceHost, SupervisorHost, hello},
    hosts::{HostModel, Program},
    ledger::Ledger,
    network::{HostIndex, Network, SUPERVISOR, Tree},
    report::SimReport,
    scenario::Scenario,
    workload::Workload,
};

/// The reason why a run has no report.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The scenario is contradictory.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The trunks are no tree.
    #[error("the simulated network contradicts itself: {0}; correct its trunks")]
    Network(String),
    /// The supervisor refused a peer.
    #[error("the simulation cannot begin, because its supervisor refuses {peer}: {detail}")]
    Refused {
        /// The refused peer.
        peer: Peer,
        /// The reason.
        detail: String,
    },
    /// A check failed: there is a bug in a state machine of evb or in the simulator.
    #[error(
        "the simulation with seed {seed} failed at {at}, at {who}: {what}; this is a fault of evb or of the simulator: report it with the command"
    )]
    Broken {
        /// The seed that reproduces the run.
        seed: u64,
        /// The simulated time.
        at: Instant,
        /// The peer on whose host the check failed.
        who: Peer,
        /// The failed check.
        what: String,
    },
}

/// Time beyond the deadline without a new event at a sink after which the run counts as hanging.
/// The retransmission timer of RFC 6298 alone may double up to 60 s.
const PATIENCE: Duration = Duration::from_secs(200);

/// The simulated system of a run: network, hosts and ledger.
struct Simulation<'a> {
    scenario: &'a Scenario,
    network: Network,
    supervisor: SupervisorHost,
    sources: Vec<SourceHost>,
    builders: Vec<BuilderHost>,
    ledger: Ledger,
    memory_bound: Bytes,
}

impl Scenario {
    /// Simulates the run to its end.
    ///
    /// # Errors
    /// Returns [`SimError`] if the scenario is contradictory, or if a check failed.
    pub fn run(&self) -> Result<SimReport, SimError> {
        let mut simulation = Simulation::new(self)?;
        let run = simulation.turn()?;
        simulation.report(run)
    }

    fn host_of(&self, peer: Peer) -> HostIndex {
        match peer {
            Peer::Supervisor => SUPERVISOR,
            Peer::Source(id) => usize::from(id.number()),
            Peer::Builder(id) => usize::from(self.sources) + usize::from(id.number()),
        }
    }

    /// Returns all peers and their programs, in the order of [`Self::host_of`].
    fn programs(&self, plan: &RunPlan) -> Vec<(Peer, Program)> {
        let HostModel { source, builder, .. } = &self.network.hosts;
        let sources = plan.sources.iter().map(|id| (Peer::Source(*id), source.clone()));
        let builders = plan.builders.iter().map(|id| (Peer::Builder(*id), builder.clone()));
        core::iter::once((Peer::Supervisor, source.clone())).chain(sources).chain(builders).collect()
    }

    /// Returns the span within which a builder keeps bytes of a lane that arrive out of order: all
    /// bytes that may be under way, and at least a mebibyte.
    fn reassembly(&self, builder: BuilderIndex) -> Bytes {
        match self.budget(builder) {
            Bytes::MAX => Bytes::mib(1),
            budget => budget.max(Bytes::mib(1)),
        }
    }

    /// Returns the largest number of bytes that a builder may have outstanding.
    fn budget(&self, builder: BuilderIndex) -> Bytes {
        match *self.shaping_of(builder) {
            Shaping::Credit { budget, .. } => budget,
            Shaping::Window { window } => windows_buffer(self.sources.into(), window, &self.cost()),
            Shaping::TokenBucket(_) | Shaping::None => Bytes::MAX,
        }
    }
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, SimError> {
        Tree::check(&scenario.network.trunks).map_err(SimError::Network)?;
        let plan = scenario.plan();
        let (sources, builders) = (plan.sources.clone(), plan.builders.clone());
        let hosts = 1 + sources.len() + builders.len();
        let mut network = Network::new(scenario.network.clone(), scenario.programs(&plan), scenario.seed);
        let mut supervisor = SupervisorCore::new(plan.clone(), scenario.seed, Instant::ZERO)?;
        let workload = Workload::of_sizes(scenario.readout, scenario.sizes.clone(), scenario.seed);
        let peers =
            sources.iter().map(|id| Peer::Source(*id)).chain(builders.iter().map(|id| Peer::Builder(*id)));
        let (mut ends, mut parameters) = (Vec::new(), Vec::new());
        for peer in peers {
            parameters.push(register(&mut supervisor, peer, scenario)?);
            ends.push((peer, network.connect(SUPERVISOR, scenario.host_of(peer))));
        }
        let mut connect = |from, to| connect_lane(&mut network, scenario.transport, from, to);
        let lanes: Vec<Vec<(LaneEnd, LaneEnd)>> = (0..sources.len())
            .map(|source| (0..builders.len()).map(|b| connect(1 + source, 1 + sources.len() + b)).collect())
            .collect();
        let cost = scenario.cost();
        let source_hosts = (0..sources.len()).map(|index| {
            let core =
                SourceCore::new(source_config(scenario, &plan, index, &parameters[index]), Instant::ZERO);
            let pacing = Pacing {
                link: scenario.link.clone(),
                ..Pacing::uniform(scenario.shaping.pace(), builders.len(), cost)
            };
            let own = lanes[index].iter().map(|(own, _)| *own).collect();
            let (core, control) = (PacedSource::new(core, pacing), ends[index].1.1);
            SourceHost::new(core, 1 + index, index, control, own, workload.clone())
        });
        let first = builder_config(scenario, &plan, 0, &parameters[sources.len()]);
        let memory_bound = ShapedBuilder::memory_bound(&first);
        let builder_hosts = (0..builders.len()).map(|index| {
            let config = builder_config(scenario, &plan, index, &parameters[sources.len() + index]);
            let at = BuilderIndex::new(index);
            let policy = scenario.shaping_of(at).policy(sources.len(), cost, index);
            let mut core = ShapedBuilder::new(config, policy, Instant::ZERO);
            core.handle_registered(Instant::ZERO, Instant::ZERO);
            let own: Vec<_> = lanes.iter().map(|of_source| of_source[index].1).collect();
            let (host, control) = (1 + sources.len() + index, ends[sources.len() + index].1.1);
            BuilderHost::new(core, (host, at), control, &own, scenario.sink, scenario.budget(at))
        });
        let mut simulation = Self {
            scenario,
            sources: source_hosts.collect(),
            builders: builder_hosts.collect(),
            supervisor: SupervisorHost::new(
                supervisor,
                SUPERVISOR,
                ends.iter().map(|(peer, (own, _))| (*peer, *own)).collect(),
                sources.len(),
            ),
            ledger: Ledger::new(workload, scenario.sources, scenario.builders),
            memory_bound,
            network,
        };
        simulation.connect_lanes()?;
        (0..hosts).for_each(|host| simulation.network.wake_at(host, Instant::ZERO));
        Ok(simulation)
    }

    /// Performs the handshakes of all lanes, which take no simulated time.
    fn connect_lanes(&mut self) -> Result<(), SimError> {
        for (builder, host) in self.builders.iter_mut().enumerate() {
            for (lane, source) in self.sources.iter_mut().enumerate() {
                let state = host.core().handle_lane_connected(LaneIndex::new(lane), Instant::ZERO);
                let outcome = source.core().core_mut().handle_lane_connected(
                    LaneIndex::new(builder),
                    state.received,
                    state.announced,
                );
                outcome.map_err(|error| self.scenario.broken(Instant::ZERO, 1 + lane, error.to_string()))?;
                if self.scenario.transport == Transport::Udp {
                    associate(self.scenario, (source, lane), (host, builder));
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<RunReport, SimError> {
        let (mut progress, mut progress_at) = (0, Instant::ZERO);
        let patience = self.scenario.deadline + PATIENCE;
        while let Some(host) = self.network.advance() {
            let now = self.network.now();
            let outcome = match host.checked_sub(1) {
                None => self.supervisor.run(&mut self.network),
                Some(source) if source < self.sources.len() => {
                    self.sources[source].run(&mut self.network).map(|()| None)
                }
                Some(other) => {
                    let builder = &mut self.builders[other - self.sources.len()];
                    builder.run(&mut self.network, &mut self.ledger).map(|()| None)
                }
            };
            if let Some(report) = outcome.map_err(|what| self.scenario.broken(now, host, what))? {
                return Ok(report);
            }
            if self.ledger.count() > progress {
                (progress, progress_at) = (self.ledger.count(), now);
            } else if now.since(progress_at) > patience {
                let what = format!("no event was built since {progress_at}, after {progress} events");
                return Err(self.scenario.broken(now, host, what));
            }
        }
        let what = "no further step is scheduled, and the run is not over".to_owned();
        Err(self.scenario.broken(self.network.now(), SUPERVISOR, what))
    }
}

impl Scenario {
    fn broken(&self, at: Instant, host: HostIndex, what: String) -> SimError {
        let plan = self.plan();
        let builder = host.checked_sub(1 + plan.sources.len()).and_then(|index| plan.builders.get(index));
        let source = host.checked_sub(1).and_then(|index| plan.sources.get(index));
        let who = source.map(|id| Peer::Source(*id)).or_else(|| builder.map(|id| Peer::Builder(*id)));
        SimError::Broken { seed: self.seed, at, who: who.unwrap_or(Peer::Supervisor), what }
    }
}

/// Associates both ends of a lane over datagrams. Both ends are told the round-trip time that a
/// real handshake would have measured.
fn associate(
    scenario: &Scenario,
    (source, lane): (&mut SourceHost, usize),
    (host, builder): (&mut BuilderHost, usize),
) {
    let association = Association {
        epoch: Epoch::new(1),
        source: source.core().core().config().id,
        builder: host.core().config().id,
        connection: (builder << 16 | lane) as u32,
    };
    let (estimate, datagram) = (Some(scenario.round_trip()), scenario.network.mtu as usize - IPV4_UDP);
    let reassembly = scenario.reassembly(BuilderIndex::new(builder));
    host.associate(LaneIndex::new(lane), association, estimate, reassembly);
    source.associate(LaneIndex::new(builder), association, estimate, datagram);
}

fn register(core: &mut SupervisorCore, peer: Peer, scenario: &Scenario) -> Result<RunParameters, SimError> {
    let mut hello = hello(peer);
    match peer {
        Peer::Source(id) => {
            hello.max_fragment = scenario.size(usize::from(id.number()) - 1).largest().count()
        }
        Peer::Builder(_) => hello.listen = format!("{peer}:7101").replace(' ', "-"),
        Peer::Supervisor => {}
    }
    let welcome = core
        .register(&hello, Instant::ZERO)
        .map_err(|refusal| SimError::Refused { peer, detail: refusal.detail })?;
    Ok(welcome.parameters.unwrap_or_default())
}

/// Creates the two ends of a lane between two hosts.
fn connect_lane(network: &mut Network, transport: Transport, from: usize, to: usize) -> (LaneEnd, LaneEnd) {
    match transport {
        Transport::Tcp => {
            let (own, other) = network.connect(from, to);
            (LaneEnd::Stream(own), LaneEnd::Stream(other))
        }
        Transport::Udp => {
            let (own, other) = network.connect_sockets(from, to);
            (LaneEnd::Datagrams(own), LaneEnd::Datagrams(other))
        }
    }
}

fn source_config(
    scenario: &Scenario,
    plan: &RunPlan,
    index: usize,
    told: &RunParameters,
) -> SourceCoreConfig {
    SourceCoreConfig {
        id: plan.sources[index],
        max_fragment: scenario.size(index).largest(),
        orphan_timeout: Duration::from_nanos(told.orphan_timeout_ns),
        heartbeat: Duration::from_nanos(told.heartbeat_ns),
        builders: plan.builders.clone(),
        on_demand: true,
        decided: evb_core::id::EventId::new(told.decided),
        deadline: scenario.deadline,
        queue_delay: scenario.queue_delay(),
        report_period: Duration::from_nanos(told.report_ns),
    }
}

fn builder_config(
    scenario: &Scenario,
    plan: &RunPlan,
    index: usize,
    told: &RunParameters,
) -> BuilderCoreConfig {
    BuilderCoreConfig {
        run_id: RunId::new(1),
        id: plan.builders[index],
        run: RunNumber::new(1),
        epoch: Epoch::new(1),
        slots: told.slots as usize,
        deadline: Duration::from_nanos(told.deadline_ns),
        heartbeat: Duration::from_nanos(told.heartbeat_ns),
        shared_clock: told.shared_clock,
        lease: Duration::from_nanos(told.lease_ns),
        sources: plan.sources.clone(),
        max_fragment: (0..plan.sources.len()).map(|source| scenario.size(source).largest()).collect(),
        queue_delay: scenario.queue_delay(),
        report_period: Duration::from_nanos(told.report_ns),
    }
}
