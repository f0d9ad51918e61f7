//! The sending end: triggers create messages, a token bucket computes their departure times, and an
//! executor sends each message at its departure time.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, IoSlice},
    net::SocketAddr,
    time::Duration,
};

use evb_core::{
    time::Instant,
    trigger::{Trigger, TriggerKind},
    units::{Bytes, Frequency, Rate},
};
use evb_net::{
    clock,
    pacing::{DatagramSender, Executor, SendError},
    timer::Timer,
};
use evb_shaper::EdtBucket;

use super::message::{self, MessageSize};

/// The way in which messages are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// Every message is sent as soon as its trigger occurs.
    Unshaped(TriggerKind),
    /// A token bucket of this rate, in buffer bytes, delays messages.
    Shaped(TriggerKind, Rate),
    /// One message is sent at each tick of a periodic timer, without queue or bucket. Shaped runs
    /// are compared with this loop of timer ticks.
    Bare(Rate),
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

/// The parameters of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    pub(super) run: u64,
    pub(super) way: Way,
    pub(super) size: MessageSize,
    pub(super) messages: u32,
    pub(super) seed: u64,
}

/// The sender's results of a run.
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

/// Sends the whole stream. The function blocks and starts a tokio runtime; do not call it inside a
/// runtime.
pub(super) fn run(
    stream: &Stream,
    executor: &dyn Executor,
    from: SocketAddr,
    to: SocketAddr,
) -> io::Result<Sent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rate = match stream.way {
        Way::Shaped(_, rate) | Way::Bare(rate) => Some(rate),
        Way::Unshaped(_) => None,
    };
    runtime.block_on(async {
        let socket = DatagramSender::connect(from, to, executor, rate, Some(SOCKET_BUFFER))?;
        let timer = executor.timer()?;
        let lead = executor.lead();
        let room = vec![0; stream.size.payload.as_usize()];
        let mut line = Line { stream: *stream, socket, timer, lead, room, sent: Sent::default(), number: 0 };
        match stream.way {
            Way::Bare(rate) => line.bare(rate).await?,
            Way::Unshaped(kind) => line.shaped(kind, None).await?,
            Way::Shaped(kind, rate) => line.shaped(kind, Some(bucket(rate, stream.size))).await?,
        }
        let counts = line.socket.collect()?;
        line.sent.refused = counts.missed + counts.invalid + counts.other;
        line.sent.messages = counts.sent;
        if let Way::Shaped(_, rate) = stream.way {
            line.sent.ideal = ideal(&line.sent.triggers, stream.size.buffer() / rate);
        }
        Ok(line.sent)
    })
}

/// Returns a token bucket that can catch up after timer lateness of up to two messages' time.
fn bucket(rate: Rate, size: MessageSize) -> EdtBucket {
    EdtBucket::new(rate, size.buffer() * 2)
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

struct Line {
    stream: Stream,
    socket: DatagramSender,
    timer: Timer,
    lead: Duration,
    room: Vec<u8>,
    sent: Sent,
    number: u32,
}

impl Line {
    async fn bare(&mut self, rate: Rate) -> io::Result<()> {
        let gap = self.stream.size.buffer() / rate;
        let Some(ticks) = Frequency::from_hertz(1.0 / gap.as_secs_f64()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the rate is zero"));
        };
        let mut ticks = Trigger::new(TriggerKind::Periodic { rate: ticks }, 0, clock::now());
        while self.number < self.stream.messages {
            let Some(at) = ticks.next_due() else { break };
            self.wait(Some(at)).await;
            let now = clock::now();
            ticks.pop_due(now);
            self.sent.lateness.push(now.since(at));
            self.depart(None).await?;
        }
        Ok(())
    }

    async fn shaped(&mut self, kind: TriggerKind, mut bucket: Option<EdtBucket>) -> io::Result<()> {
        let cost = self.stream.size.buffer();
        let mut trigger = Trigger::new(kind, self.stream.seed, clock::now());
        // Trigger times of the waiting messages, and the time of the last trigger.
        let (mut queue, mut last) = (VecDeque::new(), None::<Instant>);
        let (mut made, mut idle) = (0, true);
        while self.number < self.stream.messages {
            let now = clock::now();
            while made < self.stream.messages {
                let Some(at) = trigger.pop_due(now) else { break };
                made += 1;
                queue.push_back(at);
                self.sent.triggers.extend(last.map(|last| at.since(last)));
                last = Some(at);
            }
            self.sent.queue_peak = self.sent.queue_peak.max(queue.len() as u64);
            let Some(came) = queue.front().copied() else {
                idle = true;
                self.wait(trigger.next_due()).await;
                continue;
            };
            let Some(bucket) = bucket.as_mut() else {
                queue.pop_front();
                self.sent.lateness.push(now.since(came));
                self.depart(None).await?;
                continue;
            };
            if self.lead > Duration::ZERO {
                queue.pop_front();
                self.handed_over(bucket, cost, now).await?;
                continue;
            }
            if idle {
                bucket.wake(came);
                let waits = bucket.departure_of(cost, now) > now;
                self.sent.idle_starts += u64::from(!waits);
                idle = false;
            }
            let due = bucket.departure_of(cost, now);
            if due > now {
                self.wait(Some(due)).await;
                continue;
            }
            queue.pop_front();
            self.sent.lateness.push(now.since(bucket.due(cost).max(came)));
            bucket.spend(cost, now);
            self.depart(None).await?;
        }
        Ok(())
    }

    /// Gives a message to the kernel, which sends it at its departure time and must have it earlier
    /// by the executor's lead.
    async fn handed_over(&mut self, bucket: &mut EdtBucket, cost: Bytes, now: Instant) -> io::Result<()> {
        let at = bucket.depart(cost, now);
        let hand_over = Instant::from_nanos(at.as_nanos().saturating_sub(self.lead.as_nanos() as u64));
        if hand_over > now {
            self.wait(Some(hand_over)).await;
            self.sent.lateness.push(clock::now().since(hand_over));
        } else {
            self.sent.idle_starts += u64::from(at == now);
        }
        self.depart(Some(at)).await
    }

    async fn depart(&mut self, at: Option<Instant>) -> io::Result<()> {
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
            self.wait(Some(until)).await;
        }
    }

    async fn wait(&mut self, at: Option<Instant>) {
        self.timer.arm(at);
        self.timer.expired().await;
    }
}
