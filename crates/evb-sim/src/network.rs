//! [`Network`]: hosts that are connected by switches, streams and datagrams between them, and the
//! times at which hosts run.

mod tree;
mod model;
mod datagrams;
mod frames;
mod switches;
mod programs;

use core::time::Duration;

use bytes::{Bytes as Payload, BytesMut};
use evb_core::{id::Peer, rng::Rng, time::Instant, units::Bytes};

use crate::{hosts::Program, link::Link, transport::Endpoint, world::World};

pub use crate::switch::NodeReport;
pub use datagrams::DatagramFates;
use datagrams::Datagrams;
pub(crate) use datagrams::SocketIndex;
use frames::{CarriedFrame, CarriedFrames, FrameTicket};
pub use model::NetworkModel;
use programs::Programs;
pub(crate) use switches::Switches;
use switches::{ANY_HOST, PortIndex, Queued, Via};
pub use tree::{Service, Trunk};
pub(crate) use tree::{SwitchIndex, Tree};

/// Index of a host and of the port to it.
pub(crate) type HostIndex = usize;

/// Index of the supervisor's host.
pub(crate) const SUPERVISOR: HostIndex = 0;

/// Index of one end of a stream; [`peer_of`] returns the other end.
pub(crate) type EndIndex = usize;

/// Returns the index of the opposite end of a stream, or of the opposite datagram socket.
pub(crate) const fn peer_of(end: EndIndex) -> EndIndex {
    end ^ 1
}

#[derive(Debug)]
enum Happening {
    /// A frame reached the given switch by the given link.
    AtSwitch(SwitchIndex, Via, FrameTicket),
    /// A frame reached the host that it was sent to.
    AtHost(FrameTicket),
    /// The last bit of a frame left a port whose incoming links take turns.
    Left(PortIndex),
    /// A retransmission timer, of the given end of a stream, may be due.
    Timer(EndIndex),
    /// The program of the given host wakes up.
    Wake(HostIndex),
    /// The program of the given host has run for the given time, and leaves its core.
    Done(HostIndex, Duration),
}

/// The network interfaces and kernels of all hosts, and the switches between them.
#[derive(Debug)]
pub(crate) struct Network {
    world: World<Happening>,
    uplinks: Vec<Link>,
    /// L2 bytes of the frames that each host has sent, without bare acknowledgements.
    sent: Vec<Bytes>,
    switches: Switches,
    frames: CarriedFrames,
    /// Number of frames that hosts sent.
    departed: u64,
    ends: Vec<End>,
    /// For each host, its ends of streams in the order of their creation.
    own: Vec<Vec<EndIndex>>,
    /// The ends of streams from which the running program has read.
    read: Vec<EndIndex>,
    /// For each host, the ends and the sockets with something to read.
    readable: Vec<Readable>,
    datagrams: Datagrams,
    programs: Programs,
    model: NetworkModel,
}

/// The ends of streams and the sockets of a host on which something arrived since the host's
/// program ran, each by its position among those of the host.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    pub(crate) streams: Vec<usize>,
    pub(crate) sockets: Vec<usize>,
}

#[derive(Debug)]
struct End {
    host: HostIndex,
    /// Host of the opposite end.
    to: HostIndex,
    /// Position among the ends of the host.
    place: usize,
    endpoint: Endpoint,
    /// Bytes that the host's program has not read yet.
    unread: usize,
    /// Stream offset up to which the host's program has written.
    written: u64,
    /// The earliest time for which a check of the retransmission timer is scheduled.
    timer: Option<Instant>,
}

impl Network {
    /// Creates a network with one host for each peer, which runs the peer's program, without
    /// streams.
    pub(crate) fn new(model: NetworkModel, peers: Vec<(Peer, Program)>, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (peers, programs): (Vec<Peer>, Vec<Program>) = peers.into_iter().unzip();
        let link = |rate| Link::new(rate, model.latency).with_bucket(model.bucket);
        let switches = Switches::new(&model, &peers, rng.next_u64());
        Self {
            world: World::with_lines(switches.lines()),
            uplinks: peers.iter().map(|peer| link(model.uplink_rate(*peer))).collect(),
            sent: vec![Bytes::ZERO; peers.len()],
            switches,
            frames: CarriedFrames::default(),
            departed: 0,
            ends: Vec::new(),
            read: Vec::new(),
            own: vec![Vec::new(); peers.len()],
            readable: peers.iter().map(|_| Readable::default()).collect(),
            datagrams: Datagrams::new(&model, peers.len(), seed),
            programs: Programs::new(programs, model.hosts.cores, rng),
            model,
        }
    }

