//! [`Scenario`]: all parameters of the runs of a simulated system.

mod draw;

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::{
    id::{BuilderId, Epoch, EventId, Peer, RunNumber, SourceId},
    supervisor::{AssignmentPolicy, Group, RunPlan, SourceLoss},
    transport::Transport,
    trigger::TriggerKind,
    units::{Bytes, Rate},
    wire::datagram::IPV4_UDP,
};
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
    sums::windows_buffer,
};

use super::{conditions::Conditions, fault::Planned, network::NodeIndex};
use crate::{boards::Boards, workload::Readout};

/// Number of times that a process may run at one instant without being considered stuck. Bytes that
/// arrive in pieces may make a process run several times at one instant.
pub(crate) const TURNS: u32 = 1000;

/// Time for which a source or builder tries to join a run. In production, the configuration sets
/// this time.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which builders' slots are checked.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// Time beyond the deadline after which a slot is stuck that waits for what nothing need bring.
pub(crate) const STUCK: Duration = Duration::from_secs(1);

/// The largest size of an IP packet, in bytes.
pub(crate) const MTU: u32 = 1500;

/// Length of the longest datagram.
pub(crate) const DATAGRAM: usize = MTU as usize - IPV4_UDP;

/// Buffer bytes that a port needs in addition to the budget, for announcements and other records,
/// which the budget does not cover.
const CONTROL: usize = 16 << 10;

/// The way in which readout produces its fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushes {
    /// Readout makes a fragment whenever the source asks for it, even repeatedly.
    OnDemand,
    /// Readout pushes the fragment of an event on its own, some time after the event was assigned.
    Late,
    /// Readout pushes fragments before their events are assigned, as far as the source's backlog
    /// permits.
    Ahead,
}

/// The condition that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The run ends after the given number of assigned events.
    Events(u64),
    /// The run ends after the given time.
    Duration(Duration),
    /// The run ends when an operator stops it.
    Stop,
}

/// The parameters of simulated runs of a whole system, including the faults. Equal scenarios give
/// equal traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Seed of all random choices.
    pub seed: u64,
    /// Transport of the lanes.
    pub transport: Transport,
    /// Number of sources, with ids from 1, each on its own host.
    pub sources: u16,
    /// Number of builders that take part from the beginning.
    pub builders: u16,
    /// Number of further builders that may be added during a run.
    pub spares: u16,
    /// Largest number of events outstanding per builder.
    pub slots: u32,
    /// Number of consecutive events that are assigned to the same builder.
    pub run_length: u32,
    /// Policy that assigns events to builders.
    pub policy: AssignmentPolicy,
    /// Shaping of the traffic, which limits the bytes under way to a builder.
    pub shaping: Shaping,
    /// Sizes and delays of the sources' fragments.
    pub readout: Readout,
    /// The way in which readout pushes fragments.
    pub pushes: Pushes,
    /// Number of events by which readout runs ahead of decisions, for [`Pushes::Ahead`].
    pub ahead: u64,
    /// Kind of trigger.
    pub trigger: TriggerKind,
    /// The condition that ends each run.
    pub end: End,
    /// Time after which an operator stops a run that has not ended before.
    pub stop_after: Duration,
    /// Number of successive runs with the same hosts.
    pub runs: u32,
    /// Time for which builders wait for fragments that are not announced.
    pub deadline: Duration,
    /// Time beyond the deadline for which the end of a run waits for open events.
    pub drain_grace: Duration,
    /// Policy for events whose source is lost.
    pub on_source_loss: SourceLoss,
    /// True if the supervisor keeps a journal.
    pub has_journal: bool,
    /// Number of entries above which the journal is replaced by a snapshot.
    pub compact_at: usize,
    /// True if both ends of a lane over datagrams know a round-trip time, as measured on the lane's
    /// TCP connection.
    pub knows_round_trip: bool,
    /// True if each read from a lane's stream returns only some of the bytes that have arrived,
    /// which must change nothing, and if datagrams of a source find their socket full at times.
    pub is_torn: bool,
    /// Given if one process leads run after run under run control, which begins each run at the
    /// operator's request or, if true, the first one by itself.
    pub run_control: Option<bool>,
    /// State of the network while no fault changes it.
    pub weather: Conditions,
    /// Time that a sink takes to write an event.
    pub write: Duration,
    /// Time that a sink takes to commit a batch of events.
    pub commit: Duration,
    /// Time for which writes to a full disk are retried at the end of a run.
    pub give_up: Duration,
    /// Divisor of the event ids that the filter rejects; with 0, it rejects no event.
    pub filter: u64,
    /// Sources without which events are complete.
    pub expendable: Vec<SourceId>,
    /// Sources that owe nothing, with the time for which events wait for them.
    pub sporadic: BTreeMap<SourceId, Duration>,
    /// Groups of sources of which a least number must take part.
    pub groups: Vec<Group>,
    /// The boards, if the timestamps of events are compared.
    pub boards: Option<Boards>,
    /// The faults of all runs, in order of time.
    pub faults: Vec<Planned>,
}

