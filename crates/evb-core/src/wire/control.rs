//! Handshakes and control messages, and the checked conversion of their numbers to our types. A
//! message on the wire is its length (u32, little-endian, at most [`MAX_MESSAGE`]) and its Protobuf
//! bytes.

mod messages;
mod parts;

use crate::id::{BuilderId, Epoch, EventId, Peer, RunNumber, SourceId};

pub use messages::*;
pub use parts::UnreadableMessage;

/// The longest control message that is read; a longer length closes the connection unread
/// (docs/reference/protocol.md CTRL-2).
pub const MAX_MESSAGE: usize = 4 << 20;

/// The longest handshake message (docs/reference/protocol.md CONN-4).
pub const MAX_HELLO: usize = 4 << 10;

/// The most events that one [`Decisions`] or [`Assignments`] may cover: it bounds what a receiver
/// has to remember (docs/reference/protocol.md RUN-7).
pub const MAX_BATCH: u64 = 1 << 16;

/// The most exceptions in one [`Completions`]. With [`MAX_CAUSE`], it keeps the message below
/// [`MAX_MESSAGE`] (docs/reference/protocol.md RUN-13).
pub const MAX_EXCEPTIONS: usize = 1024;
/// The longest cause of one exception, in characters.
pub const MAX_CAUSE: usize = 200;

/// The most slots that a supervisor may request of a builder: it bounds what a builder sets up
/// (docs/reference/protocol.md CONN-12).
pub const MAX_SLOTS: u32 = 1 << 16;

/// The most events of a run under construction, in the slots of all its builders: a source is told
/// of that many at once, and remembers them (docs/reference/protocol.md RUN-21).
pub const MAX_OUTSTANDING: usize = 1 << 20;

/// The most builders of a run (docs/reference/protocol.md RUN-3).
pub const MAX_BUILDERS: usize = crate::set::MAX_SOURCES;

/// The supervisor's decision about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The trigger came while no slot was free; the event is not built.
    Inhibited,
    /// The event ended without this source, and waits for it no longer.
    Closed,
    /// That builder builds the event.
    Assigned(BuilderId),
}

/// A control message with invalid numbers: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {message}: {problem}")]
pub struct MalformedMessage {
    /// The name of the message.
    pub message: &'static str,
    /// The fault of the message.
    pub problem: &'static str,
}

impl Verdict {
    const fn number(self) -> u32 {
        match self {
            Self::Inhibited => 0,
            Self::Closed => 1,
            Self::Assigned(builder) => 2 + builder.number() as u32,
        }
    }

    fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Inhibited),
            1 => Some(Self::Closed),
            _ => u16::try_from(number - 2).ok().map(|id| Self::Assigned(BuilderId::new(id))),
        }
    }
}

impl Decisions {
    /// Creates decisions from `first` on, with no events yet.
    pub fn starting(first: EventId) -> Self {
        Self { first: first.number(), runs: Vec::new() }
    }

    /// Adds the verdict on the next `count` events.
    pub fn extend(&mut self, count: u32, verdict: Verdict) {
        let number = verdict.number();
        match self.runs.as_mut_slice() {
            [.., last_count, last] if *last == number => *last_count += count,
            _ => self.runs.extend([count, number]),
        }
    }

    /// Returns each run of equal verdicts: first event, count, verdict (docs/reference/protocol.md
    /// RUN-6).
    pub fn verdicts(&self) -> Result<Vec<(EventId, u32, Verdict)>, MalformedMessage> {
        let fault = |problem| MalformedMessage { message: "Decisions", problem };
        if self.first == 0 {
            return Err(fault("event ids start at 1"));
        }
        let (pairs, rest) = self.runs.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(fault("odd number of run-length values"));
        }
        let mut next = self.first;
        let mut verdicts = Vec::with_capacity(pairs.len().min(MAX_BATCH as usize));
        for [count, number] in pairs {
            if *count == 0 {
                return Err(fault("a decision covers no events"));
            }
            let verdict = Verdict::from_number(*number).ok_or_else(|| fault("a verdict is unknown"))?;
            verdicts.push((EventId::new(next), *count, verdict));
            next = next.checked_add(u64::from(*count)).ok_or_else(|| fault("event ids overflow"))?;
            if next - self.first > MAX_BATCH {
                return Err(fault("more events than one message may cover"));
            }
        }
        Ok(verdicts)
    }
}

