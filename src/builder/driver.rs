//! The task that owns a builder's machine.

use std::{
    fmt::Display,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    builder::Output,
    id::Incarnation,
    live::{HostFacts, complete_live},
    set::SourceSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::{
        control::{Control, Refusal, RefusalReport, Report, Roster, control, refusal::Reason, report},
        datagram::Association,
    },
};
use evb_net::{
    clock,
    handshake::{Channel, RefusalLog},
    host,
    lane::{
        LaneEnd,
        datagrams::{draw_connection, round_trip},
    },
    timer::Timer,
};
use evb_shaper::ShapedBuilder;
use tokio::{net::TcpListener, sync::mpsc};

use super::{
    BuilderConfig,
    accept::{Entrance, Knock},
    ends::{Ended, Ends, out_of_order_window},
    machine::Blueprint,
};
use crate::{
    filter::Filter,
    role::{self, BusyPoll, Heard, Participation, Registered, Registration, RoleError, RunOutcome},
    sink::{
        RunFacts, Sink,
        stage::{self, Fate, Stage, StageOptions},
    },
};

/// Runs a builder from its registration to the end of the run.
pub(super) async fn run<S: Sink>(
    config: BuilderConfig,
    listener: TcpListener,
    (mut registration, mut registered): (Registration, Registered),
    filter: Box<dyn Filter>,
    sink: S,
    stop: mpsc::Receiver<String>,
) -> Result<RunOutcome, RoleError> {
    let identity = registration.identity();
    let roster = match registration.roster(&mut registered).await? {
        Ok(roster) => roster,
        Err(end) => return Ok(role::outcome(identity, &end, None, Participation::default())),
    };
    let blueprint = Blueprint::new(&config, identity, &registered.parameters, &roster, &listener)?;
    let facts = RunFacts {
        run: identity.run,
        epoch: identity.epoch,
        builder: config.id,
        sources: blueprint.core.sources.clone(),
    };
    let options = StageOptions { slots: blueprint.core.slots, give_up: config.give_up };
    let (stage, begun) = stage::start(facts, sink, filter, options)?;
    match begun.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(RoleError::Sink(error.to_string())),
        Err(_) => return Err(RoleError::Vanished),
    }
    let registration = (registration, registered);
    let mut driver = Driver::new(&config, blueprint, listener, registration, stage, stop)?;
    driver.handle_roster(&roster)?;
    // Not before the sink's thread runs, which would inherit it.
    if config.is_urgent() {
        match host::take_precedence() {
            Ok(how) => tracing::debug!(builder = %config.id, ?how, "goes before other programs"),
            Err(error) => {
                tracing::info!(builder = %config.id, %error, "no precedence over other programs: allow real-time priority 1, or nice {}", host::PRECEDENCE);
            }
        }
    }
    let awake = role::keep_awake(config.keep_awake, config.queue);
    let outcome = poll_fn(|cx| driver.poll_turn(cx)).await;
    drop(awake);
    let lost = open_here(&driver.core, driver.at_sink);
    if matches!(outcome, Err(RoleError::Abandoned { .. })) && lost > 0 {
        tracing::error!(builder = %config.id, lost, "the supervisor is gone for good: events open here are lost");
    }
    driver.close().await;
    outcome
}

struct Driver {
    blueprint: Blueprint,
    core: ShapedBuilder,
    registration: Registration,
    incarnation: Incarnation,
    entrance: Entrance,
    ends: Ends,
    /// Lanes that have ended in this turn.
    ended: Vec<Ended>,
    /// How far out of order lanes over datagrams keep bytes.
    window: Bytes,
    /// A source that breaks its lane again and again must not fill the log.
    log: RefusalLog,
    stage: Stage,
    /// Events that the sink has, and how many of them are of an earlier life of ours: what becomes of those is nobody's affair.
    at_sink: usize,
    stale: usize,
    /// What the sink has acknowledged in all our lives.
    written: u64,
    timer: Timer,
    busy_poll: BusyPoll,
    /// The run is ending: report when nothing is left, or then.
    finish: Option<Instant>,
    outcome: Option<RunOutcome>,
    participation: Participation,
    /// The final counters, once they are sent.
    report: Option<Report>,
    stop: mpsc::Receiver<String>,
    /// The end of the run was asked for.
    stopping: Option<String>,
}

