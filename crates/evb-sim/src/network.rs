//! [`Network`]: hosts that are connected to one switch, streams and datagrams between them, and the
//! times at which hosts run.

mod datagrams;
mod programs;

use core::time::Duration;

use bytes::{Bytes as Payload, BytesMut};
use evb_core::{
    rng::Rng,
    time::Instant,
    units::{Bytes, Rate},
};

use crate::{
    hosts::{HostModel, Program},
    link::Link,
    switch::Switch,
    transport::{Endpoint, TcpSegment},
    world::World,
};

pub use datagrams::DatagramFates;
use datagrams::Datagrams;
pub(crate) use datagrams::SocketIndex;
use programs::Programs;

/// Index of a host and of its port at the switch.
pub(crate) type HostIndex = usize;

/// Index of the supervisor's host.
pub(crate) const SUPERVISOR: HostIndex = 0;

/// Index of one end of a stream; [`peer_of`] returns the other end.
pub(crate) type EndIndex = usize;

/// Returns the index of the opposite end of a stream, or of the opposite datagram socket.
pub(crate) const fn peer_of(end: EndIndex) -> EndIndex {
    end ^ 1
}

/// The parameters of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkModel {
    /// Line rate of the switch's ports.
    pub link_rate: Rate,
    /// Line rate at which hosts send to the switch; it may be higher than that of a builder's port.
    pub host_rate: Rate,
    /// Latency of a link, from the last bit sent to the last bit received. A path between two hosts
    /// has two links.
    pub latency: Duration,
    /// Size of the queue of each output port of the switch, in L2 bytes.
    pub port_buffer: Bytes,
    /// Bytes that an idle port, or an idle host's interface, sends at once. The value is zero for a
    /// real cable, and the size of the token buckets for a lab that emulates links.
    pub bucket: Bytes,
    /// The largest size of an IP datagram, in bytes.
    pub mtu: u32,
    /// Probability that the switch loses a frame at random.
    pub loss: f64,
    /// True if messages to and from the supervisor are never lost at random, so that losses affect
    /// only lanes.
    pub spare_supervisor: bool,
    /// Probability that the switch forwards a datagram twice. Duplication and the faults below
    /// affect only datagrams.
    pub duplication: f64,
    /// Probability that a datagram is delayed, so that later ones may overtake it.
    pub reordering: f64,
    /// The longest delay that reorders datagrams; delays are uniformly distributed from zero.
    pub reordering_delay: Duration,
    /// Probability that a datagram arrives with one wrong bit, as if UDP had no checksum.
    pub corruption: f64,
    /// Delays and processor time of the hosts' programs.
    pub hosts: HostModel,
}

impl Default for NetworkModel {
    /// Returns Gigabit Ethernet with a switch of shallow port buffers and the default hosts.
    fn default() -> Self {
        Self {
            link_rate: Rate::from_bits_per_second(1_000_000_000),
            host_rate: Rate::from_bits_per_second(1_000_000_000),
            latency: Duration::from_micros(2),
            port_buffer: Bytes::kib(128),
            bucket: Bytes::ZERO,
            mtu: 1500,
            loss: 0.0,
            spare_supervisor: false,
            duplication: 0.0,
            reordering: 0.0,
            reordering_delay: Duration::ZERO,
            corruption: 0.0,
            hosts: HostModel::default(),
        }
    }
}

#[derive(Debug)]
enum Happening {
    /// A TCP segment reached the switch, on its way to the given end of a stream.
    AtSwitch(EndIndex, TcpSegment),
    /// A TCP segment reached the host of the given end of a stream.
    AtHost(EndIndex, TcpSegment),
    /// A datagram reached the switch, on its way to the given socket.
    DatagramAtSwitch(SocketIndex, Payload),
    /// A datagram reached the given socket.
    DatagramAtHost(SocketIndex, Payload),
    /// A retransmission timer, of the given end of a stream, may be due.
    Timer(EndIndex),
    /// The program of the given host wakes up.
    Wake(HostIndex),
    /// The program of the given host has run for the given time, and leaves its core.
    Done(HostIndex, Duration),
}