impl Assignments {
    /// Returns the events and their trigger times, in ns of the supervisor's clock
    /// (docs/reference/protocol.md RUN-8).
    pub fn events(&self) -> Result<Vec<(EventId, u64)>, MalformedMessage> {
        let fault = |problem| MalformedMessage { message: "Assignments", problem };
        if self.events.len() != self.triggered_ns.len() || self.events.len() as u64 > MAX_BATCH {
            return Err(fault("events and trigger times differ in number, or are too many"));
        }
        let (mut event, mut triggered) = (0u64, 0u64);
        let pairs = self.events.iter().zip(&self.triggered_ns);
        pairs
            .map(|(event_step, time_step)| {
                event = event.wrapping_add(*event_step);
                triggered = triggered.wrapping_add(*time_step);
                if event == 0 {
                    Err(fault("event ids start at 1"))
                } else {
                    Ok((EventId::new(event), triggered))
                }
            })
            .collect()
    }

    /// Adds an event. Differences wrap, so that any order can be encoded.
    pub fn add(&mut self, last: &mut (EventId, u64), event: EventId, triggered_ns: u64) {
        self.events.push(event.number().wrapping_sub(last.0.number()));
        self.triggered_ns.push(triggered_ns.wrapping_sub(last.1));
        *last = (event, triggered_ns);
    }
}

impl Completions {
    /// Adds a complete event after `last` (the one added before; 0 at first).
    pub fn add(&mut self, last: &mut EventId, event: EventId) {
        let step = event.number().wrapping_sub(last.number()) as i64;
        self.complete.push(((step << 1) ^ (step >> 63)) as u64);
        *last = event;
    }

    /// Returns the number of the builder's completions including these.
    pub fn end(&self) -> u64 {
        self.before.saturating_add((self.complete.len() + self.exceptions.len()) as u64)
    }

    /// Returns the number of events in this message.
    pub fn count(&self) -> usize {
        self.complete.len() + self.exceptions.len()
    }

    /// Returns all completions except the first `known` ones.
    #[must_use]
    pub fn without(self, known: usize) -> Self {
        if known == 0 {
            return self;
        }
        let mut rest = Self { before: self.before.saturating_add(known as u64), ..Self::default() };
        let mut last = EventId::default();
        self.events().skip(known).for_each(|event| rest.add(&mut last, event));
        let exceptions = known.saturating_sub(self.complete.len());
        rest.exceptions = self.exceptions.into_iter().skip(exceptions).collect();
        rest
    }

    /// Returns the complete events.
    pub fn events(&self) -> impl Iterator<Item = EventId> {
        let mut event = 0u64;
        self.complete.iter().map(move |code| {
            let step = ((code >> 1) as i64) ^ -((code & 1) as i64);
            event = event.wrapping_add_signed(step);
            EventId::new(event)
        })
    }
}

impl Holdings {
    /// Returns each builder with the events that it has; `None` stands for events that no builder
    /// has yet (docs/reference/protocol.md RUN-35).
    pub fn assignments(
        &self,
    ) -> Result<impl Iterator<Item = (Option<BuilderId>, impl Iterator<Item = EventId>)>, MalformedMessage>
    {
        let fault = |problem| Err(MalformedMessage { message: "Holdings", problem });
        let is_known = |held: &Holding| u16::try_from(held.builder).is_ok();
        if !self.held.iter().all(is_known) {
            return fault("a builder id is above 65535");
        }
        if self.decided >= 1 << 63 || self.held.iter().any(|held| !held.is_ascending_to(self.decided)) {
            return fault("the event ids do not ascend from 1, or an event was not decided");
        }
        Ok(self.held.iter().map(|held| {
            let builder = (held.builder != 0).then(|| BuilderId::new(held.builder as u16));
            let mut event = 0;
            let events = held.events.iter().map(move |step| {
                event += step;
                EventId::new(event)
            });
            (builder, events)
        }))
    }
}

