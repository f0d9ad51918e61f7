//! [`Network`]: simulated hosts, their connections and datagrams, and the queue of scheduled
//! events.

mod connection;
mod datagrams;

use core::{cmp::Reverse, time::Duration};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use bytes::Bytes;
use evb_core::{
    id::SourceId,
    rng::Rng,
    session::{CONTROL_UNACKNOWLEDGED, LANE_UNACKNOWLEDGED},
    time::Instant,
};

use super::{
    conditions::{Conditions, below},
    trace::Trace,
};

pub(crate) use connection::{ConnectionKind, EndId};
pub(crate) use datagrams::{Address, FULL_AGAIN};

use connection::Connection;

/// Index of a host. The supervisor's host is 0; the sources' and then the builders' hosts follow.
pub(crate) type NodeIndex = usize;

/// A scheduled action of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// A fault begins.
    Begin(usize),
    /// A fault ends.
    End(usize),
    /// A process is started on a host, if it has none.
    Start(NodeIndex),
    /// Some external triggers arrive.
    Trigger { run: u32 },
    /// An operator starts the run.
    BeginRun { run: u32 },
    /// The run is stopped.
    Stop { run: u32 },
    /// A builder that left is added again.
    Return { run: u32, node: NodeIndex },
    /// A source is included again.
    Include { source: SourceId },
    /// The next run is opened.
    Open { run: u32 },
}

/// A scheduled event of the simulation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// A host's process runs, at a time that it asked for or because something has arrived.
    Wake(NodeIndex),
    /// The next piece of a stream arrives at the given end of a connection.
    Piece(EndId),
    /// A datagram arrives.
    Datagram { from: Address, to: Address, bytes: Bytes },
    /// A connection has transferred nothing for so long that the kernels give it up.
    TimedOut { connection: usize, cuts: u32 },
    /// An action of the scenario, which the caller carries out.
    World(Act),
}

/// The network interface of a host.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// True if the host is disconnected from the network.
    pub(crate) is_cut: bool,
    /// True if a process of the host accepts connections.
    pub(crate) listens: bool,
    /// New connections that the process has not taken over yet.
    pub(crate) accepted: Vec<EndId>,
    ports: BTreeMap<u32, VecDeque<(Address, Bytes)>>,
    wake_at: Option<Instant>,
    /// Time at which the host's link has sent all queued bytes.
    free_at: Instant,
    /// Time at which the queue of the switch port in front of the host is empty.
    drained_at: Instant,
    /// Number of the host's next datagrams that are lost, until the given time.
    losing: (u32, Instant),
}

/// Counts of datagrams that were sent, lost, repeated, delayed and damaged by the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) delayed: u64,
    pub(crate) damaged: u64,
}

#[derive(Debug)]
pub(crate) struct Network {
    now: Instant,
    queue: BinaryHeap<Reverse<(Instant, u64, Happening)>>,
    order: u64,
    rng: Rng,
    /// Draws the lengths of reads and the times at which a socket is full, if there are such times.
    tears: Option<Rng>,
    pub(crate) weather: Conditions,
    /// Buffer of a switch port, in bytes; datagrams that do not fit are dropped.
    port: usize,
    pub(crate) nodes: Vec<Node>,
    connections: Vec<Connection>,
    /// Pairs of hosts between which the network is interrupted; the lower index is first.
    splits: BTreeSet<(NodeIndex, NodeIndex)>,
    /// Sockets whose datagrams are all lost, although TCP connections work.
    dead: BTreeSet<Address>,
    /// Counter of interruptions of the network. A timeout that was scheduled in an earlier
    /// interruption is ignored.
    cuts: u32,
    next_port: u32,
    pub(crate) fates: Fates,
    pub(crate) trace: Trace,
}

/// Linux's shortest retransmission timer (`TCP_RTO_MIN`).
const RETRANSMIT: Duration = Duration::from_millis(200);

impl Network {
    pub(crate) fn new(nodes: usize, weather: Conditions, port: usize, seed: u64, trace: Trace) -> Self {
        Self {
            now: Instant::ZERO,
            queue: BinaryHeap::new(),
            order: 0,
            rng: Rng::new(seed ^ 0x6E65_7477_6F72_6B21),
            tears: None,
            weather,
            port,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            connections: Vec::new(),
            splits: BTreeSet::new(),
            dead: BTreeSet::new(),
            cuts: 0,
            next_port: 1,
            fates: Fates::default(),
            trace,
        }
    }

