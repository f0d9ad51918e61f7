//! [`Network`]: hosts around one switch, streams and datagrams between them, and when a host is to run.

mod datagrams;

use core::time::Duration;

use bytes::{Bytes as Payload, BytesMut};
use evb_core::{
    rng::Rng,
    time::Instant,
    units::{Bytes, Rate},
};

use crate::{
    link::Link,
    switch::Switch,
    transport::{Endpoint, TcpSegment},
    world::World,
};

pub use datagrams::DatagramFates;
use datagrams::Datagrams;
pub(crate) use datagrams::SocketIndex;

/// A host's place at the switch: its port.
pub(crate) type HostIndex = usize;

/// The supervisor's.
pub(crate) const SUPERVISOR: HostIndex = 0;

/// One end of a stream; the other end is its [`peer_of`].
pub(crate) type EndIndex = usize;

/// The other end.
pub(crate) const fn peer_of(end: EndIndex) -> EndIndex {
    end ^ 1
}

/// The network's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkModel {
    /// Line rate of the switch's ports.
    pub link_rate: Rate,
    /// Line rate at which hosts send towards the switch: the same, or more where they are faster than a builder's port.
    pub host_rate: Rate,
    /// From a link's one end to the other, last bit to last bit; twice on every way.
    pub latency: Duration,
    /// What each output port of the switch can queue, in L2 bytes.
    pub port_buffer: Bytes,
    /// The longest IP datagram.
    pub mtu: u32,
    /// Probability that the switch loses a frame.
    pub loss: f64,
    /// Whether that spares what is said to the supervisor and by it: then only lanes suffer.
    pub spare_supervisor: bool,
    /// Probability that the switch forwards a datagram twice. This and what follows happens to datagrams alone.
    pub duplication: f64,
    /// Probability that a datagram comes later than in its turn.
    pub reordering: f64,
    /// … by up to so much, uniformly.
    pub reordering_delay: Duration,
    /// Probability that a bit of a datagram is wrong when it arrives, as if UDP had no checksum.
    pub corruption: f64,
    /// From data or a timer to the program that runs because of it, at least.
    pub host_delay: Duration,
    /// … and up to so much more, uniformly.
    pub host_jitter: Duration,
}

impl Default for NetworkModel {
    /// Gigabit Ethernet, a shallow port, programs that wait on `epoll` and timerfd.
    fn default() -> Self {
        Self {
            link_rate: Rate::from_bits_per_second(1_000_000_000),
            host_rate: Rate::from_bits_per_second(1_000_000_000),
            latency: Duration::from_micros(2),
            port_buffer: Bytes::kib(128),
            mtu: 1500,
            loss: 0.0,
            spare_supervisor: false,
            duplication: 0.0,
            reordering: 0.0,
            reordering_delay: Duration::ZERO,
            corruption: 0.0,
            host_delay: Duration::from_micros(15),
            host_jitter: Duration::from_micros(15),
        }
    }
}

#[derive(Debug)]
enum Happening {
    /// A segment reached the switch, on its way to that end.
    AtSwitch(EndIndex, TcpSegment),
    /// A segment reached that end's host.
    AtHost(EndIndex, TcpSegment),
    /// A datagram reached the switch, on its way to that socket.
    DatagramAtSwitch(SocketIndex, Payload),
    /// A datagram reached that socket.
    DatagramAtHost(SocketIndex, Payload),
    /// That end's retransmission timer may be due.
    Timer(EndIndex),
    /// That host's program runs.
    Wake(HostIndex),
}

/// All hosts' interfaces and kernels.
#[derive(Debug)]
pub(crate) struct Network {
    world: World<Happening>,
    uplinks: Vec<Link>,
    /// L2 bytes of the frames with data that each host sent.
    sent: Vec<Bytes>,
    switch: Switch,
    ends: Vec<End>,
    datagrams: Datagrams,
    wakes: Vec<Option<Instant>>,
    model: NetworkModel,
    rng: Rng,
}

