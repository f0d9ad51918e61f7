//! The task that owns a builder's machine.

use std::{
    fmt::Display,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    builder::{BuilderConfig as CoreConfig, BuilderCore, Output},
    id::SourceId,
    set::{MAX_SOURCES, SourceSet},
    time::Instant,
    units::Bytes,
    wire::{
        control::{Control, Refusal, Report, Roster, RunParameters, Welcome, control, refusal::Reason},
        datagram::Association,
    },
};
use evb_net::{
    clock,
    control::{ControlLink, LinkError},
    handshake::RefusalLog,
    lane::{
        LaneEnd,
        datagrams::{draw_connection, round_trip},
    },
    pacing::Transport,
    timer::Timer,
};
use evb_shaper::{Policy, ShapedBuilder};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::{
    BuilderConfig,
    accept::{Entrance, Knock},
    ends::{Ended, Ends},
};
use crate::{
    filter::Filter,
    role::{self, RoleError, RunIdentity, RunOutcome},
    sink::{
        RunFacts, Sink,
        stage::{self, Fate, Stage},
    },
};

/// Runs a builder from its registration to the end of the run.
pub(super) async fn run<S: Sink>(
    config: BuilderConfig,
    listener: TcpListener,
    mut link: ControlLink,
    welcome: Welcome,
    filter: Box<dyn Filter>,
    sink: S,
    stop: mpsc::Receiver<String>,
) -> Result<RunOutcome, RoleError> {
    role::classify(&link, config.control);
    let identity = RunIdentity::of(&welcome);
    let parameters = welcome.checked_parameters()?;
    let roster = loop {
        match link.recv().await?.message {
            Some(control::Message::Roster(roster)) => break roster,
            Some(control::Message::RunEnd(end)) => return Ok(role::outcome(identity, &end, None)),
            _ => {}
        }
    };
    let core = core_config(&config, identity, &parameters, &roster)?;
    let mut needed = BuilderCore::<Policy>::memory_bound(&core);
    if config.transport == Transport::Udp {
        let lanes = core.sources.len();
        needed += Ends::window(&config.shaping, lanes) * lanes as u64;
    }
    if let Some(limit) = config.memory.filter(|limit| needed > *limit) {
        return Err(RoleError::Memory { needed, limit });
    }
    let facts = RunFacts {
        run: identity.run,
        epoch: identity.epoch,
        builder: config.id,
        sources: core.sources.clone(),
    };
    let (stage, begun) = stage::start(facts, sink, filter, core.slots)?;
    match begun.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(RoleError::Sink(error.to_string())),
        Err(_) => return Err(RoleError::Vanished),
    }
    let mut driver = Driver::new(&config, identity, core, listener, link, stage, stop)?;
    driver.handle_roster(&roster)?;
    let outcome = poll_fn(|cx| driver.poll_turn(cx)).await;
    driver.close().await;
    outcome
}

fn core_config(
    config: &BuilderConfig,
    identity: RunIdentity,
    parameters: &RunParameters,
    roster: &Roster,
) -> Result<CoreConfig, RoleError> {
    let fault = |problem: &str| RoleError::Roster(problem.to_owned());
    let id = |id: &u32| u16::try_from(*id).map(SourceId::new).map_err(|_| fault("a source id above 65535"));
    let sources = roster.sources.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    if sources.len() > MAX_SOURCES || !sources.is_sorted_by(|a, b| a < b) {
        return Err(fault("too many sources, or not ascending"));
    }
    if roster.max_fragment.len() != sources.len() {
        return Err(fault("not one max_fragment per source"));
    }
    Ok(CoreConfig {
        id: config.id,
        run: identity.run,
        epoch: identity.epoch,
        slots: parameters.slots as usize,
        deadline: Duration::from_nanos(parameters.deadline_ns),
        heartbeat: Duration::from_nanos(parameters.heartbeat_ns),
        shared_clock: parameters.shared_clock,
        sources,
        max_fragment: roster.max_fragment.iter().copied().map(Bytes::new).collect(),
    })
}

struct Driver {
    core: ShapedBuilder,
    identity: RunIdentity,
    link: ControlLink,
    entrance: Entrance,
    ends: Ends,
    /// Lanes that have ended in this turn.
    ended: Vec<Ended>,
    /// How far out of order lanes over datagrams keep bytes.
    window: Bytes,
    /// A source that breaks its lane again and again must not fill the log.
    log: RefusalLog,
    stage: Stage,
    timer: Timer,
    /// The run is ending: report when nothing is left, or then.
    finish: Option<Instant>,
    outcome: Option<RunOutcome>,
    /// The final counters, once they are sent.
    report: Option<Report>,
    stop: mpsc::Receiver<String>,
}

