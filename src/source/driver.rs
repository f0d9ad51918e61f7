//! The task that owns a source's machine.

use std::{
    collections::VecDeque,
    future::poll_fn,
    ops::Range,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    id::{BuilderId, EventId, Incarnation},
    live::{HostFacts, complete_live},
    source::{Output, SourceConfig as CoreConfig, SourceCore},
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{Control, MAX_BUILDERS, Ready, Report, Roster, RunParameters, TrainReport, control},
};
use evb_net::{clock, pacing::Transport, timer::Timer};
use evb_shaper::{CONTROL_CLASS, PacedSource};
use tokio::sync::mpsc;

use super::{
    Readout, SourceConfig,
    input::{Outlet, Pushed},
    lanes::{self, Dialing, Lane, Listed},
    pacing::Paces,
};
use crate::role::{self, BusyPoll, Heard, Participation, Registered, Registration, RoleError, RunOutcome};

/// How much readout makes in one turn, bytes: heartbeats and grants must not wait for more.
const TURN: usize = 4 << 20;

/// What making a fragment costs beside its bytes, in the time that so many bytes take.
const FRAGMENT_COST: usize = 1 << 10;

/// How many fragments are taken from the channel at once.
const BATCH: usize = 256;

/// Runs a source from its registration to the end of the run.
pub(super) async fn run(
    config: SourceConfig,
    (mut registration, mut registered): (Registration, Registered),
    outlet: Outlet,
    readout: Option<Box<dyn Readout>>,
    stop: mpsc::Receiver<String>,
) -> Result<RunOutcome, RoleError> {
    let identity = registration.identity();
    let roster = match registration.roster(&mut registered).await? {
        Ok(roster) => roster,
        Err(end) => return Ok(role::outcome(identity, &end, None, Participation::default())),
    };
    let core = core_config(&config, &registered.parameters, &roster, readout.is_some())?;
    let executor = Arc::clone(&config.pacing.executor);
    let dialing = Dialing {
        source: config.id,
        identity,
        incarnation: registered.incarnation,
        bind: config.bind,
        transport: config.transport,
        mtu: config.mtu,
        options: config.lane.clone(),
        executor: Arc::clone(&executor),
        security: config.security.clone(),
    };
    let paces = Paces::new(&config);
    let pacing = paces.plan(&core.builders);
    let now = clock::now();
    let core = SourceCore::new(core, now);
    let mut driver = Driver {
        core: PacedSource::new(core, pacing),
        registration,
        lanes: Vec::new(),
        paces,
        dialing,
        timer: executor.timer()?,
        busy_poll: BusyPoll::new(config.busy_poll, now),
        outlet,
        pushed: Vec::with_capacity(BATCH),
        readout,
        wanted: VecDeque::new(),
        ranges: Vec::new(),
        ready: false,
        outcome: None,
        participation: Participation::default(),
        report: None,
        stop,
        stopping: None,
    };
    driver.handle_roster(&roster)?;
    let _awake = role::keep_awake(config.keep_awake, config.queue);
    poll_fn(|cx| driver.poll_turn(cx)).await
}

/// The builders of a roster, ascending by id (docs/protocol.md RUN-3).
fn listed(roster: &Roster) -> Result<Vec<Listed>, RoleError> {
    let mut builders = Vec::with_capacity(roster.builders.len().min(MAX_BUILDERS));
    for of_roster in &roster.builders {
        let fault = |_| RoleError::Roster(format!("builder id {}", of_roster.id));
        let builder = BuilderId::new(u16::try_from(of_roster.id).map_err(fault)?);
        let incarnation = Incarnation::new(of_roster.incarnation);
        builders.push(Listed { builder, incarnation, address: of_roster.listen.clone() });
    }
    builders.sort();
    let is_twice = builders.array_windows().any(|[a, b]| a.builder == b.builder);
    if builders.len() > MAX_BUILDERS || is_twice {
        return Err(RoleError::Roster("too many builders, or one twice".to_owned()));
    }
    Ok(builders)
}

fn core_config(
    config: &SourceConfig,
    parameters: &RunParameters,
    roster: &Roster,
    on_demand: bool,
) -> Result<CoreConfig, RoleError> {
    Ok(CoreConfig {
        id: config.id,
        max_fragment: config.max_fragment,
        orphan_timeout: Duration::from_nanos(parameters.orphan_timeout_ns),
        heartbeat: Duration::from_nanos(parameters.heartbeat_ns),
        builders: listed(roster)?.into_iter().map(|listed| listed.builder).collect(),
        on_demand,
        decided: EventId::new(parameters.decided),
        deadline: Duration::from_nanos(parameters.deadline_ns),
        queue: config.queue,
        report_period: Duration::from_nanos(parameters.report_ns),
    })
}

