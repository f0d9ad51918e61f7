//! The task that drives a builder's machine: bytes, time and the sink's results.

use std::{
    future::poll_fn,
    io,
    task::{Context, Poll},
};

use evb_core::{
    live::HostFacts,
    session::{ReportFacts, RoleFault, Target},
    time::Instant,
};
use evb_net::{
    clock,
    handshake::Channel,
    host,
    lane::{
        LaneEnd,
        datagrams::{draw_connection, round_trip},
    },
    pacing::Transport,
    timer::Timer,
};
use evb_shaper::role::{Admitted, BuilderOutput, BuilderPlan, BuilderRole, BuilderRoleConfig, Greeting};
use tokio::{net::TcpListener, sync::mpsc};

use super::{
    BuilderConfig,
    accept::{Entrance, Knock},
    ends::{Ended, Ends},
};
use crate::{
    filter::Filter,
    role::{self, Beginning, BusyPoll, Entry, RoleError, RunOutcome, SupervisorLink},
    sink::{
        RunFacts, Sink,
        stage::{self, Fate, Stage, StageOptions},
    },
};

/// Runs a builder from its first roster to the end of the run.
pub(super) async fn run<S: Sink>(
    config: BuilderConfig,
    listener: TcpListener,
    entry: Entry,
    filter: Box<dyn Filter>,
    sink: S,
    stop: mpsc::Receiver<String>,
) -> Result<RunOutcome, RoleError> {
    let (start, link) = match entry.begin().await? {
        Beginning::Start(start, link) => (start, link),
        Beginning::Over(outcome) => return Ok(*outcome),
    };
    let mut plan = BuilderPlan::new(of_role(&config, &listener)?, &start)?;
    let sources = plan.sources().to_vec();
    let (run, epoch) = (start.identity.run, start.identity.epoch);
    let facts = RunFacts { run, epoch, builder: config.id, sources: sources.clone() };
    let options = StageOptions { slots: plan.slots(), give_up: config.give_up };
    let (stage, begun) = stage::start(facts, sink, filter, options)?;
    match begun.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(RoleError::Sink(error.to_string())),
        Err(_) => return Err(RoleError::Vanished),
    }
    let ends = Ends::new(config.transport, &listener, &config.lane, plan.shaping_mut(), &sources)?;
    let now = clock::now();
    let mut driver = Driver {
        role: BuilderRole::new(plan, &start, now)?,
        link,
        entrance: Entrance::new(listener, &config),
        is_datagrams: config.transport == Transport::Udp,
        ends,
        ended: Vec::new(),
        stage,
        timer: Timer::new()?,
        busy_poll: BusyPoll::new(config.busy_poll, now),
        stop,
        outcome: None,
    };
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
    driver.stage.close().await;
    outcome
}

/// What the machine is made from.
fn of_role(config: &BuilderConfig, listener: &TcpListener) -> io::Result<BuilderRoleConfig> {
    let datagrams = config.transport == Transport::Udp;
    // IPv6 takes 20 bytes more of each packet (RFC 8200 §3): so much less is of the lane.
    let is_longer = datagrams && listener.local_addr()?.is_ipv6();
    let mtu = config.mtu.saturating_sub(if is_longer { 20 } else { 0 });
    Ok(BuilderRoleConfig {
        id: config.id,
        shaping: config.shaping.clone(),
        cost: role::packet_cost(config.transport, mtu, config.cell, config.security.is_protected()),
        rotation: config.rotation,
        queue: config.queue,
        memory: config.memory,
        datagrams,
    })
}

struct Driver {
    role: BuilderRole,
    link: SupervisorLink,
    entrance: Entrance,
    is_datagrams: bool,
    ends: Ends,
    /// Lanes that have ended in this turn.
    ended: Vec<Ended>,
    stage: Stage,
    timer: Timer,
    busy_poll: BusyPoll,
    stop: mpsc::Receiver<String>,
    outcome: Option<Result<RunOutcome, RoleFault>>,
}

