//! A builder's process. The process passes bytes and the time to the builder's role, and simulates
//! filter and sink.

mod reading;

use core::mem;
use std::collections::BTreeMap;

use evb_core::{
    builder::DatagramEnds,
    grant::GrantPolicy as _,
    id::{BuilderId, EventId, Peer},
    rng::Rng,
    session::{HANDSHAKE_TIMEOUT, Heard, ReportFacts, Start, Target},
    set::SourceSet,
    time::{Instant, earlier, stood_still},
    wire::control::{Hello, Message},
};
use evb_shaper::role::{BuilderOutput, BuilderPlan, BuilderRole, BuilderRoleConfig, Greeting};

use super::{
    Exit, Spinning, Surroundings,
    joining::{Applicant, Joined, exit},
    line::Line,
    stage::{Fate, Stage},
};
use crate::system::{
    failure::{Check, Failure},
    greeting::{read_greeting, refused, welcomed, write_greeting},
    network::{Address, ConnectionKind, EndId},
    scenario,
};

use reading::BuilderLane;

pub(crate) struct BuilderHost {
    id: BuilderId,
    /// Number of the process among all that were started.
    process: u64,
    state: State,
    /// Accepted connections whose greeting has not arrived yet, and the times at which they were
    /// accepted.
    greetings: Vec<(EndId, Instant)>,
    spinning: Spinning,
}

enum State {
    Joining(Box<Applicant>),
    Running(Box<Running>),
}

/// The state of a process whose role takes part in a run.
struct Running {
    role: BuilderRole,
    line: Line,
    lanes: Vec<BuilderLane>,
    datagrams: DatagramEnds<Address>,
    stage: Stage,
    /// For each event that waits only for what nothing need bring (fragments that are not
    /// announced, or whose lane is broken): the time since when.
    stuck_since: BTreeMap<EventId, Instant>,
    /// Time of the next check for stuck events.
    next_look: Instant,
}

impl BuilderHost {
    pub(crate) fn new(id: BuilderId, around: &mut Surroundings<'_>) -> Self {
        around.network.nodes[around.node].listens = true;
        around.network.bind(around.node);
        let hello = Hello {
            boot_id: around.boot_id.to_owned(),
            listen: scenario::address_of_node(around.node),
            // Its disk knows no run.
            highest_run: 1,
            ..Hello::new(Peer::Builder(id), Peer::Supervisor)
        };
        let state = State::Joining(Box::new(Applicant::new(hello, around.now())));
        let process = around.records.counts.processes;
        Self { id, process, state, greetings: Vec::new(), spinning: Spinning::default() }
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
                    let line = mem::take(&mut applicant.line);
                    let running = Running::new(self.id, self.process, &start, line, around)?;
                    self.state = State::Running(Box::new(running));
                }
            }
        }
        let State::Running(running) = &mut self.state else { return Ok(None) };
        running.greet(&mut self.greetings, around)?;
        if let Some(exit) = running.turn(around)? {
            return Ok(Some(exit));
        }
        running.role.invariants();
        running.check(around)?;
        running.look_at_slots(around)?;
        let greeting = self.greetings.iter().map(|(_, since)| *since + HANDSHAKE_TIMEOUT).min();
        let next = earlier(running.next_timeout(around), greeting);
        self.spinning.check(Peer::Builder(self.id), next, now)?;
        around.wake_at(next);
        Ok(None)
    }

    /// Leaves the files as they are if the process dies now, perhaps in the middle of a write.
    pub(crate) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        if let State::Running(running) = &self.state {
            running.stage.tear(around, rng);
        }
    }
}

