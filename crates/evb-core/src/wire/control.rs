//! Handshakes and control messages, and the checked conversion of their numbers to the types of
//! this crate. On the wire, a message is its length (u32, little-endian, at most [`MAX_MESSAGE`]),
//! then its Protobuf bytes.
// tidy: long because the limits and the checks of all messages stand together.

mod reports;
mod messages;
mod part_count;

use crate::{
    event::{Cause, MissingSource},
    id::{BuilderId, EventId, Peer, RunId, SourceId},
    set::MAX_SOURCES,
    time::{ClockState, Instant, Utc, WallClock},
};

pub use messages::*;
pub use part_count::UnreadableMessage;
#[cfg(test)]
pub(crate) use reports::MESSAGES as REPORTS;
pub use reports::{ContradictionReport, GrantStages, LaneReport, PathReport, SourceReport, TrainReport};

/// Length of the longest control message in bytes. A peer that states a larger length is
/// disconnected before its message is read (docs/reference/protocol.md CTRL-2).
pub const MAX_MESSAGE: usize = 4 << 20;

/// Length of the longest handshake message in bytes (docs/reference/protocol.md CONN-4).
pub const MAX_HELLO: usize = 4 << 10;

/// Most events that one [`Decisions`] or [`Assignments`] may cover. The limit bounds the memory
/// that a receiver needs for one message (docs/reference/protocol.md RUN-7).
pub const MAX_BATCH: u64 = 1 << 16;

/// Most exceptions in one [`Completions`]. This limit, [`MAX_MISSING`] and [`MAX_CAUSE`] together
/// keep the message below [`MAX_MESSAGE`] (docs/reference/protocol.md RUN-13).
pub const MAX_EXCEPTIONS: usize = 1024;
/// Most ids of missing sources in all exceptions of one [`Completions`].
pub const MAX_MISSING: usize = 1 << 19;
/// Length of the longest cause in an exception, in characters.
pub const MAX_CAUSE: usize = 200;

/// Most episodes of a run that are kept (docs/reference/protocol.md RUN-49).
pub const MAX_EPISODES: usize = 1000;

/// Most exclusions and inclusions of a run that are kept (docs/reference/protocol.md RUN-52).
pub const MAX_CHANGES: usize = 1000;

/// Length of the longest reason for which a peer refuses or leaves, in characters.
pub const MAX_REASON: usize = 500;

/// Length of the longest name of a source or builder, in bytes (docs/reference/protocol.md RUN-43).
pub const MAX_NAME: usize = 64;

/// Returns true if a source or builder may have that name: 1 to [`MAX_NAME`] bytes without control
/// characters.
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && !text.contains(char::is_control)
}

/// Length of the longest address of a builder, in bytes (docs/reference/protocol.md CONN-14).
const MAX_LISTEN: usize = 300;

/// Returns true if the text may be an address `host:port`, without blanks and control characters.
pub(crate) fn is_address(text: &str) -> bool {
    let is_plain = !text.contains(|c: char| c.is_control() || c.is_whitespace());
    let has_port =
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    text.len() <= MAX_LISTEN && is_plain && has_port
}

/// Returns at most `most` characters of a peer's text, without control characters: they could forge
/// lines of a log, or command a terminal.
pub fn plain(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

/// Most paths in the final report of a source (docs/reference/protocol.md RUN-38).
pub const MAX_PATHS: usize = 10;

/// Most files in a report of a builder after its sink is closed (docs/reference/protocol.md
/// RUN-53).
pub const MAX_FILES: usize = 1000;

/// Most files in another report of a builder.
pub const MAX_LATEST_FILES: usize = 4;

/// Length of the longest path of a file in a report, in bytes.
pub const MAX_FILE_PATH: usize = 500;

/// Most lanes in an interim report of a builder (docs/reference/protocol.md RUN-37).
pub const MAX_CHANGED: usize = 256;

/// Most slots that a supervisor may request of a builder. The limit bounds the memory that a
/// builder allocates (docs/reference/protocol.md CONN-12).
pub const MAX_SLOTS: u32 = 1 << 16;

/// Most outstanding events of a run, in the slots of all its builders. One message tells a source
/// of all of them, and the source remembers them (docs/reference/protocol.md RUN-21).
pub const MAX_OUTSTANDING: usize = 1 << 20;

/// Most builders of a run (docs/reference/protocol.md RUN-3).
pub const MAX_BUILDERS: usize = 1024;

/// The supervisor's decision about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No slot was free when the trigger came, so the event is not built.
    Inhibited,
    /// The event has ended without this source, and does not wait for its fragment.
    Closed,
    /// The source is excluded from the event.
    Excluded,
    /// The named builder builds the event.
    Assigned(BuilderId),
}

