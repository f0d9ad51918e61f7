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

/// The most turns that a host may take at one instant, since bytes come in pieces.
pub(crate) const TURNS: u32 = 1000;

/// Time for which a role tries to join, which a configuration would set.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest packet.
pub(crate) const MTU: u32 = 1500;

/// Bytes that a port needs beyond the budget, which does not cover announcements and other records.
const CONTROL: usize = 16 << 10;

/// The way in which readout produces its fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushes {
    /// It makes fragments when the source asks for them, again if asked again.
    OnDemand,
    /// It pushes the fragments of assigned events some time later, without being asked.
    Late,
    /// It pushes before the decision, as far as its backlog permits.
    Ahead,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After that number of assigned events.
    Events(u64),
    /// After that time.
    Duration(Duration),
    /// On an operator's request.
    Stop,
}

/// Runs of a whole system, with their faults. Equal scenarios give equal traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Seed of everything random.
    pub seed: u64,
    /// Transport of the lanes.
    pub transport: Transport,
    /// Number of sources, with ids from 1, each on its own host.
    pub sources: u16,
    /// Number of builders that take part from the beginning, all alike.
    pub builders: u16,
    /// Number of builders that may be added.
    pub spares: u16,
    /// Events outstanding per builder.
    pub slots: u32,
    /// Number of consecutive events that go to one builder.
    pub run_length: u32,
    /// Policy that assigns events to builders.
    pub policy: AssignmentPolicy,
    /// Shaping, which bounds the bytes under way to a builder.
    pub shaping: Shaping,
    /// Sizes and delays of the sources' fragments.
    pub readout: Readout,
    /// The time at which readout pushes.
    pub pushes: Pushes,
    /// Number of events by which readout runs ahead of decisions, if it does.
    pub ahead: u64,
    /// Kind of trigger.
    pub trigger: TriggerKind,
    /// The end of a run.
    pub end: End,
    /// Time after which a run that does not end by itself is stopped.
    pub stop_after: Duration,
    /// Number of successive runs of the same hosts.
    pub runs: u32,
    /// Time for which builders wait for fragments that are not announced.
    pub deadline: Duration,
    /// Time for which a drain waits beyond the deadline.
    pub drain_grace: Duration,
    /// Policy for events whose source is lost.
    pub on_source_loss: SourceLoss,
    /// True if the supervisor keeps a journal.
    pub has_journal: bool,
    /// Number of entries from which the journal is replaced by a snapshot.
    pub compact_at: usize,
    /// True if both ends of a lane over datagrams know a round trip from its connection.
    pub knows_round_trip: bool,
    /// State of the network without faults.
    pub weather: Weather,
    /// Time that a sink takes for an event.
    pub write: Duration,
    /// Time that a sink takes to commit.
    pub commit: Duration,
    /// Time for which a failing sink is retried at the end of a run.
    pub give_up: Duration,
    /// The filter rejects every event whose id is a multiple of this; 0: none.
    pub filter: u64,
    /// The faults.
    pub faults: Vec<Planned>,
}

impl Scenario {
    /// Returns the scenario of a seed, over that transport if one is given.
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

    /// Returns the most bytes that may be under way to a builder.
    pub(crate) fn budget(&self) -> Bytes {
        match self.shaping {
            Shaping::Credit { budget, .. } => budget,
            Shaping::Window { window } => windows_buffer(self.sources.into(), window, &self.cost()),
            Shaping::TokenBucket(_) | Shaping::None => Bytes::MAX,
        }
    }

    /// Returns the bytes that a switch's port holds: 4 ms of its link, and at least what an
    /// admitted configuration needs.
    pub(crate) fn port(&self) -> usize {
        let usual = self.weather.bandwidth as usize / 250;
        let needed = match self.budget() {
            Bytes::MAX => 0,
            budget => budget.count() as usize + CONTROL,
        };
        usual.max(needed)
    }

    /// Returns the delay of full queues, as evbd computes it from the configuration.
    pub(crate) fn queue(&self) -> Duration {
        let link = Rate::from_bits_per_second(self.weather.bandwidth * 8);
        let held = Bytes::new(self.port() as u64);
        self.shaping.longest_queue(held, link, (self.builders + self.spares).into())
    }

    pub(crate) fn rejects(&self, event: EventId) -> bool {
        self.filter > 0 && event.number().is_multiple_of(self.filter)
    }

    /// Returns the plan of a run, counted from 0, with a fresh epoch.
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
            // This is longer than any fault, so that no peer is given up for good.
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

    /// Returns the total duration of all faults of a run, without the actions of operators.
    pub(crate) fn outages(&self, run: u32) -> Duration {
        let of_run = self.faults.iter().filter(|planned| planned.run == run);
        of_run.map(|planned| outage(&planned.fault)).sum()
    }
}

/// Returns the time for which a fault may stop all progress.
fn outage(fault: &Fault) -> Duration {
    match fault {
        // Builders settle without the missing fragments; a slow disk delays a batch by that much.
        Fault::Split { .. } | Fault::Pause { .. } => Duration::ZERO,
        Fault::Disk { state: DiskState::Slow(more), .. } => *more,
        // This is the time until a lane counts as silent and is connected again.
        Fault::Deaf { .. } => Duration::from_secs(7),
        other => other.length(),
    }
}

/// Returns the address at which sources reach a builder.
pub(crate) fn address_of_node(node: NodeIndex) -> String {
    format!("node-{node}:7101")
}

/// Returns the host of an address.
pub(crate) fn node_of_address(address: &str) -> Option<NodeIndex> {
    address.strip_prefix("node-")?.strip_suffix(":7101")?.parse().ok()
}