struct Driver {
    core: PacedSource,
    registration: Registration,
    /// By the machine's index.
    lanes: Vec<Lane>,
    paces: Paces,
    dialing: Dialing,
    timer: Timer,
    busy_poll: BusyPoll,
    outlet: Outlet,
    pushed: Vec<Pushed>,
    readout: Option<Box<dyn Readout>>,
    /// Events whose fragments readout is to make; never more than the builders have slots.
    wanted: VecDeque<EventId>,
    ranges: Vec<Range<u64>>,
    ready: bool,
    outcome: Option<RunOutcome>,
    participation: Participation,
    /// The final counters, once they are sent.
    report: Option<Report>,
    stop: mpsc::Receiver<String>,
    /// The end of the run was asked for.
    stopping: Option<String>,
}

impl Driver {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunOutcome, RoleError>> {
        loop {
            let mut more = self.poll_control(cx)?;
            more |= self.poll_lanes(cx);
            more |= self.poll_pushed(cx);
            let now = clock::now();
            if self.core.next_timeout().is_some_and(|due| due <= now) {
                self.core.handle_timeout(now);
            }
            self.drain(cx, now);
            if self.make_wanted(now) {
                self.drain(cx, now);
            }
            more |= !self.wanted.is_empty();
            for lane in 0..self.lanes.len() {
                self.lanes[lane].poll_flush(cx, &mut self.core);
            }
            self.announce_ready();
            self.report_when_done(now);
            self.flush_control(cx, now);
            if let Some(outcome) = self.outcome.take() {
                return Poll::Ready(Ok(outcome));
            }
            self.outlet.update(self.core.undecided(), self.core.backlog(), self.core.backlog_fragments());
            if !more && self.sleep(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes in what the supervisor says, and what is asked of it; whether there may be more.
    fn poll_control(&mut self, cx: &mut Context<'_>) -> Result<bool, RoleError> {
        if let Poll::Ready(Some(cause)) = self.stop.poll_recv(cx) {
            self.registration.send(&role::stop_message(cause.clone()));
            self.stopping = Some(cause);
        }
        for _ in 0..role::MESSAGES {
            let core = &self.core;
            let Poll::Ready(heard) = self.registration.poll(cx, || held(core)) else { return Ok(false) };
            match heard? {
                Heard::Message(message) => self.handle_control(message)?,
                Heard::Lost => self.core.handle_supervisor_lost(),
                Heard::Again(registered) => self.go_on(&registered),
            }
            if self.outcome.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// We registered again: a roster follows, and what became of all events that we may not have heard of.
    fn go_on(&mut self, registered: &Registered) {
        if registered.incarnation != self.dialing.incarnation {
            self.dialing.incarnation = registered.incarnation;
            self.core.begin_anew();
            for lane in &mut self.lanes {
                lane.begin_anew(&mut self.core, &self.dialing);
            }
        }
        self.core.handle_registered(clock::now());
        // Said again behind the roster.
        self.ready = true;
        if let Some(cause) = &self.stopping {
            self.registration.send(&role::stop_message(cause.clone()));
        }
    }

    /// Builders come and go; lanes follow (docs/protocol.md RUN-34).
    fn handle_roster(&mut self, roster: &Roster) -> Result<(), RoleError> {
        let listed = listed(roster)?;
        let builders: Vec<_> = listed.iter().map(|listed| (listed.builder, listed.incarnation)).collect();
        let paces = &self.paces;
        self.core.handle_roster(&builders, |builder| paces.own(builder))?;
        for lane in &mut self.lanes {
            if builders.binary_search_by_key(&lane.builder(), |(builder, _)| *builder).is_err() {
                lane.close(&mut self.core);
            }
        }
        for listed in listed {
            let Some(index) = self.core.lane_index(listed.builder) else { continue };
            match self.lanes.get_mut(index) {
                Some(lane) => lane.aim(listed, &mut self.core, &self.dialing),
                None => {
                    let rate = self.paces.socket_rate(listed.builder);
                    self.lanes.push(Lane::new(index, rate, listed, &self.dialing));
                }
            }
        }
        self.ready = false;
        Ok(())
    }

    fn handle_control(&mut self, message: Control) -> Result<(), RoleError> {
        match message.message {
            Some(control::Message::Decisions(decisions)) => {
                self.core.check_wanted(self.wanted.len())?;
                self.core.handle_decisions(&decisions)?;
                self.participation.go_on(clock::now());
            }
            Some(control::Message::Heartbeat(heartbeat)) => {
                self.core.handle_heartbeat(&heartbeat, clock::now());
            }
            Some(control::Message::Finish(_)) => {
                let now = clock::now();
                self.core.handle_finish(now);
                self.participation.end(now);
                self.lanes.iter_mut().for_each(Lane::end_run);
            }
            Some(control::Message::RunEnd(end)) => {
                let (identity, report) = (self.dialing.identity, self.report.take());
                self.outcome = Some(role::outcome(identity, &end, report, self.participation));
            }
            Some(control::Message::Roster(roster)) => self.handle_roster(&roster)?,
            Some(control::Message::Holdings(holdings)) => {
                self.core.handle_holdings(&holdings)?;
                self.core.check_wanted(self.wanted.len())?;
            }
            // The rest is not for sources.
            _ => {}
        }
        Ok(())
    }

    /// Takes in what builders say; whether there may be more.
    fn poll_lanes(&mut self, cx: &mut Context<'_>) -> bool {
        let mut more = false;
        for lane in &mut self.lanes {
            more |= lane.poll_input(cx, &mut self.core, &self.dialing, &mut self.ranges);
        }
        more
    }

    /// Takes in what readout pushes; whether there may be more.
    fn poll_pushed(&mut self, cx: &mut Context<'_>) -> bool {
        let now = clock::now();
        let mut count = 0;
        if let Poll::Ready(received) = self.outlet.fragments.poll_recv_many(cx, &mut self.pushed, BATCH) {
            count = received;
        }
        for pushed in self.pushed.drain(..) {
            let fragment = self.outlet.take(pushed);
            // Checked at the door; what is left is a readout that runs far ahead of the run. The machine counts it.
            if let Err(error) = self.core.push(fragment, now) {
                tracing::error!(%error, "a fragment is refused");
            }
        }
        count == BATCH
    }

    /// Does what the machine wants done.
    fn drain(&mut self, cx: &mut Context<'_>, now: Instant) {
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Announce(lane) => {
                    if self.lanes[lane].announce(&mut self.core, now) {
                        // One datagram at a time; on a stream, announcements wait for data to share packets with.
                        if self.dialing.transport == Transport::Udp {
                            self.lanes[lane].poll_flush(cx, &mut self.core);
                        }
                    } else {
                        self.core.handle_lane_disconnected(lane);
                    }
                }
                Output::Wanted(event) => self.wanted.push_back(event),
                Output::Supervisor(mut message) => {
                    let lanes = &mut self.lanes;
                    complete_live(&mut message, || HostFacts {
                        tcp_retransmits: sent(lanes).0,
                        ..role::facts::of_process()
                    });
                    self.registration.send(&message);
                }
            }
        }
        while let Some(departure) = self.core.poll_departure(now) {
            let lane = departure.lane;
            self.lanes[lane].send(departure);
            // At once: what was just made is still in the cache.
            self.lanes[lane].poll_flush(cx, &mut self.core);
        }
    }

    /// Has readout make fragments that are wanted, a turn's worth; whether it made any.
    fn make_wanted(&mut self, now: Instant) -> bool {
        let Some(readout) = &mut self.readout else { return false };
        let mut made = 0;
        while made < TURN
            && let Some(event) = self.wanted.pop_front()
        {
            let Some(fragment) = readout.fragment(event) else { continue };
            made += fragment.payload.len() + FRAGMENT_COST;
            if let Err(error) = self.core.push(fragment, now) {
                tracing::error!(%error, "readout made a fragment that is refused");
            }
        }
        made > 0
    }

    /// Writes to the supervisor. What is said to it takes its part of the link, before fragments do.
    fn flush_control(&mut self, cx: &mut Context<'_>, now: Instant) {
        let sent = self.registration.poll_flush(cx);
        if sent > 0 {
            self.core.charge(CONTROL_CLASS, Bytes::new(sent as u64), now);
        }
    }

    /// Tells the supervisor, once for each roster, that all its builders are reached.
    fn announce_ready(&mut self) {
        if !self.ready && self.core.is_connected() {
            self.ready = true;
            self.registration.send(&Control { message: Some(control::Message::Ready(Ready {})) });
        }
    }

    fn report_when_done(&mut self, now: Instant) {
        if self.registration.is_up() && self.core.finish(now) {
            let (retransmits, trains) = sent(&mut self.lanes);
            let report = self.core.report(retransmits, Some(trains));
            self.report = role::report_of(&report);
            self.registration.send(&report);
        }
    }

    /// Arms the timer; ready when it has expired already.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let lanes = self.lanes.iter().filter_map(Lane::next_timeout).min();
        let finish = self.core.next_finish().filter(|_| self.registration.is_up());
        let next = earlier(earlier(self.core.next_timeout(), lanes), finish);
        self.timer.arm_by(earlier(next, self.registration.next_timeout()));
        if self.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        let core = &self.core;
        let granted = || (0..core.lane_count()).map(|lane| core.granted(lane)).sum();
        self.busy_poll.stay_awake(cx, granted, now);
        Poll::Pending
    }
}

/// Over all lanes: segments that the kernel had to send again, and what became of trains.
fn sent(lanes: &mut [Lane]) -> (u64, TrainReport) {
    let each = lanes.iter_mut().map(Lane::sent);
    each.fold(Default::default(), |(again, all), one| (again + one.0, lanes::sum(all, one.1)))
}

/// What is lost with this source.
fn held(core: &PacedSource) -> String {
    let (assigned, undecided) = (core.uncommitted(), core.backlog_fragments());
    format!(
        "{assigned} fragments of assigned events are kept here, and {undecided} of events that nobody decided about"
    )
}