/// A control message with invalid numbers. The peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it sent a control message (`{message}`) that cannot be used: {problem}")]
pub struct MalformedMessage {
    /// Name of the message.
    pub message: &'static str,
    /// Description of what is wrong with the message.
    pub problem: &'static str,
}

impl Verdict {
    /// Returns the number that stands for the verdict in messages.
    const fn number(self) -> u32 {
        match self {
            Self::Inhibited => 0,
            Self::Closed => 1,
            Self::Excluded => u32::MAX,
            Self::Assigned(builder) => 2 + builder.number() as u32,
        }
    }

    /// Returns the verdict for which a number stands; `None` if no builder has such an id.
    fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Inhibited),
            1 => Some(Self::Closed),
            u32::MAX => Some(Self::Excluded),
            _ => u16::try_from(number - 2).ok().map(|id| Self::Assigned(BuilderId::new(id))),
        }
    }
}

impl Heartbeat {
    /// Returns a heartbeat that echoes the last one of the other side, which is given by its
    /// `sent_ns` and the time of its arrival.
    pub(crate) fn echoing(heard: Option<(u64, Instant)>, now: Instant) -> Self {
        let (echo_ns, came) = heard.unwrap_or((0, now));
        let echo_delay_ns = u64::try_from(now.since(came).as_nanos()).unwrap_or(u64::MAX);
        Self { sent_ns: now.as_nanos(), echo_ns, echo_delay_ns, ..Self::default() }
    }
}

impl Decisions {
    /// Creates decisions that begin with event `first` and cover no event yet.
    pub fn starting(first: EventId) -> Self {
        Self { first: first.number(), runs: Vec::new() }
    }

    /// Adds the same verdict for the next `count` events.
    pub fn extend(&mut self, count: u32, verdict: Verdict) {
        let number = verdict.number();
        match self.runs.as_mut_slice() {
            [.., last_count, last] if *last == number => *last_count += count,
            _ => self.runs.extend([count, number]),
        }
    }

    /// Returns each series of equal verdicts as first event, count, and verdict
    /// (docs/reference/protocol.md RUN-6).
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
    /// Returns the events and their trigger times, in ns on the supervisor's clock
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

    /// Returns the UTC of a trigger at that time of the supervisor's clock; unknown if the
    /// supervisor does not know the UTC.
    pub fn utc(&self, triggered_ns: u64) -> Utc {
        utc_at(self.utc_zero_ns, triggered_ns)
    }

    /// Adds an event. The differences to the previous event wrap around, so that any order can be
    /// encoded.
    pub fn add(&mut self, last: &mut (EventId, u64), event: EventId, triggered_ns: u64) {
        self.events.push(event.number().wrapping_sub(last.0.number()));
        self.triggered_ns.push(triggered_ns.wrapping_sub(last.1));
        *last = (event, triggered_ns);
    }
}

impl Completions {
    /// Adds a complete event. `last` is the event that was added before, 0 at first.
    pub fn add(&mut self, last: &mut EventId, event: EventId) {
        let step = event.number().wrapping_sub(last.number()) as i64;
        self.complete.push(((step << 1) ^ (step >> 63)) as u64);
        *last = event;
    }