impl Driver {
    fn new(
        config: &BuilderConfig,
        identity: RunIdentity,
        core: CoreConfig,
        listener: TcpListener,
        link: ControlLink,
        stage: Stage,
        stop: mpsc::Receiver<String>,
    ) -> Result<Self, RoleError> {
        let lanes = core.sources.len();
        let sources = core.sources.clone();
        let mut shaping = config.shaping.clone();
        let ends = Ends::new(config.transport, &listener, &config.lane, &mut shaping, &sources)?;
        // IPv6 takes 20 bytes more of each packet (RFC 8200 §3): so much less is of the lane.
        let is_longer = config.transport == Transport::Udp && listener.local_addr()?.is_ipv6();
        let mtu = config.mtu.saturating_sub(if is_longer { 20 } else { 0 });
        let cost = role::packet_cost(config.transport, mtu, config.cell);
        let policy = shaping.policy(lanes, cost, config.rotation);
        let mut core = BuilderCore::new(core, policy, clock::now());
        core.expect_queue(config.queue);
        Ok(Self {
            core,
            identity,
            link,
            entrance: Entrance::new(listener, config, identity, sources),
            ends,
            ended: Vec::new(),
            window: Ends::window(&shaping, lanes),
            log: RefusalLog::new("lane"),
            stage,
            timer: Timer::new()?,
            finish: None,
            outcome: None,
            report: None,
            stop,
        })
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunOutcome, RoleError>> {
        loop {
            let mut more = self.poll_control(cx)?;
            self.poll_entrance(cx);
            let unread = self.poll_lanes(cx)?;
            more |= unread;
            self.poll_fates(cx);
            self.serve_timers(unread)?;
            let now = clock::now();
            self.drain(now)?;
            // An instant sink is done with its events by now.
            while self.poll_fates(cx) {
                self.drain(now)?;
            }
            self.flush_lanes(cx);
            self.report_when_done(now)?;
            if let Poll::Ready(Err(error)) = self.link.poll_flush(cx) {
                return Poll::Ready(self.end(error));
            }
            if let Some(outcome) = self.outcome.take() {
                return Poll::Ready(Ok(outcome));
            }
            if !more && self.sleep(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes in what the supervisor says, and what is asked of it; whether there may be more.
    fn poll_control(&mut self, cx: &mut Context<'_>) -> Result<bool, RoleError> {
        if let Poll::Ready(Some(cause)) = self.stop.poll_recv(cx) {
            self.link.send(&role::stop_message(cause))?;
        }
        for _ in 0..role::MESSAGES {
            let Poll::Ready(message) = self.link.poll_recv(cx) else { return Ok(false) };
            match message {
                Ok(message) => self.handle_control(message)?,
                Err(error) => self.outcome = Some(self.end(error)?),
            }
            if self.outcome.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn handle_control(&mut self, message: Control) -> Result<(), RoleError> {
        let now = clock::now();
        match message.message {
            Some(control::Message::Assignments(assignments)) => {
                let fault = |error: evb_core::builder::RosterError| RoleError::Roster(error.to_string());
                self.core.handle_assignments(&assignments, now).map_err(fault)?;
            }
            Some(control::Message::Roster(roster)) => self.handle_roster(&roster)?,
            Some(control::Message::Heartbeat(heartbeat)) => self.core.handle_heartbeat(&heartbeat, now),
            Some(control::Message::Finish(_)) => self.finish = Some(now + LAST_WRITES),
            Some(control::Message::RunEnd(end)) => {
                self.outcome = Some(role::outcome(self.identity, &end, self.report.take()));
            }
            // The rest is not for builders.
            _ => {}
        }
        Ok(())
    }

    fn handle_roster(&mut self, roster: &Roster) -> Result<(), RoleError> {
        let sources = &self.core.config().sources;
        if !roster.sources.iter().copied().eq(sources.iter().map(|source| source.number().into())) {
            return Err(RoleError::Roster("the sources of the run have changed".to_owned()));
        }
        let index = |id: &u32| sources.binary_search_by_key(id, |source| source.number().into());
        let up: Result<SourceSet, usize> = roster.up.iter().map(index).collect();
        let up = up.map_err(|_| RoleError::Roster("a source is up that is not in the run".to_owned()))?;
        self.core.handle_roster(roster.version, up, clock::now());
        self.close_lanes_but(up);
        Ok(())
    }

    /// Closes the lanes of sources that are down: a few frozen ones whose connections live would hold the whole budget by
    /// what they were granted. When they wake, they connect anew (docs/protocol.md LANE-23).
    fn close_lanes_but(&mut self, up: SourceSet) {
        for lane in 0..self.core.config().sources.len() {
            if self.ends.is_open(lane) && !up.contains(lane) {
                self.drop_lane(lane, &"its source is down");
            }
        }
    }

    fn poll_entrance(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(knock) = self.entrance.poll(cx) {
            match knock {
                Knock::Asks(lane, stream, peer) if self.core.is_lane_connected(lane) => {
                    let source = self.core.config().sources[lane];
                    let detail = format!("source {source} has a lane here already");
                    self.entrance.refuse(stream, peer, Refusal::because(Reason::DuplicateId, detail));
                }
                Knock::Asks(lane, stream, _) => self.welcome(lane, stream),
                Knock::Opened(lane, stream) => self.ends.open(lane, stream, &mut self.core),
                Knock::Failed(lane) => self.core.handle_lane_disconnected(lane, clock::now()),
            }
        }
    }

    /// Says to a source what we hold of its lane, and begins an association if it goes by datagrams.
    fn welcome(&mut self, lane: usize, stream: TcpStream) {
        let now = clock::now();
        let held = self.core.handle_lane_connected(lane, now);
        let mut connection = 0;
        if matches!(self.ends, Ends::Datagrams(_)) {
            connection = draw_connection();
            let association = Association {
                epoch: self.identity.epoch,
                source: self.core.config().sources[lane],
                builder: self.core.config().id,
                connection,
            };
            self.core.associate(lane, association, round_trip(&stream), self.window, now);
        }
        self.entrance.welcome(lane, stream, held, connection);
    }

    /// Reads what the sources send; whether there may be more.
    fn poll_lanes(&mut self, cx: &mut Context<'_>) -> Result<bool, RoleError> {
        let more = self.ends.poll_read(cx, &mut self.core, &mut self.ended)?;
        self.drop_ended();
        Ok(more)
    }

    /// Has the machine do what is due. What seems lost may be among what is not read yet: before that is, timers wait.
    fn serve_timers(&mut self, mut unread: bool) -> Result<(), RoleError> {
        let now = clock::now();
        let Some(due) = self.core.next_timeout().filter(|due| *due <= now) else { return Ok(()) };
        if !unread {
            unread = self.ends.read(&mut self.core, now, &mut self.ended)?;
            self.drop_ended();
        }
        if !unread || due + READING <= now {
            // What had come by then is read; not by any later time, if this thread was off its core meanwhile.
            self.core.handle_timeout(now);
            self.ended.extend(self.core.silent_lanes(now).map(|lane| (lane, LaneEnd::Silent)));
            self.drop_ended();
        }
        Ok(())
    }

    fn drop_ended(&mut self) {
        while let Some((lane, end)) = self.ended.pop() {
            if self.ends.is_open(lane) {
                self.drop_lane(lane, &end);
            }
        }
    }

    /// Takes back what the sink is done with; whether that was anything.
    fn poll_fates(&mut self, cx: &mut Context<'_>) -> bool {
        let now = clock::now();
        let mut any = false;
        while let Poll::Ready(fate) = self.stage.poll_fate(cx) {
            match fate {
                Some((event, Fate::Written)) => self.core.handle_written(event, now),
                Some((event, Fate::Rejected)) => self.core.handle_rejected(event, now),
                Some((event, Fate::Failed(cause))) => self.core.handle_failed(event, cause, now),
                None => return any,
            }
            any = true;
        }
        any
    }

    /// Does what the machine wants done.
    fn drain(&mut self, now: Instant) -> Result<(), RoleError> {
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Event(event) => {
                    if let Err(event) = self.stage.submit(event) {
                        self.core.handle_failed(event, "the sink's thread is gone".to_owned(), now);
                    }
                }
                Output::Lane(lane) => self.ends.write(lane, &mut self.core, now),
                Output::Supervisor(message) => self.link.send(&message)?,
            }
        }
        Ok(())
    }

    fn flush_lanes(&mut self, cx: &mut Context<'_>) {
        self.ends.poll_flush(cx, &mut self.ended);
        self.drop_ended();
    }

    fn drop_lane(&mut self, lane: usize, reason: &dyn Display) {
        let source = self.core.config().sources[lane];
        let is_ending = self.finish.is_some() || self.report.is_some() || self.outcome.is_some();
        if !is_ending && let Some(unsaid) = self.log.next_line() {
            tracing::warn!(source_id = source.number(), %reason, unsaid, "lane is down");
        }
        self.ends.close(lane);
        self.core.handle_lane_disconnected(lane, clock::now());
    }

    fn report_when_done(&mut self, now: Instant) -> Result<(), RoleError> {
        let Some(limit) = self.finish else { return Ok(()) };
        if self.core.is_idle() || limit <= now {
            self.finish = None;
            let report = self.core.report_with(self.ends.report());
            self.report = role::report_of(&report);
            self.link.send(&report)?;
        }
        Ok(())
    }

    /// Arms the timer; ready when it has expired already.
    fn sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let next = evb_core::time::earlier(self.core.next_timeout(), self.finish);
        self.timer.arm_by(next);
        self.timer.poll_expired(cx)
    }

    /// The control connection broke: an error, unless the run was over anyway.
    fn end(&self, error: LinkError) -> Result<RunOutcome, RoleError> {
        match &self.outcome {
            Some(outcome) => Ok(outcome.clone()),
            None => Err(error.into()),
        }
    }

    /// Waits until the sink has closed.
    async fn close(self) {
        self.stage.close().await;
    }
}

/// How long timers wait for what can be read.
const READING: Duration = Duration::from_millis(50);

/// How long the end of the run waits for a sink that is still writing.
const LAST_WRITES: Duration = Duration::from_secs(2);