    /// Makes each read from a lane's stream return a random number of the bytes that have arrived,
    /// and sockets full at random times.
    pub(crate) fn tear(&mut self, seed: u64) {
        self.tears = Some(Rng::new(seed ^ 0x746F_726E_7265_6164));
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Schedules an event at the given time.
    pub(crate) fn schedule(&mut self, at: Instant, what: Happening) {
        self.order += 1;
        self.queue.push(Reverse((at.max(self.now), self.order, what)));
    }

    /// Advances the time and handles events of the network, up to the next event that the caller
    /// must handle, and returns it.
    pub(crate) fn advance(&mut self) -> Option<Happening> {
        loop {
            let Reverse((at, order, what)) = self.queue.pop()?;
            self.now = at;
            self.trace.mix([at.as_nanos(), order]);
            match what {
                Happening::Wake(node) => {
                    if self.nodes[node].wake_at.is_some_and(|due| due <= at) {
                        self.nodes[node].wake_at = None;
                        return Some(Happening::Wake(node));
                    }
                }
                Happening::Piece(end) => self.arrive(end),
                Happening::Datagram { from, to, bytes } => self.deliver(from, to, bytes),
                Happening::TimedOut { connection, cuts } => self.time_out(connection, cuts),
                Happening::World(_) => return Some(what),
            }
        }
    }

    /// Schedules a host's process to run at the given time, unless it is scheduled earlier.
    pub(crate) fn wake_at(&mut self, node: NodeIndex, at: Instant) {
        let at = at.max(self.now);
        if self.nodes[node].wake_at.is_none_or(|due| at < due) {
            self.nodes[node].wake_at = Some(at);
            self.schedule(at, Happening::Wake(node));
        }
    }

    /// Schedules a host's process to run shortly after something has arrived for it.
    fn stir(&mut self, node: NodeIndex) {
        let at = self.now + below(Duration::from_micros(20), &mut self.rng);
        self.wake_at(node, at);
    }

    /// Disconnects a host from the network.
    pub(crate) fn cut(&mut self, node: NodeIndex) {
        self.nodes[node].is_cut = true;
        self.begin_timeouts(|connection| connection.touches(node));
    }

    /// Interrupts the network between two hosts; both can still reach all other hosts.
    pub(crate) fn split(&mut self, a: NodeIndex, b: NodeIndex) {
        self.splits.insert((a.min(b), a.max(b)));
        self.begin_timeouts(|connection| connection.touches(a) && connection.touches(b));
    }

    /// Ends the interruption between two hosts.
    pub(crate) fn join(&mut self, a: NodeIndex, b: NodeIndex) {
        self.splits.remove(&(a.min(b), a.max(b)));
        self.end_timeouts(|connection| connection.touches(a) && connection.touches(b));
    }

    /// Makes the network lose all datagrams of the sockets that a host has open now.
    pub(crate) fn kill_sockets(&mut self, node: NodeIndex) {
        let ports = self.nodes[node].ports.keys().map(|port| Address::new(node, *port));
        self.dead.extend(ports);
    }

    fn is_parted(&self, a: NodeIndex, b: NodeIndex) -> bool {
        self.nodes[a].is_cut || self.nodes[b].is_cut || self.splits.contains(&(a.min(b), a.max(b)))
    }

    fn begin_timeouts(&mut self, is_meant: impl Fn(&Connection) -> bool) {
        self.cuts += 1;
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.is_over() || !is_meant(connection) {
                continue;
            }
            connection.cuts = self.cuts;
            let limit = match connection.kind {
                ConnectionKind::Control => CONTROL_UNACKNOWLEDGED,
                ConnectionKind::Lane => LANE_UNACKNOWLEDGED,
            };
            let at = self.now + limit;
            self.schedule(at, Happening::TimedOut { connection: index, cuts: self.cuts });
        }
    }

    /// Connects a host to the network again; waiting traffic arrives when the kernels retry.
    pub(crate) fn heal(&mut self, node: NodeIndex) {
        self.nodes[node].is_cut = false;
        self.end_timeouts(|connection| connection.touches(node));
    }

    fn end_timeouts(&mut self, is_meant: impl Fn(&Connection) -> bool) {
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if !is_meant(connection) {
                continue;
            }
            connection.cuts = 0;
            let again = self.now + below(2 * RETRANSMIT, &mut self.rng);
            for side in 0..2 {
                if self.connections[index].stall(side, again) {
                    self.schedule(again, Happening::Piece(EndId { connection: index, side }));
                }
            }
        }
    }

    /// Returns a random number below `bound`, for decisions outside of the network.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }
}
