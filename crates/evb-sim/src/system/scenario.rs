//! [`Scenario`]: everything that fixes the runs of a simulated system.

mod draw;

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Epoch, EventId, Peer, RunNumber, SourceId},
    supervisor::{AssignmentPolicy, RunPlan, SourceLoss},
    trigger::TriggerKind,
    units::{Bytes, Rate},
};
use evb_shaper::{Shaping, cost::PacketCost, sums::windows_buffer};

use super::{
    disk::DiskState,
    fault::{Fault, Planned},
    network::NodeIndex,
    weather::Weather,
};
use crate::{scenario::Transport, workload::Readout};

/// As many turns at one instant a host may take, where bytes come in pieces.
pub(crate) const TURNS: u32 = 1000;

/// How long a role tries to join: the configuration's to say.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest packet.
pub(crate) const MTU: u32 = 1500;

/// What a port needs beyond the budget, in bytes: announcements and other records go outside of it.
const CONTROL: usize = 16 << 10;

/// How readout comes by its fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushes {
    /// It makes what the source asks for, and makes it again.
    OnDemand,
    /// It pushes what was assigned, some time later, without being asked.
    Late,
    /// It pushes before anybody has decided, as far as its backlog lets it.
    Ahead,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// When so many events are assigned.
    Events(u64),
    /// After so long.
    Duration(Duration),
    /// When somebody stops it.
    Stop,
}

/// Runs of a whole system, with everything that goes wrong in them. Equal scenarios give equal
/// traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Fixes what is left to chance.
    pub seed: u64,
    /// How lanes go over the network.
    pub transport: Transport,
    /// How many sources, with the ids from 1, each on its own host.
    pub sources: u16,
    /// How many builders take part from the beginning, alike.
    pub builders: u16,
    /// How many more may be added.
    pub spares: u16,
    /// Events outstanding per builder.
    pub slots: u32,
    /// So many consecutive events go to one builder.
    pub run_length: u32,
    /// Which builder gets the next event.
    pub policy: AssignmentPolicy,
    /// What may be under way to a builder.
    pub shaping: Shaping,
    /// What sources push.
    pub readout: Readout,
    /// And when.
    pub pushes: Pushes,
    /// How far before decisions, where it does.
    pub ahead: u64,
    /// What makes events happen.
    pub trigger: TriggerKind,
    /// When a run ends.
    pub end: End,
    /// A run that does not end by itself is stopped then.
    pub stop_after: Duration,
    /// How many runs, one after the other, by the same hosts.
    pub runs: u32,
    /// How long builders wait for fragments that are not announced.
    pub deadline: Duration,
    /// How long a drain waits beyond it.
    pub drain_grace: Duration,
    /// What becomes of events when a source goes away.
    pub on_source_loss: SourceLoss,
    /// Whether the supervisor keeps a journal.
    pub has_journal: bool,
    /// From so many entries on it is replaced by what it amounts to.
    pub compact_at: usize,
    /// Whether both ends of a lane over datagrams know a round trip from its connection.
    pub knows_round_trip: bool,
    /// How the network is while it is well.
    pub weather: Weather,
    /// How long a sink takes for an event.
    pub write: Duration,
    /// And to commit.
    pub commit: Duration,
    /// How long a sink that takes nothing is tried at the end of a run.
    pub give_up: Duration,
    /// The filter rejects one event of so many; 0: none.
    pub filter: u64,
    /// What goes wrong.
    pub faults: Vec<Planned>,
}

impl Scenario {
    /// The scenario of a seed; `transport`: over that one only.
    pub fn of_seed(seed: u64, transport: Option<Transport>) -> Self {
        draw::draw(seed, transport)
    }

