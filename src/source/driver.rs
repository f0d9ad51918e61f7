//! The task that drives a source's state machine: it supplies bytes, time and fragments.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
};

use evb_core::{
    index::LaneIndex,
    live::HostFacts,
    session::{Dial, ReportFacts, RoleFault, Target},
    time::{Instant, earlier},
    units::Bytes,
};
use evb_net::{clock, lane::ReadBuffers, timer::Timer};
use evb_shaper::role::{SourceOutput, SourceRole};
use tokio::sync::mpsc;

use super::{
    SourceConfig,
    dialing::Dialing,
    feed::Feed,
    lanes::{self, Lane},
    pacing::SocketRates,
};
use crate::role::{self, BusyPoll, RoleError, RunOutcome, SupervisorLink};

/// A source's state machine and its connections, fragments and timer.
pub(super) struct Driver {
    role: SourceRole,
    link: SupervisorLink,
    /// Lanes to the builders, by the lane index of the state machine.
    lanes: Vec<Lane>,
    rates: SocketRates,
    dialing: Dialing,
    timer: Timer,
    busy_poll: BusyPoll,
    feed: Feed,
    buffers: ReadBuffers,
    stop: mpsc::Receiver<String>,
    ended: Option<Result<RunOutcome, RoleFault>>,
}

impl Driver {
    /// Creates the driver of a role that has joined a run.
    pub(super) fn new(
        config: &SourceConfig,
        role: SourceRole,
        link: SupervisorLink,
        feed: Feed,
        stop: mpsc::Receiver<String>,
        now: Instant,
    ) -> io::Result<Self> {
        Ok(Self {
            role,
            link,
            lanes: Vec::new(),
            rates: SocketRates::new(
                config.pacing.clone(),
                config.shaping.pace(),
                config.transport,
                config.cost(),
            ),
            dialing: Dialing::new(config),
            timer: Arc::clone(&config.pacing.executor).timer()?,
            busy_poll: BusyPoll::new(config.busy_poll, now),
            feed,
            buffers: ReadBuffers::default(),
            stop,
            ended: None,
        })
    }

    /// Processes all input that is available now; returns ready when the source's part in the run
    /// is over.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunOutcome, RoleError>> {
        loop {
            let now = clock::now();
            let mut more = self.poll_control(cx, now);
            more |= self.poll_lanes(cx, now);
            more |= self.feed.poll(cx, &mut self.role, now);
            self.role.handle_timeout(now);
            more |= self.drain(cx, now);
            if self.feed.make_wanted(&mut self.role, now) {
                more |= self.drain(cx, now);
            }
            more |= self.role.has_wanted();
            self.lanes.iter_mut().for_each(|lane| lane.poll_flush(cx, &mut self.role, now));
            let sent = self.link.poll_flush(cx);
            if sent > 0 {
                self.role.handle_control_sent(Bytes::new(sent as u64), now);
            }
            if let Some(ended) = self.ended.take() {
                return Poll::Ready(ended.map_err(|fault| self.link.error(fault)));
            }
            self.feed.update(&mut self.role);
            if !more && self.sleep(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Processes the supervisor's messages and the requests to end the run. Returns true if more
    /// messages may be waiting.
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

    /// Processes the records that builders send. Returns true if more records may be waiting.
    fn poll_lanes(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut more = false;
        for lane in &mut self.lanes {
            more |= lane.poll_input(cx, &mut self.role, now, &mut self.buffers);
        }
        more
    }

    /// Carries out the outputs of the state machine. Returns true if the outputs may have caused
    /// new input.
    fn drain(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut more = false;
        while let Some(output) = self.role.poll(now) {
            match output {
                SourceOutput::Dial(dial) => {
                    self.dial(dial);
                    more = true;
                }
                SourceOutput::Close(Target::Supervisor) => self.link.close(),
                SourceOutput::Close(Target::Lane(lane)) => self.lanes[lane].close(),
                SourceOutput::Announce(lane) => self.lanes[lane].announce(cx, &mut self.role, now),
                SourceOutput::Send(message) => self.link.send(&message),
                SourceOutput::Report(mut message) => {
                    let (tcp_retransmits, trains) = lanes::sent(&mut self.lanes);
                    let all = tcp_retransmits.iter().sum();
                    let host = HostFacts { tcp_retransmits: all, ..role::facts::of_process() };
                    let trains = Some(trains);
                    let front_ends = self.feed.front_ends();
                    let facts =
                        ReportFacts { host, tcp_retransmits, trains, front_ends, ..ReportFacts::default() };
                    self.role.complete(&mut message, facts);
                    self.link.send(&message);
                }
                SourceOutput::Begin => {
                    self.feed.begin(&self.role);
                    more = true;
                }
                SourceOutput::Ended(ended) => self.ended = Some(*ended),
            }
        }
        while let Some(departure) = self.role.poll_departure(now) {
            let lane = &mut self.lanes[departure.lane];
            lane.send(departure);
            // Flushing at once finds the fragments still in the cache.
            lane.poll_flush(cx, &mut self.role, now);
        }
        more
    }

    /// Connects to the supervisor, or connects a lane, for which there may be no entry yet.
    fn dial(&mut self, dial: Dial) {
        let Target::Lane(index) = dial.target else { return self.link.dial(dial) };
        while self.lanes.len() <= index.get() {
            let lane = self.lanes.len();
            self.lanes.push(Lane::new(
                LaneIndex::new(lane),
                self.rates.of(self.role.builder_of(LaneIndex::new(lane))),
            ));
        }
        self.lanes[index].dial(dial, &self.dialing);
    }

    /// Arms the timer for the next timeout; returns ready if the timer has expired already.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let lanes = self.lanes.iter().filter_map(Lane::next_timeout).min();
        self.timer.arm_by(earlier(self.role.next_timeout(), lanes));
        if self.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        let core = self.role.core();
        let granted = || LaneIndex::all(core.lane_count()).map(|lane| core.granted(lane)).sum();
        self.busy_poll.stay_awake(cx, granted, now);
        Poll::Pending
    }
}