    /// Notes the sources that did not owe the event a fragment that was added last, and contributed
    /// none. Call this after each [`Self::add`].
    #[inline]
    pub(crate) fn add_absent(&mut self, absent: &[MissingSource]) {
        // Most events lack no source.
        if !self.absences.is_empty() || !absent.is_empty() {
            self.add_absence(absent);
        }
    }

    /// Notes which sources are absent in the newest complete event. Neighbouring events without the
    /// same sources share one entry.
    #[cold]
    fn add_absence(&mut self, absent: &[MissingSource]) {
        if self.absences.is_empty() {
            // The complete events before this one lacked no source.
            let before = self.complete.len() as u32 - 1;
            self.absences.extend((before > 0).then(|| Absence { events: before, ..Absence::default() }));
        }
        match self.absences.last_mut() {
            Some(last) if last.is_of(absent) => last.events += 1,
            _ => self.absences.push(Absence {
                events: 1,
                sources: absent.iter().map(|absent| absent.source.number().into()).collect(),
                causes: absent.iter().map(|absent| absent.cause.code().into()).collect(),
            }),
        }
    }

    /// Returns the complete events, each with the number of the entry in `absences` that stands for
    /// it.
    pub(crate) fn events_with_absences(&self) -> impl Iterator<Item = (EventId, Option<usize>)> {
        let numbered = self.absences.iter().enumerate();
        let each =
            numbered.flat_map(|(number, absence)| core::iter::repeat_n(number, absence.events as usize));
        self.events().zip(each.map(Some).chain(core::iter::repeat(None)))
    }

    /// Returns the number of the builder's completions up to and including those in this message.
    pub fn end(&self) -> u64 {
        self.before.saturating_add((self.complete.len() + self.exceptions.len()) as u64)
    }

    /// Returns the number of completions in this message.
    pub fn count(&self) -> usize {
        self.complete.len() + self.exceptions.len()
    }

    /// Checks the lists of a message that a builder sent (docs/reference/protocol.md RUN-12).
    pub(crate) fn check(&self) -> Result<(), MalformedMessage> {
        let fault = |problem| Err(MalformedMessage { message: "Completions", problem });
        let sum = |count_of: fn(&Absence) -> u64| self.absences.iter().map(count_of).sum::<u64>();
        if sum(|absence| absence.events.into()) > self.complete.len() as u64 {
            return fault("it names absent sources of more events than it has");
        }
        if sum(|absence| absence.sources.len() as u64) > MAX_MISSING as u64 {
            return fault("it names more absent sources than one message may");
        }
        for absence in &self.absences {
            if absence.sources.len() != absence.causes.len() || absence.sources.len() > MAX_SOURCES {
                return fault("absent sources and their causes differ in number, or are too many");
            }
            if absence.causes.iter().any(|code| *code > u8::MAX.into()) {
                return fault("the cause of an absent source is above 255");
            }
        }
        self.exceptions.iter().try_for_each(Exception::check)
    }

    /// Returns this message without its first `known` completions.
    #[must_use]
    pub fn without(self, known: usize) -> Self {
        if known == 0 {
            return self;
        }
        let mut rest = Self { before: self.before.saturating_add(known as u64), ..Self::default() };
        let mut last = EventId::default();
        self.events().skip(known).for_each(|event| rest.add(&mut last, event));
        // The entries of absences stand for complete events, so they are cut at the front, too.
        let mut skipped = known;
        rest.absences = self.absences;
        rest.absences.retain_mut(|absence| {
            let cut = skipped.min(absence.events as usize);
            skipped -= cut;
            absence.events -= cut as u32;
            absence.events > 0
        });
        let exceptions = known.saturating_sub(self.complete.len());
        rest.exceptions = self.exceptions.into_iter().skip(exceptions).collect();
        rest
    }