/// The network interfaces and kernels of all hosts, and the switch between them.
#[derive(Debug)]
pub(crate) struct Network {
    world: World<Happening>,
    uplinks: Vec<Link>,
    /// L2 bytes of the frames that each host has sent, without bare acknowledgements.
    sent: Vec<Bytes>,
    switch: Switch,
    ends: Vec<End>,
    datagrams: Datagrams,
    programs: Programs,
    model: NetworkModel,
}

#[derive(Debug)]
struct End {
    host: HostIndex,
    endpoint: Endpoint,
    /// Bytes that the host's program has not read yet.
    unread: usize,
    /// Stream offset up to which the host's program has written.
    written: u64,
    /// The earliest time for which a check of the retransmission timer is scheduled.
    timer: Option<Instant>,
}

impl Network {
    /// Creates a network with one host for each program, without streams.
    pub(crate) fn new(model: NetworkModel, programs: Vec<Program>, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let hosts = programs.len();
        let link = |rate| Link::new(rate, model.latency).with_bucket(model.bucket);
        let queue = model.port_buffer - model.bucket;
        let switch = Switch::new(hosts, &link(model.link_rate), queue, model.loss, rng.next_u64());
        Self {
            world: World::new(),
            uplinks: vec![link(model.host_rate); hosts],
            sent: vec![Bytes::ZERO; hosts],
            switch,
            ends: Vec::new(),
            datagrams: Datagrams::new(&model, seed),
            programs: Programs::new(programs, model.hosts.cores, rng),
            model,
        }
    }

    /// Creates an established stream between two hosts, and returns its two ends.
    pub(crate) fn connect(&mut self, from: HostIndex, to: HostIndex) -> (EndIndex, EndIndex) {
        let end = self.ends.len();
        for host in [from, to] {
            let endpoint = Endpoint::new(self.model.mtu);
            self.ends.push(End { host, endpoint, unread: 0, written: 0, timer: None });
        }
        (end, peer_of(end))
    }

    /// Creates a datagram socket on each of two hosts, connected to each other.
    pub(crate) fn connect_sockets(&mut self, from: HostIndex, to: HostIndex) -> (SocketIndex, SocketIndex) {
        let socket = self.datagrams.count();
        self.datagrams.bind(from);
        self.datagrams.bind(to);
        (socket, peer_of(socket))
    }