impl Holding {
    fn is_ascending_to(&self, decided: u64) -> bool {
        let next =
            |event: u64, step: &u64| event.checked_add(*step).filter(|next| *step > 0 && *next <= decided);
        self.events.iter().try_fold(0, next).is_some()
    }
}

impl Accounted {
    /// Returns the answer to a message when all its completions are in the ledger; `None` if it has
    /// none.
    pub fn of(message: &Control) -> Option<Self> {
        match &message.message {
            Some(Message::Completions(completions)) => Some(Self { completions: completions.end() }),
            _ => None,
        }
    }
}

impl Hello {
    /// Creates a greeting from one peer to another.
    pub fn new(from: Peer, to: Peer) -> Self {
        let ((role, id), (to_role, to_id)) = (numbers(from), numbers(to));
        Self { role, id, to_role, to_id, ..Self::default() }
    }

    /// Returns the sender of the greeting.
    pub fn from_peer(&self) -> Option<Peer> {
        peer(self.role, self.id)
    }

    /// Returns the peer that the sender wants to reach.
    pub fn to_peer(&self) -> Option<Peer> {
        peer(self.to_role, self.to_id)
    }

    /// Returns the epoch that the sender expects, if it has one.
    pub fn known_epoch(&self) -> Option<Epoch> {
        (self.epoch != 0).then(|| Epoch::new(self.epoch))
    }

    /// Returns the run that the sender expects, if it has one.
    pub fn known_run(&self) -> Option<RunNumber> {
        (self.run != 0).then(|| RunNumber::new(self.run))
    }
}

impl Welcome {
    /// Returns the parameters that the supervisor sets, if they are possible
    /// (docs/reference/protocol.md CONN-12).
    pub fn checked_parameters(&self) -> Result<RunParameters, MalformedMessage> {
        let fault = |problem| Err(MalformedMessage { message: "Welcome", problem });
        let Some(parameters) = self.parameters else { return fault("the run parameters are missing") };
        if self.epoch == 0 {
            return fault("epochs start at 1");
        }
        if !(1..=MAX_SLOTS).contains(&parameters.slots) {
            return fault("the number of slots is zero or too large");
        }
        if parameters.heartbeat_ns == 0 {
            return fault("the time between heartbeats is zero");
        }
        if parameters.decided >= 1 << 63 {
            return fault("the last decided event id is larger than any possible one");
        }
        Ok(parameters)
    }

    /// Returns a builder's state of our lane, if the builder is in our run and epoch
    /// (docs/reference/protocol.md CONN-13).
    pub fn checked_lane(&self, run: RunNumber, epoch: Epoch) -> Result<LaneState, MalformedMessage> {
        let fault = |problem| Err(MalformedMessage { message: "Welcome", problem });
        if (self.run, self.epoch) != (run.number(), epoch.number()) {
            return fault("the builder is in another run or epoch");
        }
        self.lane.map_or_else(|| fault("the state of the lane is missing"), Ok)
    }

    /// Returns the number of a lane's connection, which its datagrams carry
    /// (docs/reference/protocol.md UDP-1).
    pub fn checked_connection(&self) -> Result<u32, MalformedMessage> {
        let fault = MalformedMessage {
            message: "Welcome",
            problem: "the connection number for datagrams is missing",
        };
        if self.connection == 0 { Err(fault) } else { Ok(self.connection) }
    }
}

impl Refusal {
    /// Creates a refusal with words for the log.
    pub fn because(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

fn numbers(peer: Peer) -> (Role, u32) {
    match peer {
        Peer::Supervisor => (Role::Supervisor, 0),
        Peer::Source(id) => (Role::Source, id.number().into()),
        Peer::Builder(id) => (Role::Builder, id.number().into()),
    }
}

fn peer(role: Role, id: u32) -> Option<Peer> {
    match role {
        Role::Unspecified => None,
        Role::Supervisor => Some(Peer::Supervisor),
        Role::Source => u16::try_from(id).ok().map(|id| Peer::Source(SourceId::new(id))),
        Role::Builder => u16::try_from(id).ok().map(|id| Peer::Builder(BuilderId::new(id))),
    }
}
