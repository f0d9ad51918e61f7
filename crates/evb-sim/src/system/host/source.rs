//! A source's process. The process passes bytes and the time to the source's role, and simulates
//! readout.

mod sent;
mod lanes;
mod output;

use std::collections::BTreeSet;

use evb_core::{
    alignment::{CounterStart, TriggerCounter},
    id::{EventId, Peer, SourceId},
    session::Heard,
    source::DatagramEnd,
    time::{Instant, earlier},
    wire::control::{Hello, Message, Verdict},
};
use evb_shaper::role::{Paces, SourceRole, SourceRoleConfig};

use super::{
    Exit, Spinning, Surroundings,
    joining::{Applicant, Joined},
    line::Line,
};
use crate::{
    stream::SourceStream,
    system::{
        failure::Failure,
        scenario::{Pushes, Scenario},
    },
};

use lanes::SourceLane;
use sent::Sent;

pub(crate) struct SourceHost {
    id: SourceId,
    state: State,
    spinning: Spinning,
}

enum State {
    Joining(Box<Applicant>),
    Running(Box<Running>),
}

/// The state of a process whose role takes part in a run.
struct Running {
    id: SourceId,
    role: SourceRole,
    /// Trigger counter that readout pushes in place of event ids.
    counter: Option<TriggerCounter>,
    line: Line,
    /// The lanes, in the order of the role's lane indices.
    lanes: Vec<SourceLane>,
    /// Readers and writers of the lanes' streams.
    streams: Vec<SourceStream>,
    /// Ends of the lanes over datagrams.
    datagrams: Vec<DatagramEnd>,
    /// Time of the next attempt to send datagrams, if a socket is full.
    full_until: Option<Instant>,
    /// The bytes that have left recently on each lane.
    sent: Vec<Sent>,
    /// Events whose fragments readout is about to push, in order of time.
    readout: BTreeSet<(Instant, EventId)>,
    /// Events that readout has read out or is about to read out; used only if readout pushes on its
    /// own.
    read_out: BTreeSet<EventId>,
    /// The next event to push, if readout runs ahead of decisions.
    next: EventId,
}

impl SourceHost {
    pub(crate) fn new(id: SourceId, around: &Surroundings<'_>) -> Self {
        let hello = Hello {
            boot_id: around.boot_id.to_owned(),
            max_fragment: around.scenario.readout.size.largest().count(),
            ..Hello::new(Peer::Source(id), Peer::Supervisor)
        };
        let state = State::Joining(Box::new(Applicant::new(hello, around.now())));
        Self { id, state, spinning: Spinning::default() }
    }

    pub(crate) fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        let now = around.now();
        if let State::Joining(applicant) = &mut self.state {
            match applicant.turn(around)? {
                None => {
                    around.wake_at(applicant.next_timeout());
                    return Ok(None);
                }
                Some(Joined::Exit(exit)) => return Ok(Some(exit)),
                Some(Joined::Begin(start)) => {
                    let line = core::mem::take(&mut applicant.line);
                    let decided = EventId::new(start.registered.parameters.decided);
                    let scenario = around.scenario;
                    let config = SourceRoleConfig {
                        id: self.id,
                        max_fragment: scenario.readout.size.largest(),
                        on_demand: scenario.pushes == Pushes::OnDemand,
                        counter: counter(scenario, self.id),
                        datagrams: scenario.is_udp(),
                        queue_delay: scenario.queue_delay(),
                        paces: Paces::none(scenario.cost()),
                    };
                    let role = SourceRole::new(config, &start, now).map_err(Failure::protocol)?;
                    self.state = State::Running(Box::new(Running {
                        id: self.id,
                        role,
                        counter: counter(scenario, self.id),
                        line,
                        lanes: Vec::new(),
                        streams: Vec::new(),
                        datagrams: Vec::new(),
                        full_until: None,
                        sent: Vec::new(),
                        readout: BTreeSet::new(),
                        read_out: BTreeSet::new(),
                        next: decided.next(),
                    }));
                }
            }
        }
        let State::Running(running) = &mut self.state else { return Ok(None) };
        if let Some(exit) = running.turn(around)? {
            return Ok(Some(exit));
        }
        running.role.invariants();
        let next = running.next_timeout();
        self.spinning.check(Peer::Source(self.id), next, now)?;
        around.wake_at(next);
        Ok(None)
    }
}

