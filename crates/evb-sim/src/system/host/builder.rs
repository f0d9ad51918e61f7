//! A builder's process: lanes, the sink's stage, and the connection to the supervisor.

mod entrance;
mod reading;

use core::time::Duration;

use evb_core::{
    builder::{BuilderConfig, BuilderCore, Output},
    id::{BuilderId, Incarnation, Peer, SourceId},
    rng::Rng,
    set::SourceSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{Hello, Roster, control::Message},
};
use evb_shaper::ShapedBuilder;

use super::{
    Exit, Spinning, Surroundings,
    registration::{Heard, Registered, Registration, RunIdentity},
    stage::{Fate, Stage},
};
use crate::system::{
    failure::{Check, Failure},
    network::EndId,
    scenario,
};

use reading::BuilderLane;

/// How long the end of the run waits for a sink that is still writing (`src/builder/driver.rs`).
const LAST_WRITES: Duration = Duration::from_secs(2);

pub(crate) struct BuilderHost {
    id: BuilderId,
    registration: Registration,
    /// Until the first roster.
    registered: Option<Registered>,
    role: Option<Role>,
    /// Connections that have not greeted yet.
    greetings: Vec<(EndId, Instant)>,
    spinning: Spinning,
}

/// What there is from the first roster on.
struct Role {
    core: ShapedBuilder,
    blueprint: Blueprint,
    identity: RunIdentity,
    incarnation: Incarnation,
    lanes: Vec<BuilderLane>,
    stage: Stage,
    /// How many events of an earlier life the sink has.
    stale: usize,
    /// The run is ending: report when nothing is left, or then.
    finish: Option<Instant>,
}

/// What a machine is made from, each time that it begins anew.
struct Blueprint {
    config: BuilderConfig,
    report_period: Duration,
}

impl Blueprint {
    fn build(&self, around: &Surroundings<'_>) -> ShapedBuilder {
        let (scenario, now, config) = (around.scenario, around.now(), &self.config);
        let rotation = usize::from(config.id.number());
        let policy = scenario.shaping.policy(config.sources.len(), scenario.cost(), rotation);
        let mut core = BuilderCore::new(config.clone(), policy, now).with_reports(self.report_period, now);
        core.expect_queue(scenario.queue());
        core
    }
}

impl BuilderHost {
    pub(crate) fn new(id: BuilderId, around: &mut Surroundings<'_>) -> Self {
        around.network.nodes[around.node].listens = true;
        around.network.bind(around.node);
        let hello = Hello {
            boot_id: around.boot_id.to_owned(),
            listen: scenario::address_of_node(around.node),
            ..Hello::new(Peer::Builder(id), Peer::Supervisor)
        };
        let registration = Registration::new(hello, around.now());
        let spinning = Spinning::default();
        Self { id, registration, registered: None, role: None, greetings: Vec::new(), spinning }
    }

    pub(crate) fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        let now = around.now();
        while let Some(heard) = self.registration.poll(around)? {
            if let Some(exit) = self.hear(heard, around)? {
                self.registration.close(around);
                return Ok(Some(exit));
            }
        }
        self.greet(around)?;
        let mut next = earlier(self.registration.next_timeout(), self.next_greeting());
        if let Some(role) = &mut self.role {
            role.turn(&mut self.registration, around)?;
            role.core.invariants();
            role.check(around)?;
            let finish = role.finish.filter(|_| self.registration.is_up());
            next = earlier(next, earlier(role.core.next_timeout(), finish));
            next = earlier(next, role.stage.next_timeout(around));
        }
        self.spinning.check(Peer::Builder(self.id), next, now)?;
        around.wake_at(next);
        Ok(None)
    }

    /// The process is killed.
    pub(crate) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        if let Some(role) = &self.role {
            role.stage.tear(around, rng);
        }
    }

    fn hear(&mut self, heard: Heard, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        match (heard, &mut self.role) {
            (Heard::Abandoned(why), _) => return Ok(Some(Exit::Failed(why))),
            (Heard::Registered(registered), role) => {
                around.records.counts.registrations += 1;
                around.say(|| format!("registered as {}", registered.incarnation));
                match role {
                    Some(role) => role.go_on(&registered, around),
                    None => self.registered = Some(registered),
                }
            }
            (Heard::Lost, role) => {
                around.say(|| "lost the supervisor".to_owned());
                if let Some(role) = role {
                    role.core.handle_supervisor_lost();
                }
            }
            (Heard::Message(Message::RunEnd(_)), _) => return Ok(Some(Exit::Over)),
            (Heard::Message(Message::Roster(roster)), None) => {
                self.registration.watch(around.now());
                let (Some(registered), Some(identity)) = (&self.registered, self.registration.identity())
                else {
                    return Err(Failure::protocol("a roster before a welcome"));
                };
                let mut role = Role::new(self.id, identity, registered, &roster, around)?;
                role.handle_roster(&roster, around)?;
                self.role = Some(role);
            }
            (Heard::Message(_), None) => {}
            (Heard::Message(message), Some(role)) => role.handle_message(message, around)?,
        }
        Ok(None)
    }
}

