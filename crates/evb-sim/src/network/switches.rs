//! [`Switches`]: the switches of a network, their ports, and the way from each to each host.

use evb_core::{
    id::Peer,
    time::Instant,
    units::{Bytes, Rate},
};

use super::{
    HostIndex, NetworkModel,
    frames::FrameTicket,
    tree::{Service, SwitchIndex, Tree},
};
use crate::{
    link::Link,
    switch::{Losses, NodeReport, OutputPort, Port, PortCounters, Queues, TurnsPort},
    world::LineIndex,
};

/// Index of a port. The ports to the hosts come first, in the order of the hosts; the upper and the
/// lower direction of each trunk follow.
pub(super) type PortIndex = u32;

/// The link by which a frame came to a switch, as one number for all links of hosts.
pub(super) type Via = PortIndex;

/// The link of any host of a switch.
pub(super) const ANY_HOST: Via = Via::MAX;

/// All switches.
#[derive(Debug)]
pub(crate) struct Switches {
    ports: Vec<Port<FrameTicket>>,
    /// The peer of each host.
    peers: Vec<Peer>,
    /// The names of the trunks.
    trunks: Vec<String>,
    /// For each host, its switch.
    homes: Vec<SwitchIndex>,
    /// For each trunk, the switch at its upper end.
    upper: Vec<SwitchIndex>,
    /// For each switch, the port of the way to each other switch.
    routes: Vec<Vec<PortIndex>>,
    losses: Losses,
}

impl Switches {
    /// Creates the switches of a network with the given hosts. The seed determines random losses.
    pub(super) fn new(model: &NetworkModel, peers: &[Peer], seed: u64) -> Self {
        let tree = Tree::new(&model.trunks);
        let homes: Vec<_> = peers.iter().map(|peer| tree.home(*peer)).collect();
        let upper: Vec<_> = (0..model.trunks.len()).map(|trunk| tree.upper(trunk)).collect();
        let hosts = peers.len() as PortIndex;
        let ports = Building { model, homes: &homes, upper: &upper, hosts }.ports(peers);
        let towards = |from: SwitchIndex, to: SwitchIndex| {
            let path = tree.path(from, to);
            let down = path.down.last().map(|trunk| hosts + 2 * *trunk as PortIndex + 1);
            path.up.first().map(|trunk| hosts + 2 * *trunk as PortIndex).or(down).unwrap_or(hosts)
        };
        let all = 0..tree.switches();
        let routes = all.clone().map(|from| all.clone().map(|to| towards(from, to)).collect()).collect();
        let trunks = model.trunks.iter().map(|trunk| trunk.name.clone()).collect();
        Self {
            ports,
            peers: peers.to_vec(),
            trunks,
            homes,
            upper,
            routes,
            losses: Losses::new(model.loss, seed),
        }
    }

    /// Returns the number of links, each of which carries frames in one direction: first those
    /// behind the ports, by the index of the port, then those from the hosts.
    pub(super) fn lines(&self) -> usize {
        self.ports.len() + self.homes.len()
    }

    /// Returns the link from a host to its switch.
    pub(super) fn line_of_uplink(&self, host: HostIndex) -> LineIndex {
        (self.ports.len() + host) as LineIndex
    }

    /// Returns the switch of a host.
    pub(super) fn home(&self, host: HostIndex) -> SwitchIndex {
        self.homes[host]
    }

    /// Returns the port by which a switch forwards frames for a host.
    pub(super) fn towards(&self, switch: SwitchIndex, host: HostIndex) -> PortIndex {
        match self.homes[host] {
            home if home == switch => host as PortIndex,
            home => self.routes[switch][home],
        }
    }

    /// Returns the switch to which a port sends; `None` for a host's port.
    pub(super) fn beyond(&self, port: PortIndex) -> Option<SwitchIndex> {
        let trunk = (port as usize).checked_sub(self.homes.len())?;
        let is_up = trunk.is_multiple_of(2);
        Some(if is_up { self.upper[trunk / 2] } else { trunk / 2 + 1 })
    }

    /// Returns true if the network loses a frame at random.
    pub(super) fn lose(&mut self) -> bool {
        self.losses.strike()
    }

    /// Passes a frame to a port that serves frames in the order of their arrival, and returns the
    /// time of the frame's arrival at the far end. With turns, the frame waits, and
    /// [`Self::next`] returns it. Returns `None` if the port drops the frame.
    pub(super) fn enqueue(
        &mut self,
        port: PortIndex,
        via: Via,
        ticket: FrameTicket,
        now: Instant,
    ) -> Option<Queued> {
        match &mut self.ports[port as usize].queues {
            Queues::Arrivals(port) => port.enqueue(ticket.bytes(), now).map(Queued::Arrives),
            Queues::Turns(port) => port.enqueue(via, ticket, ticket.bytes()).then_some(Queued::Waits),
        }
    }