    /// Returns the ids of the complete events.
    pub fn events(&self) -> impl Iterator<Item = EventId> {
        let mut event = 0u64;
        self.complete.iter().map(move |code| {
            let step = ((code >> 1) as i64) ^ -((code & 1) as i64);
            event = event.wrapping_add_signed(step);
            EventId::new(event)
        })
    }
}

impl Absence {
    /// Returns true if the absences are those of a list.
    fn is_of(&self, absent: &[MissingSource]) -> bool {
        self.sources.len() == absent.len()
            && self.absent_sources().eq(absent.iter().map(|absent| (absent.source, absent.cause)))
    }

    /// Returns the absent sources, each with its cause. Ids above 65535 are left out.
    pub fn absent_sources(&self) -> impl Iterator<Item = (SourceId, Cause)> {
        self.sources.iter().zip(&self.causes).filter_map(|(id, code)| {
            let id = u16::try_from(*id).ok()?;
            Some((SourceId::new(id), Cause::from_code(u8::try_from(*code).ok()?)))
        })
    }
}

impl Exception {
    /// Returns the missing sources of the event, each with its cause: [`Cause::Unknown`] in entries
    /// of journals of an earlier version. Ids above 65535 are left out.
    pub fn missing_sources(&self) -> impl Iterator<Item = (SourceId, Cause)> {
        let codes = self.missing_causes.iter().copied().chain(core::iter::repeat(0));
        self.missing.iter().zip(codes).filter_map(|(id, code)| {
            let id = u16::try_from(*id).ok()?;
            Some((SourceId::new(id), Cause::from_code(u8::try_from(code).ok()?)))
        })
    }

    /// Checks the lists of an exception that a builder sent (docs/reference/protocol.md RUN-12).
    pub fn check(&self) -> Result<(), MalformedMessage> {
        let fault = |problem| Err(MalformedMessage { message: "Completions", problem });
        if self.missing.len() != self.missing_causes.len() {
            return fault("missing sources and their causes differ in number");
        }
        if self.missing_causes.iter().any(|code| *code > u8::MAX.into()) {
            return fault("the cause of a missing source is above 255");
        }
        if self.outcome == Outcome::Incomplete && self.missing.is_empty() {
            return fault("an incomplete event misses no source");
        }
        Ok(())
    }
}

