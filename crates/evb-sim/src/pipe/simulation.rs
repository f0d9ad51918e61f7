//! [`Simulation`]: the steps of a simulation of a [`LongPipe`].

use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use evb_shaper::cost::{CELL, PacketCost};

use super::{Departures, LongPipe, PipeReport, cross::CrossTraffic, interface::Interface};
use crate::{
    link::Link,
    switch::OutputPort,
    transport::{Endpoint, TcpSegment},
    world::{LineIndex, World},
};

/// Latency of the links between hosts and router.
const NEAR: Duration = Duration::from_micros(1);
/// Rate of the receiving host's link, on which acknowledgements never wait.
const RECEIVER_RATE: Rate = Rate::from_bits_per_second(10_000_000_000);
/// Bytes that wait in the socket beyond the receive window, at least and at most.
const WAITING: (usize, usize) = (256 * 1024, 1024 * 1024);

/// The links, each of which keeps the order of its frames.
const TO_ROUTER: LineIndex = 0;
const TO_RECEIVER: LineIndex = 1;
const BACK_TO_ROUTER: LineIndex = 2;
const TO_SENDER: LineIndex = 3;

/// The directions of the router.
const FORTH: usize = 0;
const BACK: usize = 1;

#[derive(Debug)]
enum Happening {
    AtRouter(TcpSegment),
    AtReceiver(TcpSegment),
    BackAtRouter(TcpSegment),
    AtSender(TcpSegment),
    /// A timer of the sender or of the receiver may be due.
    Timer(Host),
    /// The next packet of clustered spacing may leave.
    Spaced,
    /// A frame of other traffic reaches the router, in the given direction.
    Cross(usize),
}

#[derive(Clone, Copy, Debug)]
enum Host {
    Sender,
    Receiver,
}

/// The interval control of clustered packet spacing.
#[derive(Debug)]
struct Spacing {
    /// Precision of the timer, whose ticks are multiples of it.
    precision: Duration,
    /// Time from which the next packet may leave.
    due: Instant,
    is_scheduled: bool,
}