impl Role {
    fn new(
        id: BuilderId,
        identity: RunIdentity,
        registered: &Registered,
        roster: &Roster,
        around: &Surroundings<'_>,
    ) -> Result<Self, Failure> {
        let told = &registered.parameters;
        let source = |id: &u32| u16::try_from(*id).map(SourceId::new).map_err(Failure::protocol);
        let sources = roster.sources.iter().map(source).collect::<Result<Vec<_>, _>>()?;
        let lanes = sources.iter().map(|_| BuilderLane::default()).collect();
        let config = BuilderConfig {
            id,
            run: identity.run,
            epoch: identity.epoch,
            slots: told.slots as usize,
            deadline: Duration::from_nanos(told.deadline_ns),
            heartbeat: Duration::from_nanos(told.heartbeat_ns),
            shared_clock: told.shared_clock,
            lease: Duration::from_nanos(told.lease_ns),
            sources,
            max_fragment: roster.max_fragment.iter().copied().map(Bytes::new).collect(),
        };
        let blueprint = Blueprint { config, report_period: Duration::from_nanos(told.report_ns) };
        let mut core = blueprint.build(around);
        core.handle_registered(registered.greeted, around.now());
        let incarnation = registered.incarnation;
        let stage = Stage::default();
        Ok(Self { core, blueprint, identity, incarnation, lanes, stage, stale: 0, finish: None })
    }

    fn turn(
        &mut self,
        registration: &mut Registration,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let now = around.now();
        self.read_lanes(around)?;
        self.take_fates(around);
        if self.core.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
            let silent: Vec<usize> = self.core.silent_lanes(now).collect();
            silent.into_iter().for_each(|lane| self.drop_lane(lane, "datagrams get nowhere", around));
            while let Some(lane) = self.core.withholding_lane(now) {
                self.drop_lane(lane, "it brings nothing", around);
            }
        }
        self.drain(registration, around)?;
        let over = |limit| self.core.is_idle() || limit <= now;
        if registration.is_up() && self.finish.is_some_and(over) {
            self.finish = None;
            registration.send(around, &self.core.report());
        }
        Ok(())
    }

    /// What must hold at every step, beside what the machine itself checks.
    fn check(&self, around: &Surroundings<'_>) -> Result<(), Failure> {
        use evb_core::grant::GrantPolicy as _;
        let (outstanding, budget) = (self.core.policy().outstanding(), around.scenario.budget());
        if outstanding > budget {
            let what = format!("{outstanding} are under way to a builder; the budget is {budget}");
            return Err(Failure::new(Check::Budget, what));
        }
        let (used, slots) = (self.core.slots_used(), self.core.config().slots);
        if used > slots {
            return Err(Failure::new(Check::Invariant, format!("{used} of {slots} slots are used")));
        }
        Ok(())
    }

    fn go_on(&mut self, registered: &Registered, around: &mut Surroundings<'_>) {
        if registered.incarnation != self.incarnation {
            for lane in 0..self.lanes.len() {
                self.lanes[lane].close(around);
            }
            self.incarnation = registered.incarnation;
            self.core = self.blueprint.build(around);
            self.stale = self.stage.in_hand();
            self.core.open_sink(self.stale == 0);
            self.finish = None;
        }
        self.core.handle_registered(registered.greeted, around.now());
    }

    fn handle_message(&mut self, message: Message, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        match message {
            Message::Assignments(assignments) => {
                self.core.handle_assignments(&assignments, now).map_err(Failure::protocol)?;
            }
            Message::Accounted(accounted) => {
                self.core.handle_accounted(&accounted).map_err(Failure::protocol)?;
            }
            Message::Roster(roster) => self.handle_roster(&roster, around)?,
            Message::Heartbeat(heartbeat) => self.core.handle_heartbeat(&heartbeat, now),
            Message::Stop(_) => self.stage.expect_end(around),
            Message::Finish(_) => self.finish = Some(now + LAST_WRITES),
            _ => {}
        }
        Ok(())
    }

    fn handle_roster(&mut self, roster: &Roster, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        around.say(|| format!("hears roster {}: up {:?}, {:?}", roster.version, roster.up, roster.builders));
        let sources = &self.core.config().sources;
        let index = |id: &u32| sources.binary_search_by_key(id, |source| source.number().into()).ok();
        let set = |ids: &[u32]| ids.iter().map(index).collect::<Option<SourceSet>>();
        let (Some(up), Some(awaited)) = (set(&roster.up), set(&roster.awaited)) else {
            return Err(Failure::protocol("a source is expected that is not in the run"));
        };
        self.core.handle_roster(roster.version, up, awaited, around.now());
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].is_open() && !up.contains(lane) {
                self.drop_lane(lane, "its source is down", around);
            }
        }
        Ok(())
    }

    /// Takes back what the sink is done with.
    fn take_fates(&mut self, around: &mut Surroundings<'_>) {
        let now = around.now();
        for (event, fate) in self.stage.poll(around) {
            if self.stale > 0 {
                self.stale -= 1;
                self.core.open_sink(self.stale == 0);
                continue;
            }
            match fate {
                Fate::Written => self.core.handle_written(event, now),
                Fate::Rejected => self.core.handle_rejected(event, now),
                Fate::Failed(cause) => self.core.handle_failed(event, cause, now),
            }
        }
    }

    /// Does what the machine wants done.
    fn drain(
        &mut self,
        registration: &mut Registration,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        while let Some(output) = self.core.poll(around.now()) {
            match output {
                Output::Event(event) => {
                    around.say(|| {
                        format!(
                            "event {} is over, epoch {}, missing {:?}",
                            event.id, event.epoch, event.missing
                        )
                    });
                    self.stage.submit(event, around)?;
                }
                Output::Lane(lane) => self.write_lane(lane, around),
                Output::Supervisor(message) => {
                    if let Some(Message::Completions(completions)) = &message.message {
                        around.say(|| format!("says {completions:?}"));
                    }
                    registration.send(around, &message);
                }
            }
        }
        Ok(())
    }

    fn drop_lane(&mut self, lane: usize, why: &str, around: &mut Surroundings<'_>) {
        around.say(|| format!("closes lane {lane}: {why}"));
        self.lanes[lane].close(around);
        self.core.handle_lane_disconnected(lane, around.now());
    }
}
