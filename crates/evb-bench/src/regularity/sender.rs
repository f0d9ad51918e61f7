//! The sending end: triggers create messages, a token bucket computes their departure times, and an
//! executor sends each message at its departure time.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, IoSlice},
    net::SocketAddr,
    time::Duration,
};

use crate::trigger::times::{Times, TimesKind};
use evb_core::{
    time::Instant,
    units::{Bytes, Frequency, Rate},
};
use evb_net::{
    clock,
    pacing::{DatagramSender, Executor, SendError},
    timer::Timer,
};

use super::{
    message::{self, MessageSize},
    ticks::{Gate, Ticks, depth},
};

/// The way in which messages are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// Every message is sent as soon as its trigger occurs.
    Unshaped(TimesKind),
    /// A token bucket of this rate, in buffer bytes, delays messages.
    Shaped(TimesKind, Rate),
    /// One message is sent at each tick of a periodic timer, without queue or bucket. Shaped runs
    /// are compared with this loop of timer ticks.
    Bare(Rate),
}

impl Way {
    /// Returns the kind of trigger; `None` without triggers.
    pub(super) fn kind(self) -> Option<TimesKind> {
        match self {
            Self::Unshaped(kind) | Self::Shaped(kind, _) => Some(kind),
            Self::Bare(_) => None,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unshaped(_) => "unshaped",
            Self::Shaped(..) => "shaped",
            Self::Bare(_) => "bare",
        })
    }
}

/// The component that shapes the messages of a shaped run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shaper {
    /// evb's token bucket.
    Bucket,
    /// evb's token bucket behind a clock and a timer that know only ticks.
    Ticks(Ticks),
    /// A token bucket of the kernel; this program sends every message as it is triggered.
    Kernel,
}

impl Shaper {
    /// Returns the ticks of this shaper, if it has any.
    pub(super) fn ticks(self) -> Option<Ticks> {
        match self {
            Self::Ticks(ticks) => Some(ticks),
            Self::Bucket | Self::Kernel => None,
        }
    }
}

/// The parameters of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    pub(super) run: u64,
    pub(super) way: Way,
    pub(super) shaper: Shaper,
    /// Depth of the token bucket; `None` for the usual depth.
    pub(super) depth: Option<Bytes>,
    pub(super) full_at_start: bool,
    pub(super) size: MessageSize,
    pub(super) messages: u32,
    pub(super) seed: u64,
}

impl Stream {
    /// Returns the depth of the token bucket for a rate.
    pub(super) fn depth_at(&self, rate: Rate) -> Bytes {
        self.depth.unwrap_or_else(|| depth(rate, self.size.buffer(), self.shaper.ticks()))
    }

    fn gate(&self, rate: Rate) -> Option<Gate> {
        let gate = || Gate::new(rate, self.depth_at(rate), self.shaper.ticks(), self.full_at_start);
        (self.shaper != Shaper::Kernel).then(gate)
    }
}

/// The sender's results of a run, for one receiver.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// Number of datagrams that the kernel took.
    pub(super) messages: u64,
    /// Largest number of messages that waited at the same time.
    pub(super) queue_peak: u64,
    /// Number of messages that departed from an empty queue without a delay by the shaper.
    pub(super) idle_starts: u64,
    /// Delay of each message's hand-over after its departure time. Executors of the kernel get each
    /// message ahead of its departure time by a lead; with these executors the delay counts from
    /// departure time − lead.
    pub(super) lateness: Vec<Duration>,
    /// Times between successive triggers.
    pub(super) triggers: Vec<Duration>,
    /// Gaps between the departures of an ideal line at this rate with the same triggers.
    pub(super) ideal: Vec<Duration>,
    /// Number of messages that the kernel reported in the socket's error queue as dropped or
    /// refused.
    pub(super) refused: u64,
}

/// Time after which a message is sent again when the socket's buffer was full.
const RETRY: Duration = Duration::from_micros(50);

/// Size of the socket's send buffer, for bursts of an unshaped trigger.
const SOCKET_BUFFER: Bytes = Bytes::mib(1);

/// The addresses between which the messages for one receiver travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