/// A simulation under way.
#[derive(Debug)]
pub(super) struct Simulation<'a> {
    pipe: &'a LongPipe,
    world: World<Happening>,
    sender: Endpoint,
    receiver: Endpoint,
    timers: [Option<Instant>; 2],
    interface: Interface,
    receiver_link: Link,
    ports: [OutputPort; 2],
    cross: [CrossTraffic; 2],
    spacing: Option<Spacing>,
    /// Buffer bytes of a full packet.
    frame: Bytes,
    report: PipeReport,
    delivered: u64,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(pipe: &'a LongPipe) -> Self {
        let cost = PacketCost::tcp(pipe.mtu, CELL);
        let mut sender = Endpoint::new(pipe.mtu).with_reports(pipe.window.count());
        if pipe.begins_at_once {
            sender = sender.starting_at(pipe.window.count());
        }
        let half = (pipe.round_trip / 2).saturating_sub(NEAR);
        let port = || OutputPort::new(Link::new(pipe.bottleneck, half), pipe.router_buffer);
        let cross = |seed| CrossTraffic::new(pipe.cross_load, pipe.bottleneck, cost.packet_line(), seed);
        let spacing = match pipe.departures {
            Departures::Spaced(precision) => {
                Some(Spacing { precision, due: Instant::ZERO, is_scheduled: false })
            }
            _ => None,
        };
        let bins = pipe.span.as_millis() as usize;
        Self {
            pipe,
            world: World::with_lines(4),
            sender,
            receiver: Endpoint::new(pipe.mtu),
            timers: [None; 2],
            interface: Interface::new(pipe, NEAR, pipe.seed ^ 0x7061_6365),
            receiver_link: Link::new(RECEIVER_RATE, NEAR),
            ports: [port(), port()],
            cross: [cross(pipe.seed), cross(!pipe.seed)],
            spacing,
            frame: cost.packet_buffer(),
            report: PipeReport {
                goodput: Rate::from_bits_per_second(0),
                sent: vec![0; bins],
                received: vec![0; bins],
                dropped: 0,
                refused: 0,
                retransmits: 0,
                timeouts: 0,
                queue_peak: Bytes::ZERO,
                spaced_until: None,
            },
            delivered: 0,
        }
    }

    pub(super) fn run(mut self) -> PipeReport {
        let end = Instant::ZERO + self.pipe.span;
        [FORTH, BACK].into_iter().for_each(|direction| self.await_cross(direction));
        self.write();
        self.send();
        while let Some(happening) = self.world.advance() {
            if self.world.now() >= end {
                break;
            }
            self.handle(happening);
        }
        let bits = self.delivered as f64 * 8.0 / self.pipe.span.as_secs_f64();
        PipeReport {
            goodput: Rate::from_bits_per_second(bits as u64),
            retransmits: self.sender.retransmits(),
            timeouts: self.sender.timeouts(),
            queue_peak: self.ports[FORTH].counters().peak,
            ..self.report
        }
    }

    fn handle(&mut self, happening: Happening) {
        let now = self.world.now();
        match happening {
            Happening::AtRouter(segment) => match self.ports[FORTH].enqueue(segment.frame(), now) {
                Some(at) => self.world.schedule_in(TO_RECEIVER, at, Happening::AtReceiver(segment)),
                None => self.report.dropped += 1,
            },
            Happening::AtReceiver(segment) => {
                count(&mut self.report.received, now);
                self.delivered += self.receiver.handle_segment(&segment, now) as u64;
                self.receiver.incoming().clear();
                self.answer();
            }
            Happening::BackAtRouter(segment) => {
                if let Some(at) = self.ports[BACK].enqueue(segment.frame(), now) {
                    self.world.schedule_in(TO_SENDER, at, Happening::AtSender(segment));
                }
            }
            Happening::AtSender(segment) => {
                self.sender.handle_segment(&segment, now);
                self.write();
                self.send();
            }
            Happening::Timer(Host::Sender) => {
                self.timers[Host::Sender as usize] = None;
                self.sender.handle_timeout(now);
                self.send();
            }
            Happening::Timer(Host::Receiver) => {
                self.timers[Host::Receiver as usize] = None;
                self.answer();
            }
            Happening::Spaced => {
                if let Some(spacing) = &mut self.spacing {
                    spacing.is_scheduled = false;
                }
                self.send();
            }
            Happening::Cross(direction) => {
                // Other traffic takes room in the queue; its own fate does not matter here.
                self.ports[direction].enqueue(self.frame, now);
                self.await_cross(direction);
            }
        }
    }

    fn await_cross(&mut self, direction: usize) {
        if let Some(time) = self.cross[direction].next() {
            self.world.schedule(self.world.now() + time, Happening::Cross(direction));
        }
    }

    /// Gives the sender more bytes than may be under way.
    fn write(&mut self) {
        let window = self.pipe.window.as_usize();
        let outgoing = self.sender.outgoing();
        if outgoing.len() < window + WAITING.0 {
            outgoing.resize(window + WAITING.1, 0);
        }
    }

    /// Passes all packets that may leave now to the interface.
    fn send(&mut self) {
        let now = self.world.now();
        while self.sender.is_ready() && !self.waits_for_spacing(now) {
            if !self.interface.has_room(now) {
                self.report.refused += 1;
                self.sender.handle_full_queue();
                break;
            }
            let Some(segment) = self.sender.poll(now) else { break };
            let (left, arrives) = self.interface.send(segment.frame(), now);
            count(&mut self.report.sent, left);
            self.world.schedule_in(TO_ROUTER, arrives, Happening::AtRouter(segment));
        }
        self.await_timer(Host::Sender);
    }

    /// Returns true if clustered packet spacing holds back the next packet.
    fn waits_for_spacing(&mut self, now: Instant) -> bool {
        let Some(spacing) = &mut self.spacing else { return false };
        let segments = u32::try_from(self.sender.window_segments()).unwrap_or(u32::MAX).max(1);
        let interval = self.pipe.round_trip / segments;
        if interval <= spacing.precision || !self.sender.is_first_start() {
            self.spacing = None;
            self.report.spaced_until = Some(now.since(Instant::ZERO));
            return false;
        }
        let tick = u64::try_from(spacing.precision.as_nanos()).unwrap_or(u64::MAX).max(1);
        let leaves = Instant::from_nanos(spacing.due.as_nanos().div_ceil(tick).saturating_mul(tick));
        if leaves <= now {
            spacing.due = spacing.due.max(now.shifted(-(tick as i64))) + interval;
            return false;
        }
        if !core::mem::replace(&mut spacing.is_scheduled, true) {
            self.world.schedule(leaves, Happening::Spaced);
        }
        true
    }

    /// Passes the acknowledgements that are due to the router.
    fn answer(&mut self) {
        let now = self.world.now();
        while let Some(segment) = self.receiver.poll(now) {
            let (_, arrives) = self.receiver_link.send(segment.frame(), now);
            self.world.schedule_in(BACK_TO_ROUTER, arrives, Happening::BackAtRouter(segment));
        }
        self.await_timer(Host::Receiver);
    }

    fn await_timer(&mut self, host: Host) {
        let due = match host {
            Host::Sender => self.sender.next_timeout(),
            Host::Receiver => self.receiver.next_timeout(),
        };
        let timer = &mut self.timers[host as usize];
        // A check that comes too early schedules another one.
        if let Some(due) = due
            && timer.is_none_or(|at| due < at)
        {
            *timer = Some(due);
            self.world.schedule(due, Happening::Timer(host));
        }
    }
}

/// Counts a packet in its millisecond.
fn count(bins: &mut [u32], at: Instant) {
    if let Some(bin) = bins.get_mut((at.as_nanos() / 1_000_000) as usize) {
        *bin += 1;
    }
}