impl Driver {
    fn new(
        config: &BuilderConfig,
        mut blueprint: Blueprint,
        listener: TcpListener,
        (registration, registered): (Registration, Registered),
        stage: Stage,
        stop: mpsc::Receiver<String>,
    ) -> Result<Self, RoleError> {
        let sources = blueprint.core.sources.clone();
        let ends = Ends::new(config.transport, &listener, &config.lane, &mut blueprint.shaping, &sources)?;
        let window = out_of_order_window(&blueprint.shaping, sources.len());
        let now = clock::now();
        let mut core = blueprint.build(now);
        core.handle_registered(registered.greeted, now);
        let life = (registration.identity(), registered.incarnation);
        Ok(Self {
            blueprint,
            core,
            registration,
            incarnation: registered.incarnation,
            entrance: Entrance::new(listener, config, life, sources),
            ends,
            ended: Vec::new(),
            window,
            log: RefusalLog::new("lane"),
            stage,
            at_sink: 0,
            stale: 0,
            written: 0,
            timer: Timer::new()?,
            busy_poll: BusyPoll::new(config.busy_poll, now),
            finish: None,
            outcome: None,
            participation: Participation::default(),
            report: None,
            stop,
            stopping: None,
        })
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunOutcome, RoleError>> {
        loop {
            let mut more = self.poll_control(cx)?;
            self.poll_entrance(cx);
            let unread = self.poll_lanes(cx)?;
            more |= unread;
            self.poll_fates(cx)?;
            self.serve_timers(unread)?;
            let now = clock::now();
            self.drain(now);
            // An instant sink is done with its events by now.
            while self.poll_fates(cx)? {
                self.drain(now);
            }
            self.flush_lanes(cx);
            self.report_when_done(now);
            self.registration.poll_flush(cx);
            if let Some(outcome) = self.outcome.take() {
                return Poll::Ready(Ok(outcome));
            }
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
            let (core, written, at_sink) = (&self.core, self.written, self.at_sink);
            let held = || held(core, written, at_sink);
            let Poll::Ready(heard) = self.registration.poll(cx, held) else { return Ok(false) };
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

    /// We registered again.
    fn go_on(&mut self, registered: &Registered) {
        if registered.incarnation != self.incarnation {
            self.begin_anew(registered.incarnation);
        }
        self.core.handle_registered(registered.greeted, clock::now());
        if let Some(cause) = &self.stopping {
            self.registration.send(&role::stop_message(cause.clone()));
        }
    }

    /// The supervisor ended this life, and gave its events to others: nothing of it counts any more. The sink stays.
    fn begin_anew(&mut self, incarnation: Incarnation) {
        let dropped = self.core.slots_used() + self.core.unaccounted();
        tracing::warn!(dropped, %incarnation, "too late: this builder's events were assigned anew; beginning empty");
        for lane in 0..self.blueprint.core.sources.len() {
            self.ends.close(lane);
        }
        self.incarnation = incarnation;
        self.entrance.begin(incarnation);
        self.core = self.blueprint.build(clock::now());
        self.stale = self.at_sink;
        self.core.open_sink(self.stale == 0);
        (self.finish, self.report) = (None, None);
        self.participation = Participation::default();
    }

    fn handle_control(&mut self, message: Control) -> Result<(), RoleError> {
        let now = clock::now();
        let fault = |error: evb_core::builder::RosterError| RoleError::Roster(error.to_string());
        match message.message {
            Some(control::Message::Assignments(assignments)) => {
                self.core.handle_assignments(&assignments, now).map_err(fault)?;
                if !assignments.events.is_empty() {
                    self.participation.go_on(now);
                }
            }
            Some(control::Message::Accounted(accounted)) => {
                self.core.handle_accounted(&accounted).map_err(fault)?;
            }
            Some(control::Message::Roster(roster)) => self.handle_roster(&roster)?,
            Some(control::Message::Heartbeat(heartbeat)) => self.core.handle_heartbeat(&heartbeat, now),
            Some(control::Message::Stop(_)) => self.stage.expect_end(),
            Some(control::Message::Finish(_)) => {
                self.finish = Some(now + LAST_WRITES);
                self.participation.end(now);
            }
            Some(control::Message::RunEnd(end)) => {
                let (identity, report) = (self.registration.identity(), self.report.take());
                self.outcome = Some(role::outcome(identity, &end, report, self.participation));
            }
            // The rest is not for builders.
            _ => {}
        }
        Ok(())
    }

    fn handle_roster(&mut self, roster: &Roster) -> Result<(), RoleError> {
        let sources = &self.core.config().sources;
        if !roster.sources.iter().copied().eq(sources.iter().map(|source| u32::from(source.number()))) {
            return Err(RoleError::Roster("the sources of the run have changed".to_owned()));
        }
        let index = |id: &u32| sources.binary_search_by_key(id, |source| source.number().into());
        let indices = |ids: &[u32]| {
            let found: Result<SourceSet, usize> = ids.iter().map(index).collect();
            found.map_err(|_| RoleError::Roster("a source is expected that is not in the run".to_owned()))
        };
        let (up, awaited) = (indices(&roster.up)?, indices(&roster.awaited)?);
        self.core.handle_roster(roster.version, up, awaited, clock::now());
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
                Knock::Asks(lane, incarnation, channel, peer) => {
                    if !self.core.meet(lane, incarnation, clock::now()) {
                        let source = self.core.config().sources[lane];
                        let detail = format!("source {source} is another process by now");
                        self.entrance.refuse(channel, peer, Refusal::because(Reason::DuplicateId, detail));
                        continue;
                    }
                    // A source has one connection: if it makes another, the one that we know is dead.
                    if self.ends.is_open(lane) {
                        self.drop_lane(lane, &"its source connected anew");
                    }
                    self.welcome(lane, channel);
                }
                Knock::Opened(lane, channel) => self.ends.open(lane, channel, &mut self.core),
                Knock::Failed(lane) => self.core.handle_lane_disconnected(lane, clock::now()),
            }
        }
    }

    /// Says to a source what we hold of its lane, and begins an association if it goes by datagrams.
    fn welcome(&mut self, lane: usize, channel: Channel) {
        let now = clock::now();
        let held = self.core.handle_lane_connected(lane, now);
        let mut connection = 0;
        if matches!(self.ends, Ends::Datagrams(_)) {
            connection = draw_connection();
            let association = Association {
                epoch: self.registration.identity().epoch,
                source: self.core.config().sources[lane],
                builder: self.core.config().id,
                connection,
            };
            self.core.associate(lane, association, round_trip(channel.as_ref()), self.window, now);
        }
        self.entrance.welcome(lane, channel, held, connection);
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
            while let Some(lane) = self.core.withholding_lane(now) {
                self.drop_lane(lane, &LaneEnd::Stalled);
            }
        }
        Ok(())
    }