impl Scenario {
    /// Returns the random scenario of a seed, with the given transport or, if it is `None`, a
    /// random one.
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
        PacketCost::of(self.transport, MTU, CELL)
    }

    /// Returns the largest number of bytes that may be under way to a builder.
    pub(crate) fn budget(&self) -> Bytes {
        match self.shaping {
            Shaping::Credit { budget, .. } => budget,
            Shaping::Window { window } => windows_buffer(self.sources.into(), window, &self.cost()),
            Shaping::TokenBucket(_) | Shaping::None => Bytes::MAX,
        }
    }

    /// Returns the buffer of a switch port in bytes: 4 ms of traffic on its link, and at least as
    /// much as the budget requires.
    pub(crate) fn port(&self) -> usize {
        let usual = self.weather.bandwidth as usize / 250;
        let needed = match self.budget() {
            Bytes::MAX => 0,
            budget => budget.count() as usize + CONTROL,
        };
        usual.max(needed)
    }

    /// Returns the longest time that data may wait in full queues, computed as `evbd` does from a
    /// configuration.
    pub(crate) fn queue_delay(&self) -> Duration {
        let link = Rate::from_bits_per_second(self.weather.bandwidth * 8);
        let held = Bytes::new(self.port() as u64);
        self.shaping.longest_queue(held, link, (self.builders + self.spares).into())
    }

    pub(crate) fn rejects(&self, event: EventId) -> bool {
        self.filter > 0 && event.number().is_multiple_of(self.filter)
    }

    /// Returns the supervisor's plan for the run with number `run`, counted from 0, under the given
    /// epoch.
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
            // The supervisor waits longer than any fault lasts, so that it never gives up a peer
            // for good.
            give_up_after: Duration::from_secs(120),
            start_timeout: Duration::from_secs(60),
            // With [`Pushes::Ahead`], fragments must be kept until their triggers come, even if
            // triggers are rare.
            orphan_timeout: Duration::from_secs(60),
            events: match self.end {
                End::Events(events) => Some(events),
                End::Duration(_) | End::Stop => None,
            },
            duration: match self.end {
                End::Duration(duration) => Some(duration),
                End::Events(_) | End::Stop => None,
            },
            expendable: self.expendable.iter().copied().collect(),
            sporadic: self.sporadic.clone(),
            groups: self.groups.clone(),
            clocks: self.boards.as_ref().map(Boards::declared).unwrap_or_default(),
            ..RunPlan::new(RunNumber::new(run + 1), epoch, sources, builders)
        }
    }
}

/// Returns the network address of a host, at which its process accepts connections.
pub(crate) fn address_of_node(node: NodeIndex) -> String {
    format!("node-{node}:7101")
}

/// Returns the host with the given network address.
pub(crate) fn node_of_address(address: &str) -> Option<NodeIndex> {
    address.strip_prefix("node-")?.strip_suffix(":7101")?.parse().ok()
}