    /// Returns the virtual time.
    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }

    /// Returns the switch, for its counters.
    pub(crate) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Returns the numbers of retransmitted segments and of retransmission timeouts, over all
    /// streams.
    pub(crate) fn retransmits(&self) -> (u64, u64) {
        let both = self.ends.iter().map(|end| (end.endpoint.retransmits(), end.endpoint.timeouts()));
        both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the number of TCP segments that a host has retransmitted.
    pub(crate) fn retransmits_of(&self, host: HostIndex) -> u64 {
        let own = self.ends.iter().filter(|end| end.host == host);
        own.map(|end| end.endpoint.retransmits()).sum()
    }

    /// Returns the L2 bytes that the host has sent, without bare acknowledgements.
    pub(crate) fn sent(&self, host: HostIndex) -> Bytes {
        self.sent[host]
    }

    /// Returns the number of simulation steps that the run took.
    pub(crate) fn happenings(&self) -> u64 {
        self.world.count()
    }

    /// Returns the unread bytes that have arrived at the given end of a stream.
    pub(crate) fn incoming(&mut self, end: EndIndex) -> &mut BytesMut {
        let End { endpoint, unread, .. } = &mut self.ends[end];
        if *unread > 0 {
            self.programs.spend(1, Bytes::new(core::mem::take(unread) as u64));
        }
        endpoint.incoming()
    }

    /// Returns the buffer to which a program appends the bytes that it writes to a stream;
    /// [`Self::flush`] sends them.
    pub(crate) fn outgoing(&mut self, end: EndIndex) -> &mut BytesMut {
        self.ends[end].endpoint.outgoing()
    }

    /// Sends the bytes in the buffer of [`Self::outgoing`], as one `writev` would.
    pub(crate) fn flush(&mut self, end: EndIndex) {
        let End { endpoint, written, .. } = &mut self.ends[end];
        let news = endpoint.queued_up_to() - core::mem::replace(written, endpoint.queued_up_to());
        let spent = self.programs.spend(u32::from(news > 0), Bytes::new(news));
        self.transmit(end, self.now() + spent);
    }

    /// Sends a datagram from a socket to the socket that it is connected to.
    pub(crate) fn send(&mut self, socket: SocketIndex, datagram: Payload) {
        let (host, frame) = (self.datagrams.host(socket), datagrams::frame(&datagram));
        self.datagrams.handle_sent(&datagram);
        if datagrams::has_body(&datagram) {
            self.sent[host] += frame;
        }
        let spent = self.programs.spend_on_datagram(socket, frame);
        let (_, arrives) = self.uplinks[host].send(frame, self.world.now() + spent);
        self.world.schedule(arrives, Happening::DatagramAtSwitch(peer_of(socket), datagram));
    }

    /// Returns the next unread datagram of a socket.
    pub(crate) fn receive(&mut self, socket: SocketIndex) -> Option<Payload> {
        let datagram = self.datagrams.receive(socket)?;
        self.programs.spend_on_datagram(socket, datagrams::frame(&datagram));
        Some(datagram)
    }

    /// Returns the counters of all datagrams.
    pub(crate) fn datagram_counters(&mut self) -> &mut DatagramFates {
        self.datagrams.counters()
    }

    /// Returns, for each lost datagram, the time in ns from the loss until the same lane bytes
    /// arrived after all.
    pub(crate) fn recoveries(&self) -> &[u64] {
        self.datagrams.recoveries()
    }

    /// Schedules a host's program to run at `at`, or its wake-up delay later.
    pub(crate) fn wake_at(&mut self, host: HostIndex, at: Instant) {
        let wakes_up = self.programs.wake_at(host, at, self.now());
        self.schedule_wake(host, wakes_up);
    }

    fn schedule_wake(&mut self, host: HostIndex, at: Option<Instant>) {
        if let Some(at) = at {
            self.world.schedule(at, Happening::Wake(host));
        }
    }

    /// Ends the run of the host that [`Self::advance`] returned; its program occupies a core for
    /// the time that the run takes.
    fn finish(&mut self) {
        match self.programs.finish() {
            Some((host, Duration::ZERO)) => self.handle_done(host, Duration::ZERO),
            Some((host, took)) => self.world.schedule(self.now() + took, Happening::Done(host, took)),
            None => {}
        }
    }

    fn handle_done(&mut self, host: HostIndex, took: Duration) {
        let wakes_up = self.programs.handle_done(host, took, self.now());
        self.schedule_wake(host, wakes_up);
    }

    /// Advances the time until a host's program runs, and returns this host; `None` if nothing is
    /// scheduled any more.
    pub(crate) fn advance(&mut self) -> Option<HostIndex> {
        self.finish();
        loop {
            if let Some(host) = self.programs.start() {
                return Some(host);
            }
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
                    let End { host, endpoint, unread, .. } = &mut self.ends[end];
                    let (host, news) = (*host, endpoint.handle_segment(&segment, now));
                    *unread += news;
                    self.transmit(end, now);
                    if news > 0 {
                        self.wake_at(host, now);
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
                    self.transmit(end, now);
                }
                Happening::Wake(host) => self.programs.handle_wake(host, self.now()),
                Happening::Done(host, took) => self.handle_done(host, took),
            }
        }
    }

    /// Sends a datagram through the switch. Delays and damage of datagrams happen after the switch
    /// port.
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

    /// Passes all segments that an end of a stream may send now to its host's interface, where they
    /// leave at `leaves`.
    fn transmit(&mut self, end: EndIndex, leaves: Instant) {
        let now = self.now();
        let End { host, endpoint, timer, .. } = &mut self.ends[end];
        while let Some(segment) = endpoint.poll(now) {
            let (_, arrives) = self.uplinks[*host].send(segment.frame(), leaves);
            if !segment.payload.is_empty() {
                self.sent[*host] += segment.frame();
            }
            self.world.schedule(arrives, Happening::AtSwitch(peer_of(end), segment));
        }
        // If the timer moves to a later time, the check that is already scheduled notices this and
        // schedules another one.
        if let Some(due) = endpoint.next_timeout()
            && timer.is_none_or(|at| due < at)
        {
            *timer = Some(due);
            self.world.schedule(due, Happening::Timer(end));
        }
    }
}

#[cfg(test)]
mod tests;