impl Driver {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunOutcome, RoleError>> {
        loop {
            let now = clock::now();
            let mut more = self.poll_control(cx, now);
            self.poll_entrance(cx, now);
            let mut unread = self.ends.poll_read(cx, self.role.records(), now, &mut self.ended)?;
            more |= unread;
            self.drop_ended(now);
            self.poll_fates(cx, now);
            if !unread && self.role.wants_reading(now) {
                unread = self.ends.read(self.role.records(), now, &mut self.ended)?;
                self.drop_ended(now);
            }
            self.role.handle_timeout(unread, now);
            more |= self.drain(now);
            // An instant sink is done with its events by now.
            while self.poll_fates(cx, now) {
                more |= self.drain(now);
            }
            self.ends.poll_flush(cx, self.role.records(), &mut self.ended);
            // What they held is for the others.
            more |= self.drop_ended(now);
            self.link.poll_flush(cx);
            if let Some(outcome) = self.outcome.take() {
                return Poll::Ready(outcome.map_err(|fault| self.link.error(fault)));
            }
            if !more && self.sleep(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes in what the supervisor says, and what is asked of it; whether there may be more.
    fn poll_control(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if let Poll::Ready(Some(cause)) = self.stop.poll_recv(cx) {
            self.role.request_run_end(cause);
        }
        for _ in 0..role::MESSAGES {
            let Poll::Ready(heard) = self.link.poll(cx) else { return false };
            self.role.handle_supervisor(heard, now);
        }
        true
    }

    fn poll_entrance(&mut self, cx: &mut Context<'_>, now: Instant) {
        while let Poll::Ready(knock) = self.entrance.poll(cx, now) {
            match knock {
                Knock::Asks(hello, channel, peer) => {
                    match self.role.handle_hello(&hello, self.greeting(&channel), now) {
                        Ok(Admitted { lane, welcome }) => {
                            self.ends.close(lane);
                            self.entrance.welcome(lane, channel, welcome);
                        }
                        Err(refusal) => self.entrance.refuse(channel, peer, refusal),
                    }
                }
                Knock::Opened(lane, channel) => {
                    self.ends.open(lane, channel);
                    self.role.handle_lane_up(lane);
                }
                Knock::Failed(lane) => self.role.handle_lane_down(lane, &"its source went away", now),
            }
        }
    }

    fn greeting(&self, channel: &Channel) -> Greeting {
        if !self.is_datagrams {
            return Greeting::default();
        }
        Greeting { connection: draw_connection(), round_trip: round_trip(channel.as_ref()) }
    }

    /// Drops lanes that have ended; whether there were any.
    fn drop_ended(&mut self, now: Instant) -> bool {
        let any = !self.ended.is_empty();
        while let Some((lane, end)) = self.ended.pop() {
            if matches!(end, LaneEnd::Forged(_)) {
                self.entrance.count_forged();
            }
            if self.ends.is_open(lane) {
                self.ends.close(lane);
                self.role.handle_lane_down(lane, &end, now);
            }
        }
        any
    }

    /// Takes back what the sink is done with; whether that was anything.
    fn poll_fates(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut any = false;
        while let Poll::Ready(fate) = self.stage.poll_fate(cx) {
            match fate {
                Some((event, Fate::Written)) => self.role.handle_written(event, now),
                Some((event, Fate::Rejected)) => self.role.handle_rejected(event, now),
                Some((event, Fate::Failed(cause))) => self.role.handle_failed(event, &cause, now),
                None => {
                    self.role.handle_sink_gone();
                    break;
                }
            }
            any = true;
        }
        any
    }

    /// Does what the machine wants done; whether that may bring something at once.
    fn drain(&mut self, now: Instant) -> bool {
        let mut more = false;
        while let Some(output) = self.role.poll(now) {
            match output {
                BuilderOutput::Dial(dial) => {
                    self.link.dial(dial);
                    more = true;
                }
                BuilderOutput::Close(Target::Supervisor) => self.link.close(),
                BuilderOutput::Close(Target::Lane(lane)) => {
                    self.ends.close(lane);
                    self.entrance.forget(lane);
                }
                BuilderOutput::Send(message) => self.link.send(&message),
                BuilderOutput::Report(mut message) => {
                    let facts = self.facts();
                    self.role.complete(&mut message, facts);
                    self.link.send(&message);
                }
                BuilderOutput::Event(event) => {
                    // Nobody takes it: `poll_fates` is about to end this role.
                    let _ = self.stage.submit(event);
                }
                BuilderOutput::Lane(lane) => self.ends.write(lane, self.role.records(), now),
                BuilderOutput::ExpectEnd => self.stage.expect_end(),
                BuilderOutput::Ended(outcome) => self.outcome = Some(*outcome),
            }
        }
        more
    }

    fn facts(&mut self) -> ReportFacts {
        let disk = self.stage.space().map(|space| (space.free.count(), space.size.count()));
        ReportFacts {
            host: HostFacts { disk, ..role::facts::of_process() },
            datagrams: self.ends.report(),
            refusals: Some(self.entrance.refusals()),
            ..ReportFacts::default()
        }
    }

    /// Arms the timer; ready when it has expired already.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        self.timer.arm_by(self.role.next_timeout());
        if self.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        let core = self.role.core();
        let granted = || (0..core.config().sources.len()).map(|lane| core.granted(lane)).sum();
        self.busy_poll.stay_awake(cx, granted, now);
        Poll::Pending
    }
}