    pub(crate) fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }

    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.knows_round_trip.then(|| 2 * self.weather.latency)
    }

    pub(crate) fn nodes(&self) -> usize {
        1 + usize::from(self.sources) + usize::from(self.builders) + usize::from(self.spares)
    }

    pub(crate) fn node_of(&self, peer: Peer) -> NodeIndex {
        match peer {
            Peer::Supervisor => 0,
            Peer::Source(id) => usize::from(id.number()),
            Peer::Builder(id) => usize::from(self.sources) + usize::from(id.number()),
        }
    }

    pub(crate) fn peer(&self, node: NodeIndex) -> Peer {
        let sources = usize::from(self.sources);
        match node {
            0 => Peer::Supervisor,
            node if node <= sources => Peer::Source(SourceId::new(node as u16)),
            node => Peer::Builder(BuilderId::new((node - sources) as u16)),
        }
    }

    pub(crate) fn cost(&self) -> PacketCost {
        self.transport.cost(MTU)
    }

    /// The most that may be under way to a builder.
    pub(crate) fn budget(&self) -> Bytes {
        match self.shaping {
            Shaping::Credit { budget, .. } => budget,
            Shaping::Window { window } => windows_buffer(self.sources.into(), window, &self.cost()),
            Shaping::TokenBucket(_) | Shaping::None => Bytes::MAX,
        }
    }

    /// What a switch's port holds, in bytes: 4 ms of its link, and no less than a configuration
    /// needs that is admitted.
    pub(crate) fn port(&self) -> usize {
        let usual = self.weather.bandwidth as usize / 250;
        let needed = match self.budget() {
            Bytes::MAX => 0,
            budget => budget.count() as usize + CONTROL,
        };
        usual.max(needed)
    }

    /// How long full queues delay what waits there, as evbd computes it from the configuration.
    pub(crate) fn queue(&self) -> Duration {
        let link = Rate::from_bits_per_second(self.weather.bandwidth * 8);
        let held = Bytes::new(self.port() as u64);
        self.shaping.longest_queue(held, link, (self.builders + self.spares).into())
    }

    pub(crate) fn rejects(&self, event: EventId) -> bool {
        self.filter > 0 && event.number().is_multiple_of(self.filter)
    }

    /// The plan of a run, counted from 0; the epoch is fresh.
    pub(crate) fn plan(&self, run: u32, epoch: Epoch, boot_id: &str) -> RunPlan {
        let sources = (1..=self.sources).map(SourceId::new).collect();
        let builders = (1..=self.builders).map(BuilderId::new).collect();
        RunPlan {
            boot_id: boot_id.to_owned(),
            trigger: self.trigger,
            policy: self.policy,
            run_length: self.run_length,
            slots: self.slots,
            deadline: self.deadline,
            drain_grace: self.drain_grace,
            on_source_loss: self.on_source_loss,
            journal: self.has_journal,
            // Longer than faults last: nobody is given up for good.
            give_up_after: Duration::from_secs(120),
            start_timeout: Duration::from_secs(60),
            // Readout that pushes ahead waits for its triggers, however rare they are.
            orphan_timeout: Duration::from_secs(60),
            events: match self.end {
                End::Events(events) => Some(events),
                End::Duration(_) | End::Stop => None,
            },
            duration: match self.end {
                End::Duration(duration) => Some(duration),
                End::Events(_) | End::Stop => None,
            },
            ..RunPlan::new(RunNumber::new(run + 1), epoch, sources, builders)
        }
    }

    /// How long all faults of a run last together, what people do left out.
    pub(crate) fn outages(&self, run: u32) -> Duration {
        let of_run = self.faults.iter().filter(|planned| planned.run == run);
        of_run.map(|planned| outage(&planned.fault)).sum()
    }
}

/// For how long nothing may move because of a fault.
fn outage(fault: &Fault) -> Duration {
    match fault {
        // Builders settle without what does not come; a batch takes that much longer.
        Fault::Split { .. } | Fault::Pause { .. } => Duration::ZERO,
        Fault::Disk { state: DiskState::Slow(more), .. } => *more,
        // Until a lane is taken for silent, and connected anew.
        Fault::Deaf { .. } => Duration::from_secs(7),
        other => other.length(),
    }
}

/// Where sources reach a builder.
pub(crate) fn address_of_node(node: NodeIndex) -> String {
    format!("node-{node}:7101")
}

/// Which host that is.
pub(crate) fn node_of_address(address: &str) -> Option<NodeIndex> {
    address.strip_prefix("node-")?.strip_suffix(":7101")?.parse().ok()
}