/// Sends the whole stream to every receiver: each trigger makes a message for each of them. The
/// function blocks and starts a tokio runtime; do not call it inside a runtime.
pub(super) fn run(stream: &Stream, executor: &dyn Executor, paths: &[Path]) -> io::Result<Vec<Sent>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rate = match stream.way {
        Way::Shaped(_, rate) | Way::Bare(rate) => Some(rate),
        Way::Unshaped(_) => None,
    };
    runtime.block_on(async {
        let lane = |path: &Path| {
            let gate = match stream.way {
                Way::Shaped(_, rate) => stream.gate(rate),
                Way::Bare(_) | Way::Unshaped(_) => None,
            };
            let socket = DatagramSender::connect(path.from, path.to, executor, rate, Some(SOCKET_BUFFER))?;
            Ok(Lane::new(*stream, socket, gate, executor.lead()))
        };
        let lanes = paths.iter().map(lane).collect::<io::Result<Vec<_>>>()?;
        let mut lines = Lines { stream: *stream, timer: executor.timer()?, lanes };
        match stream.way {
            Way::Bare(rate) => lines.bare(rate).await?,
            Way::Unshaped(kind) | Way::Shaped(kind, _) => lines.triggered(kind).await?,
        }
        lines.lanes.into_iter().map(Lane::finished).collect()
    })
}

/// Returns the gaps between departures from a queue that serves messages in order and takes
/// `service` for each (Lindley's recursion, 1952). The first message departs at time zero.
pub(super) fn ideal(triggers: &[Duration], service: Duration) -> Vec<Duration> {
    let (mut arrival, mut departure) = (Duration::ZERO, Duration::ZERO);
    let mut gaps = Vec::with_capacity(triggers.len());
    for gap in triggers {
        arrival += *gap;
        let next = arrival.max(departure + service);
        gaps.push(next - departure);
        departure = next;
    }
    gaps
}

/// The lanes to all receivers, and the timer that they share.
struct Lines {
    stream: Stream,
    timer: Timer,
    lanes: Vec<Lane>,
}

impl Lines {
    async fn bare(&mut self, rate: Rate) -> io::Result<()> {
        let gap = self.stream.size.buffer() / rate;
        let Some(ticks) = Frequency::from_hertz(1.0 / gap.as_secs_f64()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the rate is zero"));
        };
        let mut ticks = Times::new(TimesKind::Periodic { rate: ticks }, 0, clock::now());
        for _ in 0..self.stream.messages {
            let at = ticks.next_due();
            wait(&mut self.timer, Some(at)).await;
            let now = clock::now();
            ticks.pop_due(now);
            for lane in &mut self.lanes {
                lane.sent.lateness.push(now.since(at));
                lane.depart(None, &mut self.timer).await?;
            }
        }
        Ok(())
    }

    async fn triggered(&mut self, kind: TimesKind) -> io::Result<()> {
        let mut trigger = Times::new(kind, self.stream.seed, clock::now());
        let (mut made, mut last) = (0, None::<Instant>);
        loop {
            let now = clock::now();
            while made < self.stream.messages {
                let Some(at) = trigger.pop_due(now) else { break };
                made += 1;
                let gap = last.map(|last| at.since(last));
                self.lanes.iter_mut().for_each(|lane| lane.take(at, gap));
                last = Some(at);
            }
            let (mut until, mut left) = (None::<Instant>, false);
            for lane in &mut self.lanes {
                let next = match lane.step(now, &mut self.timer).await? {
                    Step::Done => continue,
                    Step::Sent => Some(now),
                    Step::Idle => Some(trigger.next_due()),
                    Step::Waits(at) => Some(at),
                };
                left = true;
                until = until.into_iter().chain(next).min();
            }
            match until {
                _ if !left => return Ok(()),
                Some(at) if at <= now => {}
                until => wait(&mut self.timer, until).await,
            }
        }
    }
}

/// The next action of a lane.
enum Step {
    /// A message has left; more may leave at once.
    Sent,
    /// No message waits.
    Idle,
    /// The next message leaves at this time.
    Waits(Instant),
    /// All messages have left.
    Done,
}

/// The messages to one receiver.
struct Lane {
    stream: Stream,
    socket: DatagramSender,
    gate: Option<Gate>,
    lead: Duration,
    /// Trigger times of the waiting messages.
    queue: VecDeque<Instant>,
    idle: bool,
    /// Departure time of the message that the kernel gets next, with an executor of the kernel.
    reserved: Option<Instant>,
    room: Vec<u8>,
    number: u32,
    sent: Sent,
}