#[derive(Debug)]
struct End {
    host: HostIndex,
    endpoint: Endpoint,
    /// The earliest scheduled look at the timer.
    timer: Option<Instant>,
}

impl Network {
    /// `hosts` hosts and no streams yet.
    pub(crate) fn new(model: NetworkModel, hosts: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (rate, latency, limit) = (model.link_rate, model.latency, model.port_buffer);
        Self {
            world: World::new(),
            uplinks: vec![Link::new(model.host_rate, latency); hosts],
            sent: vec![Bytes::ZERO; hosts],
            switch: Switch::new(hosts, rate, latency, limit, model.loss, rng.next_u64()),
            ends: Vec::new(),
            datagrams: Datagrams::new(&model, seed),
            wakes: vec![None; hosts],
            model,
            rng,
        }
    }

    /// An established stream between two hosts: its ends.
    pub(crate) fn connect(&mut self, from: HostIndex, to: HostIndex) -> (EndIndex, EndIndex) {
        let end = self.ends.len();
        for host in [from, to] {
            self.ends.push(End { host, endpoint: Endpoint::new(self.model.mtu), timer: None });
        }
        (end, peer_of(end))
    }

    /// Two sockets of datagrams that are connected to each other, between two hosts.
    pub(crate) fn connect_sockets(&mut self, from: HostIndex, to: HostIndex) -> (SocketIndex, SocketIndex) {
        let socket = self.datagrams.count();
        self.datagrams.bind(from);
        self.datagrams.bind(to);
        (socket, peer_of(socket))
    }