impl Running {
    fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        let now = around.now();
        if around.scenario.pushes != Pushes::OnDemand {
            self.role.handle_front_ends(1, u32::from(around.mute != Some(true)), now);
        }
        while let Some(heard) = self.line.poll(around)? {
            self.note(&heard, around)?;
            self.role.handle_supervisor(heard, now);
            // Outputs are carried out after each input, so that a connection which the role closes
            // is not read any further.
            if let Some(exit) = self.drain(around)? {
                return Ok(Some(exit));
            }
        }
        self.poll_lanes(around)?;
        self.push_due(around)?;
        if self.role.next_timeout().is_some_and(|due| due <= now) {
            self.role.handle_timeout(now);
        }
        self.drain(around)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let lanes = self.lanes.iter().filter_map(SourceLane::next_timeout).min();
        let readout = self.readout.first().map(|(at, _)| *at);
        let role = earlier(self.role.next_timeout(), self.line.next_timeout());
        earlier(earlier(role, lanes), earlier(readout, self.full_until))
    }

    /// If readout pushes on its own, schedules the readout of newly assigned events.
    fn note(&mut self, heard: &Heard, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let message = match heard {
            Heard::Message(message) => &message.message,
            Heard::Welcome(_) => {
                around.records.counts.registrations += 1;
                return Ok(());
            }
            _ => return Ok(()),
        };
        match message {
            Some(Message::Roster(roster)) => {
                around.say(|| {
                    format!("hears roster {}: up {:?}, {:?}", roster.version, roster.up, roster.builders)
                });
            }
            Some(Message::Decisions(decisions)) if around.scenario.pushes == Pushes::Late => {
                for (first, count, verdict) in decisions.verdicts().map_err(Failure::protocol)? {
                    if matches!(verdict, Verdict::Assigned(_)) {
                        let events = first.number()..first.number() + u64::from(count);
                        events.for_each(|event| self.want(EventId::new(event), around));
                    }
                }
            }
            Some(Message::Holdings(holdings)) if around.scenario.pushes == Pushes::Late => {
                for (_, events) in holdings.assignments().map_err(Failure::protocol)? {
                    events.for_each(|event| self.want(event, around));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn want(&mut self, event: EventId, around: &Surroundings<'_>) {
        if around.scenario.pushes == Pushes::Late && !self.read_out.insert(event) {
            return;
        }
        let draw = around.workload.draw(usize::from(self.id.number()) - 1, event);
        if draw.payload.is_some() {
            self.readout.insert((around.now() + draw.delay, event));
        }
    }

    fn push_due(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        if around.scenario.pushes == Pushes::Ahead {
            // Readout pushes fragments of undecided events, up to `ahead` events in advance.
            let undecided = self.role.core().undecided();
            let until = undecided.number() + around.scenario.ahead;
            while self.next.number() < until {
                self.push(self.next, around)?;
                self.next = self.next.next();
            }
        }
        while let Some((at, event)) = self.readout.first().copied()
            && at <= around.now()
        {
            self.readout.pop_first();
            self.push(event, around)?;
        }
        Ok(())
    }

    fn push(&mut self, event: EventId, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let index = usize::from(self.id.number()) - 1;
        let draw = around.workload.draw(index, event);
        let Some(payload) = draw.payload.filter(|_| around.mute.is_none()) else { return Ok(()) };
        around.say(|| format!("readout pushes event {event}, {} bytes", payload.len()));
        let mut fragment = around.workload.fragment(index, event, payload);
        if let Some(raw) = self.counter.and_then(|counter| counter.value_of(event)) {
            fragment.event = EventId::new(raw);
        }
        let outcome = self.role.push(fragment, around.now());
        outcome.map_err(|error| Failure::protocol(format!("a fragment is refused: {error}")))
    }
}

/// Returns the trigger counter of a source, which soon wraps: every other source has one, where
/// readout pushes in the order of the events.
fn counter(scenario: &Scenario, id: SourceId) -> Option<TriggerCounter> {
    let has_one = scenario.pushes == Pushes::Ahead && (scenario.seed ^ u64::from(id.number())) & 1 == 0;
    let first = CounterStart::At(65_536 - 1 - scenario.seed % 64);
    has_one.then_some(TriggerCounter { first, ..TriggerCounter::new(16) })
}