impl Lane {
    fn new(stream: Stream, socket: DatagramSender, gate: Option<Gate>, lead: Duration) -> Self {
        Self {
            stream,
            socket,
            gate,
            lead,
            queue: VecDeque::new(),
            idle: true,
            reserved: None,
            room: vec![0; stream.size.payload.as_usize()],
            number: 0,
            sent: Sent::default(),
        }
    }

    /// Takes the message of a trigger at `at`, `gap` after the last one.
    fn take(&mut self, at: Instant, gap: Option<Duration>) {
        self.queue.push_back(at);
        self.sent.queue_peak = self.sent.queue_peak.max(self.queue.len() as u64);
        self.sent.triggers.extend(gap);
    }

    /// Sends the next message if it may leave.
    async fn step(&mut self, now: Instant, timer: &mut Timer) -> io::Result<Step> {
        if self.number == self.stream.messages {
            return Ok(Step::Done);
        }
        if self.lead > Duration::ZERO && self.gate.is_some() {
            return self.hand_over(now, timer).await;
        }
        let Some(came) = self.queue.front().copied() else {
            self.idle = true;
            return Ok(Step::Idle);
        };
        let cost = self.stream.size.buffer();
        let mut due = came;
        if let Some(gate) = &mut self.gate {
            if std::mem::take(&mut self.idle) {
                gate.wake(came);
                self.sent.idle_starts += u64::from(gate.opens(cost, now).is_none());
            }
            if let Some(at) = gate.opens(cost, now) {
                return Ok(Step::Waits(at));
            }
            due = gate.due(cost).max(came);
            gate.spend(cost, now);
        }
        self.queue.pop_front();
        self.sent.lateness.push(now.since(due));
        self.depart(None, timer).await?;
        Ok(Step::Sent)
    }

    /// Gives the next message to the kernel, which sends it at its departure time and must have it
    /// earlier by the executor's lead.
    async fn hand_over(&mut self, now: Instant, timer: &mut Timer) -> io::Result<Step> {
        let cost = self.stream.size.buffer();
        let Some(gate) = &mut self.gate else { return Ok(Step::Idle) };
        let at = match self.reserved {
            Some(at) => at,
            None => {
                let Some(came) = self.queue.pop_front() else { return Ok(Step::Idle) };
                gate.wake(came);
                let at = gate.reserve(cost, now);
                self.sent.idle_starts += u64::from(at == now);
                at
            }
        };
        let hand_over = Instant::from_nanos(at.as_nanos().saturating_sub(self.lead.as_nanos() as u64));
        if hand_over > now {
            self.reserved = Some(at);
            return Ok(Step::Waits(hand_over));
        }
        if self.reserved.take().is_some() {
            self.sent.lateness.push(now.since(hand_over));
        }
        self.depart(Some(at), timer).await?;
        Ok(Step::Sent)
    }

    async fn depart(&mut self, at: Option<Instant>, timer: &mut Timer) -> io::Result<()> {
        message::label(&mut self.room, self.stream.run, self.number);
        self.number += 1;
        loop {
            let until = match self.socket.send(&[IoSlice::new(&self.room)], None, at) {
                Ok(_) => return Ok(()),
                Err(SendError::Io(error)) => return Err(error),
                Err(error @ SendError::TooLarge) => return Err(io::Error::other(error)),
                Err(SendError::Full) => clock::now() + RETRY,
                Err(SendError::TooFarAhead { until }) => until,
            };
            wait(timer, Some(until)).await;
        }
    }

    fn finished(mut self) -> io::Result<Sent> {
        let counts = self.socket.collect()?;
        self.sent.refused = counts.missed + counts.invalid + counts.other;
        self.sent.messages = counts.sent;
        // Only a shaped stream has departure times to compare with.
        if let Way::Shaped(_, rate) = self.stream.way {
            self.sent.ideal = ideal(&self.sent.triggers, self.stream.size.buffer() / rate);
        }
        Ok(self.sent)
    }
}

async fn wait(timer: &mut Timer, at: Option<Instant>) {
    timer.arm(at);
    timer.expired().await;
}