    fn drop_ended(&mut self) {
        while let Some((lane, end)) = self.ended.pop() {
            if matches!(end, LaneEnd::Forged(_)) {
                self.entrance.count_forged();
            }
            if self.ends.is_open(lane) {
                self.drop_lane(lane, &end);
            }
        }
    }

    /// Takes back what the sink is done with; whether that was anything.
    fn poll_fates(&mut self, cx: &mut Context<'_>) -> Result<bool, RoleError> {
        let now = clock::now();
        let mut any = false;
        while let Poll::Ready(fate) = self.stage.poll_fate(cx) {
            self.at_sink = self.at_sink.saturating_sub(1);
            self.written += u64::from(matches!(fate, Some((_, Fate::Written))));
            if self.stale > 0 && fate.is_some() {
                self.stale -= 1;
                self.core.open_sink(self.stale == 0);
                any = true;
                continue;
            }
            match fate {
                Some((event, Fate::Written)) => self.core.handle_written(event, now),
                Some((event, Fate::Rejected)) => self.core.handle_rejected(event, now),
                Some((event, Fate::Failed(cause))) => self.core.handle_failed(event, &cause, now),
                // What it had goes to another builder, as after a death; nothing more may come here and be lost.
                None => return Err(RoleError::SinkGone),
            }
            any = true;
        }
        Ok(any)
    }

    /// Does what the machine wants done.
    fn drain(&mut self, now: Instant) {
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Event(event) => {
                    self.at_sink += 1;
                    // Nobody takes it: `poll_fates` is about to end this role.
                    let _ = self.stage.submit(event);
                }
                Output::Lane(lane) => self.ends.write(lane, &mut self.core, now),
                Output::Supervisor(mut message) => {
                    let disk = || self.stage.space().map(|space| (space.free.count(), space.size.count()));
                    complete_live(&mut message, || HostFacts { disk: disk(), ..role::facts::of_process() });
                    self.registration.send(&message);
                }
            }
        }
    }

    fn flush_lanes(&mut self, cx: &mut Context<'_>) {
        self.ends.poll_flush(cx, &mut self.core, &mut self.ended);
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

    fn report_when_done(&mut self, now: Instant) {
        let Some(limit) = self.finish else { return };
        if self.registration.is_up() && (self.core.is_idle() || limit <= now) {
            self.finish = None;
            let mut report = self.core.report_with(self.ends.report());
            add_refusals(&mut report, self.entrance.refusals());
            self.report = role::report_of(&report);
            self.registration.send(&report);
        }
    }

    /// Arms the timer; ready when it has expired already.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let finish = self.finish.filter(|_| self.registration.is_up());
        let next = earlier(self.core.next_timeout(), self.registration.next_timeout());
        self.timer.arm_by(earlier(next, finish));
        if self.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        let core = &self.core;
        let granted = || (0..core.config().sources.len()).map(|lane| core.granted(lane)).sum();
        self.busy_poll.stay_awake(cx, granted, now);
        Poll::Pending
    }

    /// Waits until the sink has closed.
    async fn close(self) {
        self.stage.close().await;
    }
}

/// Adds to a builder's counters who was turned away at its port.
fn add_refusals(report: &mut Control, refusals: RefusalReport) {
    if let Some(control::Message::Report(Report { report: Some(report::Report::Builder(builder)), .. })) =
        &mut report.message
    {
        builder.refusals = Some(refusals);
    }
}

/// Events that no sink has, which nobody builds any more once this builder ends.
fn open_here(core: &ShapedBuilder, at_sink: usize) -> usize {
    core.slots_used().saturating_sub(at_sink)
}

/// What there is, and what is lost, when nobody leads the run any more.
fn held(core: &ShapedBuilder, written: u64, at_sink: usize) -> String {
    let (open, done) = (open_here(core, at_sink), core.unaccounted());
    format!(
        "the sink holds {written} events of this run, {at_sink} more are on their way into it, {open} were open here and are \
         lost; {done} that are done with are in no ledger"
    )
}

/// How long timers wait for what can be read.
const READING: Duration = Duration::from_millis(50);

/// How long the end of the run waits for a sink that is still writing.
const LAST_WRITES: Duration = Duration::from_secs(2);