impl Holdings {
    /// Returns each builder with its events. The entry with `None` contains the events that have no
    /// builder yet (docs/reference/protocol.md RUN-35).
    pub fn assignments(
        &self,
    ) -> Result<impl Iterator<Item = (Option<BuilderId>, impl Iterator<Item = EventId>)>, MalformedMessage>
    {
        let fault = |problem| Err(MalformedMessage { message: "Holdings", problem });
        let builders: Option<Vec<_>> = self.held.iter().map(Holding::builder).collect();
        let Some(builders) = builders else { return fault("a builder id is above 65535") };
        if self.decided >= 1 << 63 || self.held.iter().any(|held| !held.is_ascending_to(self.decided)) {
            return fault("the event ids do not ascend from 1, or an event was not decided");
        }
        Ok(builders.into_iter().zip(&self.held).map(|(builder, held)| {
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
    /// Creates the entry of that builder, or of the events without a builder, with no event yet.
    pub fn of(builder: Option<BuilderId>) -> Self {
        Self { holder: builder.map_or(0, |id| 1 + u32::from(id.number())), events: Vec::new() }
    }

    /// Returns the builder of the events: `None` if the id is above 65535, `Some(None)` if the
    /// events have no builder yet.
    fn builder(&self) -> Option<Option<BuilderId>> {
        match self.holder.checked_sub(1) {
            None => Some(None),
            Some(id) => u16::try_from(id).ok().map(|id| Some(BuilderId::new(id))),
        }
    }

    fn is_ascending_to(&self, decided: u64) -> bool {
        let next =
            |event: u64, step: &u64| event.checked_add(*step).filter(|next| *step > 0 && *next <= decided);
        self.events.iter().try_fold(0, next).is_some()
    }
}

impl Accounted {
    /// Returns the supervisor's answer to a builder's message, once all completions in it are in
    /// the ledger; `None` if the message is not a [`Completions`].
    pub fn of(message: &Control) -> Option<Self> {
        match &message.message {
            Some(Message::Completions(completions)) => Some(Self { completions: completions.end() }),
            _ => None,
        }
    }
}

impl Hello {
    /// Creates a greeting from the peer `from` to the peer `to`.
    pub fn new(from: Peer, to: Peer) -> Self {
        let ((role, id), (to_role, to_id)) = (numbers(from), numbers(to));
        Self { role, id, to_role, to_id, ..Self::default() }
    }

    /// Returns the sender of the greeting.
    pub fn from_peer(&self) -> Option<Peer> {
        peer(self.role, self.id)
    }

    /// Returns the peer for which the greeting is meant.
    pub fn to_peer(&self) -> Option<Peer> {
        peer(self.to_role, self.to_id)
    }

    /// Returns the run that the sender belongs to; `None` if the sender does not know it yet.
    pub fn known_run(&self) -> Option<RunId> {
        Some(self.run_id).filter(|run| run.is_known())
    }
}

impl Begin {
    /// Returns the UTC of the zero of the supervisor's clock, modulo 2⁶⁴; 0 if unknown.
    pub fn utc_zero_ns(&self) -> u64 {
        match self.begun_utc_ns {
            0 => 0,
            utc => utc.wrapping_sub(self.begun_ns),
        }
    }

    /// Returns the UTC of an instant of the supervisor's clock, on the scale of the run.
    pub fn utc(&self, at: Instant) -> Utc {
        utc_at(self.utc_zero_ns(), at.as_nanos())
    }

    /// Returns the beginning of the run by the supervisor's wall clock, and the state of that
    /// clock.
    pub fn began(&self) -> WallClock {
        let state = ClockState::from_code(u8::try_from(self.clock_state).unwrap_or(0));
        WallClock { utc: Utc::from_nanos(self.begun_utc_ns), state }
    }
}

/// Returns the UTC of a time of a clock, given the UTC of the clock's zero; unknown if that is 0.
fn utc_at(zero_ns: u64, at_ns: u64) -> Utc {
    match zero_ns {
        0 => Utc::UNKNOWN,
        zero => Utc::from_nanos(zero.wrapping_add(at_ns)),
    }
}

impl Welcome {
    /// Returns the run parameters that the supervisor sets, if they are valid
    /// (docs/reference/protocol.md CONN-12).
    pub fn checked_parameters(&self) -> Result<RunParameters, MalformedMessage> {
        let fault = |problem| Err(MalformedMessage { message: "Welcome", problem });
        let Some(parameters) = self.parameters else { return fault("the run parameters are missing") };
        if self.epoch == 0 {
            return fault("epochs start at 1");
        }
        if !self.run_id.is_known() {
            return fault("the run id is missing");
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

    /// Returns the builder's state of the lane, if the builder belongs to that run
    /// (docs/reference/protocol.md CONN-13).
    pub fn checked_lane(&self, run_id: RunId) -> Result<LaneState, MalformedMessage> {
        let fault = |problem| Err(MalformedMessage { message: "Welcome", problem });
        if self.run_id != run_id {
            return fault("it is of another run");
        }
        self.lane.map_or_else(|| fault("the state of the lane is missing"), Ok)
    }

    /// Returns the number of a lane's connection, which the lane's datagrams carry
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
    /// Creates a refusal with a reason code and a text for people.
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

/// Returns the peer of a role and an id; `None` if there can be no such peer.
fn peer(role: Role, id: u32) -> Option<Peer> {
    match role {
        Role::Unspecified => None,
        Role::Supervisor => Some(Peer::Supervisor),
        Role::Source => u16::try_from(id).ok().map(|id| Peer::Source(SourceId::new(id))),
        Role::Builder => u16::try_from(id).ok().map(|id| Peer::Builder(BuilderId::new(id))),
    }
}