impl Running {
    /// Creates the role for the run that `start` describes.
    fn new(
        id: BuilderId,
        process: u64,
        start: &Start,
        line: Line,
        around: &Surroundings<'_>,
    ) -> Result<Self, Failure> {
        let scenario = around.scenario;
        let config = BuilderRoleConfig {
            id,
            shaping: scenario.shaping.clone(),
            cost: scenario.cost(),
            // Each builder begins with another source, so that not all ask the same one first.
            rotation: id.number().into(),
            queue_delay: scenario.queue_delay(),
            memory: None,
            datagrams: scenario.is_udp(),
        };
        let plan = BuilderPlan::new(config, start).map_err(Failure::protocol)?;
        let lanes = plan.sources().iter().map(|_| BuilderLane::default()).collect();
        let datagrams = DatagramEnds::new(plan.sources().to_vec());
        let role = BuilderRole::new(plan, start, around.now()).map_err(Failure::protocol)?;
        let (stage, next_look) = (Stage::new(process), around.now());
        Ok(Self { role, line, lanes, datagrams, stage, stuck_since: BTreeMap::new(), next_look })
    }

    fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        let now = around.now();
        while let Some(heard) = self.line.poll(around)? {
            self.note(&heard, around);
            self.role.handle_supervisor(heard, now);
            // Outputs are carried out after each input, so that a connection which the role closes
            // is not read any further.
            if let Some(exit) = self.drain(around)? {
                return Ok(Some(exit));
            }
        }
        self.read_lanes(around)?;
        self.take_fates(around);
        if let Some(due) = self.role.next_timeout().filter(|due| *due <= now) {
            if stood_still(due, now) {
                // From here on, events wait as long as new ones.
                self.stuck_since.clear();
            }
            self.role.handle_timeout(false, now);
        }
        self.drain(around)
    }

    fn next_timeout(&self, around: &Surroundings<'_>) -> Option<Instant> {
        let role = earlier(self.role.next_timeout(), self.line.next_timeout());
        earlier(role, self.stage.next_timeout(around))
    }

    fn note(&mut self, heard: &Heard, around: &mut Surroundings<'_>) {
        match heard {
            Heard::Welcome(_) => around.records.counts.registrations += 1,
            Heard::Message(message) => {
                if let Some(Message::Roster(roster)) = &message.message {
                    // A roster that changes which sources are expected may restart deadlines.
                    self.stuck_since.clear();
                    around.say(|| {
                        format!("hears roster {}: up {:?}, {:?}", roster.version, roster.up, roster.builders)
                    });
                }
            }
            _ => {}
        }
    }

    /// Checks conditions that must hold after every step, in addition to the invariants of the
    /// role.
    fn check(&self, around: &Surroundings<'_>) -> Result<(), Failure> {
        let core = self.role.core();
        let (outstanding, budget) = (core.policy().outstanding(), around.scenario.budget());
        if outstanding > budget {
            let what = format!("{outstanding} are under way to a builder; the budget is {budget}");
            return Err(Failure::new(Check::Budget, what));
        }
        let (used, slots) = (core.slots_used(), core.config().slots);
        if used > slots {
            return Err(Failure::new(Check::Invariant, format!("{used} of {slots} slots are used")));
        }
        Ok(())
    }

    /// Checks that no slot is held for much longer than the deadline although nothing need bring
    /// what its event lacks.
    fn look_at_slots(&mut self, around: &Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        if now < self.next_look {
            return Ok(());
        }
        if now.since(self.next_look) > scenario::LOOK || !matches!(self.line, Line::Up(_)) {
            // The process did not run for some time, and may have missed changes; or no supervisor
            // can say whether a source comes back.
            self.stuck_since.clear();
        }
        self.next_look = now + scenario::LOOK;
        let mut still_stuck = BTreeMap::new();
        for (event, announced, unannounced) in self.role.core().waiting() {
            if announced.iter().any(|lane| self.lanes[lane].is_open()) {
                continue;
            }
            let since = self.stuck_since.get(&event).copied().unwrap_or(now);
            if now.since(since) > around.scenario.deadline + scenario::STUCK {
                let waits = now.since(since);
                let lanes = |set: SourceSet| set.iter().collect::<Vec<_>>();
                let (announced, unannounced) = (lanes(announced), lanes(unannounced));
                let what = format!(
                    "event {event} holds a slot; for {waits:?} it has waited only for lanes {announced:?}, which are broken, \
                     and for {unannounced:?}, which have announced nothing"
                );
                return Err(Failure::new(Check::Stuck, what));
            }
            still_stuck.insert(event, since);
        }
        self.stuck_since = still_stuck;
        Ok(())
    }

    /// Answers the greetings of sources that want to open lanes.
    fn greet(
        &mut self,
        greetings: &mut Vec<(EndId, Instant)>,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let now = around.now();
        let accepted = mem::take(&mut around.network.nodes[around.node].accepted);
        greetings.extend(accepted.into_iter().map(|end| (end, now)));
        for (end, since) in mem::take(greetings) {
            let incoming = around.network.incoming(end);
            match read_greeting::<Hello>(ConnectionKind::Lane, incoming).map_err(Failure::protocol)? {
                Some(hello) => self.answer(end, &hello, around),
                None if around.network.is_ended(end) || now.since(since) >= HANDSHAKE_TIMEOUT => {
                    around.network.close(end);
                }
                None => greetings.push((end, since)),
            }
        }
        Ok(())
    }

    fn answer(&mut self, end: EndId, hello: &Hello, around: &mut Surroundings<'_>) {
        let connection = 1 + around.network.below(u64::from(u32::MAX) - 1) as u32;
        let greeting = Greeting { connection, round_trip: around.scenario.round_trip() };
        match self.role.handle_hello(hello, greeting, around.now()) {
            Ok(admitted) => {
                let lane = admitted.lane;
                around.say(|| format!("opens lane {lane}: {:?}", admitted.welcome.lane));
                let outgoing = around.network.outgoing(end);
                write_greeting(ConnectionKind::Lane, &welcomed(admitted.welcome), outgoing);
                around.network.flush(end);
                self.open_lane(lane, end, around);
                self.role.handle_lane_up(lane);
            }
            Err(refusal) => {
                around.say(|| format!("refuses a lane: {}", refusal.detail));
                write_greeting(ConnectionKind::Lane, &refused(refusal), around.network.outgoing(end));
                around.network.flush(end);
                around.network.close(end);
            }
        }
    }

    /// Reports events that the sink has finished to the role.
    fn take_fates(&mut self, around: &mut Surroundings<'_>) {
        let now = around.now();
        for (event, fate) in self.stage.poll(around) {
            match fate {
                Fate::Written => self.role.handle_written(event, now),
                Fate::Rejected => self.role.handle_rejected(event, now),
                Fate::Failed(cause) => self.role.handle_failed(event, cause, now),
            }
        }
    }

    /// Carries out the outputs of the role.
    fn drain(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        while let Some(output) = self.role.poll(around.now()) {
            match output {
                BuilderOutput::Dial(dial) => self.line.dial(dial, around),
                BuilderOutput::Close(Target::Supervisor) => self.line.close(around),
                BuilderOutput::Close(Target::Lane(lane)) => {
                    around.say(|| format!("closes lane {lane}"));
                    self.close_lane(lane, around);
                }
                BuilderOutput::Send(message) => {
                    if let Some(Message::Completions(completions)) = &message.message {
                        around.say(|| format!("says {completions:?}"));
                    }
                    self.line.send(&message, around);
                }
                BuilderOutput::Report(mut message) => {
                    self.role.complete(&mut message, ReportFacts::default());
                    self.line.send(&message, around);
                }
                BuilderOutput::Event(event) => {
                    around.say(|| {
                        format!(
                            "event {} is over, epoch {}, missing {:?}",
                            event.id, event.epoch, event.missing
                        )
                    });
                    self.stage.submit(event, around)?;
                }
                BuilderOutput::Lane(lane) => self.write_lane(lane, around),
                BuilderOutput::Begin(_) => self.role.handle_begun(Ok(()), None),
                BuilderOutput::Episodes(told) => around.say(|| format!("is told of {told:?}")),
                BuilderOutput::Changes(told) => around.say(|| format!("is told of {told:?}")),
                BuilderOutput::ExpectEnd => self.stage.expect_end(around),
                BuilderOutput::Ended(ended) => {
                    self.line.close(around);
                    return exit(*ended).map(Some);
                }
            }
        }
        Ok(None)
    }
}