    /// Creates an established stream between two hosts, and returns its two ends.
    pub(crate) fn connect(&mut self, from: HostIndex, to: HostIndex) -> (EndIndex, EndIndex) {
        let end = self.ends.len();
        for (host, to) in [(from, to), (to, from)] {
            let (endpoint, place) = (Endpoint::new(self.model.mtu), self.own[host].len());
            self.own[host].push(self.ends.len());
            self.ends.push(End { host, to, place, endpoint, unread: 0, written: 0, timer: None });
        }
        (end, peer_of(end))
    }

    /// Creates a datagram socket on each of two hosts, connected to each other.
    pub(crate) fn connect_sockets(&mut self, from: HostIndex, to: HostIndex) -> (SocketIndex, SocketIndex) {
        let socket = self.datagrams.count();
        [from, to].into_iter().for_each(|host| self.datagrams.bind(host));
        (socket, peer_of(socket))
    }

    /// Returns the virtual time.
    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }

    /// Returns the switches, for their counters.
    pub(crate) fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Returns true if an end of a stream is at the given host.
    pub(crate) fn is_at(&self, end: EndIndex, host: HostIndex) -> bool {
        self.ends[end].host == host
    }

    /// Returns the numbers of retransmitted segments and of retransmission timeouts, over all
    /// streams.
    pub(crate) fn retransmits(&self) -> (u64, u64) {
        let both = self.ends.iter().map(|end| (end.endpoint.retransmits(), end.endpoint.timeouts()));
        both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the number of TCP segments that a host has retransmitted.
    pub(crate) fn retransmits_of(&self, host: HostIndex) -> u64 {
        self.own[host].iter().map(|end| self.ends[*end].endpoint.retransmits()).sum()
    }

    /// Returns the L2 bytes that the host has sent, without bare acknowledgements.
    pub(crate) fn sent(&self, host: HostIndex) -> Bytes {
        self.sent[host]
    }

    /// Returns the number of frames that hosts sent.
    pub(crate) fn frames(&self) -> u64 {
        self.departed
    }

    /// Returns the number of simulation steps that the run took.
    pub(crate) fn happenings(&self) -> u64 {
        self.world.count()
    }

    /// Returns the streams and sockets of the host that runs on which something has arrived since
    /// its last run, in ascending order.
    pub(crate) fn readable(&mut self, host: HostIndex) -> Readable {
        let mut readable = core::mem::take(&mut self.readable[host]);
        readable.streams.sort_unstable();
        readable.sockets.sort_unstable();
        readable
    }

    /// Returns the unread bytes that have arrived at the given end of a stream.
    pub(crate) fn incoming(&mut self, end: EndIndex) -> &mut BytesMut {
        let End { endpoint, unread, .. } = &mut self.ends[end];
        if *unread > 0 {
            self.read.push(end);
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
        let to = self.datagrams.host(peer_of(socket));
        self.depart(host, to, CarriedFrame::Datagram(peer_of(socket), datagram), arrives);
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
        for end in self.read.drain(..) {
            self.ends[end].endpoint.release();
        }
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
                Happening::AtSwitch(switch, via, packet) => self.forward(switch, via, packet),
                Happening::AtHost(packet) => self.deliver(packet),
                Happening::Left(port) => {
                    self.switches.handle_left(port);
                    self.serve(port);
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

    /// Schedules the arrival of a frame at its host's switch.
    fn depart(&mut self, from: HostIndex, to: HostIndex, frame: CarriedFrame, arrives: Instant) {
        let ticket = self.frames.insert(frame, to);
        self.departed += 1;
        let line = self.switches.line_of_uplink(from);
        self.world.schedule_in(
            line,
            arrives,
            Happening::AtSwitch(self.switches.home(from), ANY_HOST, ticket),
        );
    }

    /// Passes a frame that reached a switch to the port of its way. Random losses happen at the
    /// last switch.
    fn forward(&mut self, switch: SwitchIndex, via: Via, ticket: FrameTicket) {
        let port = self.switches.towards(switch, ticket.host());
        let is_last = self.switches.beyond(port).is_none();
        if is_last && ticket.is_datagram {
            return self.forward_datagram(port, via, ticket);
        }
        let is_lost = is_last && !self.is_spared(ticket) && self.switches.lose();
        if is_lost || !self.enqueue(port, via, ticket) {
            self.lose(ticket);
        }
    }

    /// Returns true if a frame is never lost at random.
    fn is_spared(&self, ticket: FrameTicket) -> bool {
        let from = |end: EndIndex| self.ends[peer_of(end)].host;
        self.model.spare_supervisor
            && match self.frames.get(ticket) {
                Some(CarriedFrame::Segment(end, _)) => [ticket.host(), from(*end)].contains(&SUPERVISOR),
                _ => false,
            }
    }

    /// Passes a datagram to the port of its host. Delays and damage of datagrams happen after this
    /// port.
    fn forward_datagram(&mut self, port: PortIndex, via: Via, ticket: FrameTicket) {
        let Some(CarriedFrame::Datagram(to, datagram)) = self.frames.remove(ticket) else { return };
        for _ in 0..self.datagrams.copies() {
            let frame = CarriedFrame::Datagram(to, datagram.clone());
            let copy = self.frames.insert(frame, ticket.host());
            if self.switches.lose() || !self.enqueue(port, via, copy) {
                self.lose(copy);
            }
        }
    }

    /// Passes a frame to a port. Returns false if the port drops it.
    fn enqueue(&mut self, port: PortIndex, via: Via, ticket: FrameTicket) -> bool {
        match self.switches.enqueue(port, via, ticket, self.world.now()) {
            Some(Queued::Arrives(at)) => self.travel(port, ticket, at),
            Some(Queued::Waits) => self.serve(port),
            None => return false,
        }
        true
    }

    /// Begins to send the next frame of a port with turns, unless it is busy.
    fn serve(&mut self, port: PortIndex) {
        if let Some((ticket, left, arrives)) = self.switches.next(port, self.world.now()) {
            self.world.schedule(left, Happening::Left(port));
            self.travel(port, ticket, arrives);
        }
    }

    /// Schedules the arrival of a frame at the far end of a port's link.
    fn travel(&mut self, port: PortIndex, ticket: FrameTicket, arrives: Instant) {
        match self.switches.beyond(port) {
            Some(switch) => {
                self.world.schedule_in(port, arrives, Happening::AtSwitch(switch, port, ticket));
            }
            None => {
                let delay = self.suffer(ticket);
                self.world.schedule_in(port, arrives + delay, Happening::AtHost(ticket));
            }
        }
    }

    /// Damages a datagram, and returns its delay; streams have neither.
    fn suffer(&mut self, ticket: FrameTicket) -> Duration {
        if !ticket.is_datagram {
            return Duration::ZERO;
        }
        let Some(CarriedFrame::Datagram(_, datagram)) = self.frames.get_mut(ticket) else {
            return Duration::ZERO;
        };
        let delay = self.datagrams.delay();
        *datagram = self.datagrams.pass(core::mem::take(datagram));
        delay
    }

    /// Removes a lost frame.
    fn lose(&mut self, ticket: FrameTicket) {
        if let Some(CarriedFrame::Datagram(to, datagram)) = self.frames.remove(ticket) {
            self.datagrams.handle_lost(to, &datagram, self.world.now());
        }
    }

    /// Passes a frame to the kernel of its host.
    fn deliver(&mut self, ticket: FrameTicket) {
        let now = self.now();
        match self.frames.remove(ticket) {
            Some(CarriedFrame::Segment(end, segment)) => {
                let End { host, place, endpoint, unread, .. } = &mut self.ends[end];
                let (host, news) = (*host, endpoint.handle_segment(&segment, now));
                if news > 0 && *unread == 0 {
                    self.readable[host].streams.push(*place);
                }
                *unread += news;
                self.transmit(end, now);
                if news > 0 {
                    self.wake_at(host, now);
                }
            }
            Some(CarriedFrame::Datagram(to, datagram)) => {
                let host = self.datagrams.host(to);
                if self.datagrams.handle_arrival(to, datagram, now) {
                    self.readable[host].sockets.push(self.datagrams.place(to));
                }
                self.wake_at(host, now);
            }
            None => {}
        }
    }

    /// Passes all segments that an end of a stream may send now to its host's interface, where they
    /// leave at `leaves`.
    fn transmit(&mut self, end: EndIndex, leaves: Instant) {
        let (now, End { host, to, .. }) = (self.now(), &self.ends[end]);
        let (host, to) = (*host, *to);
        while let Some(segment) = self.ends[end].endpoint.poll(now) {
            let (_, arrives) = self.uplinks[host].send(segment.frame(), leaves);
            if !segment.payload.is_empty() {
                self.sent[host] += segment.frame();
            }
            self.depart(host, to, CarriedFrame::Segment(peer_of(end), segment), arrives);
        }
        let End { endpoint, timer, .. } = &mut self.ends[end];
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