    /// Begins to send the next frame of a port with turns, unless the port is busy. Returns the
    /// frame, and the times at which its last bit leaves and arrives.
    pub(super) fn next(&mut self, port: PortIndex, now: Instant) -> Option<(FrameTicket, Instant, Instant)> {
        match &mut self.ports[port as usize].queues {
            Queues::Arrivals(_) => None,
            Queues::Turns(port) => port.next(now),
        }
    }

    /// Handles the departure of the last bit of a frame at a port with turns.
    pub(super) fn handle_left(&mut self, port: PortIndex) {
        if let Queues::Turns(port) = &mut self.ports[port as usize].queues {
            port.handle_left();
        }
    }

    /// Returns the counters of the ports to the hosts, in the order of the hosts.
    pub(crate) fn host_ports(&self) -> Vec<PortCounters> {
        self.ports[..self.homes.len()].iter().map(Port::counters).collect()
    }

    /// Returns the reports of the ports to builders and of both directions of the trunks.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        let builders = self.peers.iter().map(|peer| match peer {
            Peer::Builder(_) => Some((peer.to_string(), false)),
            _ => None,
        });
        let trunks =
            self.trunks.iter().flat_map(|name| ["up", "down"].map(|to| Some((format!("{name} {to}"), true))));
        let named = builders.chain(trunks).zip(&self.ports);
        named.filter_map(|(name, port)| name.map(|(name, is_trunk)| port.report(name, is_trunk))).collect()
    }

    /// Returns the number of frames lost at random.
    pub(crate) fn lost(&self) -> u64 {
        self.losses.count()
    }
}

/// The fate of a frame that a port accepted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Queued {
    /// The frame arrives at the far end at the given time.
    Arrives(Instant),
    /// The frame waits for its turn.
    Waits,
}

/// The places of hosts and trunks, from which the ports are made.
struct Building<'a> {
    model: &'a NetworkModel,
    homes: &'a [SwitchIndex],
    upper: &'a [SwitchIndex],
    /// Number of hosts, and index of the first port of a trunk.
    hosts: PortIndex,
}

impl Building<'_> {
    fn ports(&self, peers: &[Peer]) -> Vec<Port<FrameTicket>> {
        let to_host = |(host, peer): (usize, &Peer)| {
            let links = self.incoming(self.homes[host], None, Some(host));
            self.port(self.model.port_rate(*peer), self.model.port_buffer, links)
        };
        let mut ports: Vec<Port<FrameTicket>> = peers.iter().enumerate().map(to_host).collect();
        for (position, trunk) in self.model.trunks.iter().enumerate() {
            let lower = position + 1;
            let up = self.incoming(lower, Some(position), None);
            let down = self.incoming(self.upper[position], Some(position), None);
            ports.push(self.port(trunk.rate, trunk.buffer, up));
            ports.push(self.port(trunk.rate, trunk.buffer, down));
        }
        ports
    }

    /// Returns the links by which frames come to a switch that leave it by the trunk `out`, or to
    /// the host `to`.
    fn incoming(&self, switch: SwitchIndex, out: Option<usize>, to: Option<HostIndex>) -> Vec<Via> {
        let below = (0..self.upper.len()).filter(|trunk| self.upper[*trunk] == switch);
        let below = below.filter(|trunk| Some(*trunk) != out).map(|trunk| self.upwards(trunk));
        // Switch n + 1 hangs on trunk n.
        let above = switch.checked_sub(1).filter(|trunk| Some(*trunk) != out);
        let above = above.map(|trunk| self.downwards(trunk));
        let mut hosts = (0..self.homes.len()).filter(|host| Some(*host) != to);
        let locals = hosts.any(|host| self.homes[host] == switch).then_some(ANY_HOST);
        below.chain(above).chain(locals).collect()
    }

    /// Returns the direction of a trunk from its lower switch to its upper one.
    fn upwards(&self, trunk: usize) -> Via {
        self.hosts + 2 * trunk as Via
    }

    /// Returns the direction of a trunk from its upper switch to its lower one.
    fn downwards(&self, trunk: usize) -> Via {
        self.upwards(trunk) + 1
    }

    fn port(&self, rate: Rate, buffer: Bytes, incoming: Vec<Via>) -> Port<FrameTicket> {
        let link = Link::new(rate, self.model.latency).with_bucket(self.model.bucket);
        let limit = buffer.saturating_sub(self.model.bucket);
        let queues = match self.model.service {
            Service::Turns if incoming.len() > 1 => {
                Queues::Turns(TurnsPort::new(link, limit, incoming, self.model.mtu))
            }
            _ => Queues::Arrivals(OutputPort::new(link, limit)),
        };
        Port { rate, buffer, queues }
    }
}