    /// Virtual time.
    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }

    /// The switch, for its counters.
    pub(crate) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Segments that were sent again, and retransmission timeouts, over all streams.
    pub(crate) fn retransmits(&self) -> (u64, u64) {
        let both = self.ends.iter().map(|end| (end.endpoint.retransmits(), end.endpoint.timeouts()));
        both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Segments that the ends of one host sent again.
    pub(crate) fn retransmits_of(&self, host: HostIndex) -> u64 {
        let own = self.ends.iter().filter(|end| end.host == host);
        own.map(|end| end.endpoint.retransmits()).sum()
    }

    /// L2 bytes that the host sent, bare acknowledgements aside.
    pub(crate) fn sent(&self, host: HostIndex) -> Bytes {
        self.sent[host]
    }

    /// How many happenings the run took.
    pub(crate) fn happenings(&self) -> u64 {
        self.world.count()
    }

    /// What the host has to read from that end.
    pub(crate) fn incoming(&mut self, end: EndIndex) -> &mut BytesMut {
        self.ends[end].endpoint.incoming()
    }

    /// Where the host appends what it writes to that end; [`Self::flush`] sends it.
    pub(crate) fn outgoing(&mut self, end: EndIndex) -> &mut BytesMut {
        self.ends[end].endpoint.outgoing()
    }

    /// One `writev` is over.
    pub(crate) fn flush(&mut self, end: EndIndex) {
        self.transmit(end);
    }

    /// The host sends a datagram.
    pub(crate) fn send(&mut self, socket: SocketIndex, datagram: Payload) {
        let (host, frame) = (self.datagrams.host(socket), datagrams::frame(&datagram));
        self.datagrams.handle_sent(&datagram);
        if datagrams::has_body(&datagram) {
            self.sent[host] += frame;
        }
        let (_, arrives) = self.uplinks[host].send(frame, self.world.now());
        self.world.schedule(arrives, Happening::DatagramAtSwitch(peer_of(socket), datagram));
    }

    /// The next datagram that the host has to read.
    pub(crate) fn receive(&mut self, socket: SocketIndex) -> Option<Payload> {
        self.datagrams.receive(socket)
    }

    /// What became of all datagrams.
    pub(crate) fn datagram_counters(&mut self) -> &mut DatagramFates {
        self.datagrams.counters()
    }

    /// How long each lost datagram's lane bytes took to arrive nevertheless, in ns.
    pub(crate) fn recoveries(&self) -> &[u64] {
        self.datagrams.recoveries()
    }

    /// The host's program is to run at `at`, or some delay later: hosts are not exact.
    pub(crate) fn wake_at(&mut self, host: HostIndex, at: Instant) {
        let at = at.max(self.now()) + self.delay();
        if self.wakes[host].is_none_or(|wake| at < wake) {
            self.wakes[host] = Some(at);
            self.world.schedule(at, Happening::Wake(host));
        }
    }

    /// Moves time on until a host's program runs; `None` when nothing will ever happen again.
    pub(crate) fn advance(&mut self) -> Option<HostIndex> {
        loop {
            match self.world.advance()? {
                Happening::AtSwitch(to, segment) => {
                    let (port, now) = (self.ends[to].host, self.now());
                    let is_control = [port, self.ends[peer_of(to)].host].contains(&SUPERVISOR);
                    let arrives = if is_control && self.model.spare_supervisor {
                        self.switch.enqueue(port, segment.frame(), now)
                    } else {
                        self.switch.forward(port, segment.frame(), now)
                    };
                    if let Some(at) = arrives {
                        self.world.schedule(at, Happening::AtHost(to, segment));
                    }
                }
                Happening::AtHost(end, segment) => {
                    let now = self.now();
                    let news = self.ends[end].endpoint.handle_segment(&segment, now);
                    self.transmit(end);
                    if news {
                        self.wake_at(self.ends[end].host, now);
                    }
                }
                Happening::DatagramAtSwitch(to, datagram) => self.forward(to, &datagram),
                Happening::DatagramAtHost(to, datagram) => {
                    let now = self.now();
                    self.datagrams.handle_arrival(to, datagram, now);
                    self.wake_at(self.datagrams.host(to), now);
                }
                Happening::Timer(end) => {
                    let now = self.now();
                    self.ends[end].timer = None;
                    self.ends[end].endpoint.handle_timeout(now);
                    self.transmit(end);
                }
                Happening::Wake(host) => {
                    if self.wakes[host] == Some(self.now()) {
                        self.wakes[host] = None;
                        return Some(host);
                    }
                }
            }
        }
    }

    /// A datagram goes through the switch; what the network does to it besides comes behind its port.
    fn forward(&mut self, to: SocketIndex, datagram: &Payload) {
        let (port, now) = (self.datagrams.host(to), self.now());
        for _ in 0..self.datagrams.copies() {
            match self.switch.forward(port, datagrams::frame(datagram), now) {
                Some(at) => {
                    let at = at + self.datagrams.delay();
                    let datagram = self.datagrams.pass(datagram.clone());
                    self.world.schedule(at, Happening::DatagramAtHost(to, datagram));
                }
                None => self.datagrams.handle_lost(to, datagram, now),
            }
        }
    }

    fn transmit(&mut self, end: EndIndex) {
        let now = self.now();
        let End { host, endpoint, timer } = &mut self.ends[end];
        while let Some(segment) = endpoint.poll(now) {
            let (_, arrives) = self.uplinks[*host].send(segment.frame(), now);
            if !segment.payload.is_empty() {
                self.sent[*host] += segment.frame();
            }
            self.world.schedule(arrives, Happening::AtSwitch(peer_of(end), segment));
        }
        // A timer that moved to a later time is looked at when the earlier one fires.
        if let Some(due) = endpoint.next_timeout()
            && timer.is_none_or(|at| due < at)
        {
            *timer = Some(due);
            self.world.schedule(due, Happening::Timer(end));
        }
    }

    fn delay(&mut self) -> Duration {
        let jitter = u64::try_from(self.model.host_jitter.as_nanos()).unwrap_or(u64::MAX);
        self.model.host_delay + Duration::from_nanos(self.rng.below(jitter.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests;
