//! The task that drives a source's machine: bytes, time and readout.

use std::{
    future::poll_fn,
    ops::Range,
    sync::Arc,
    task::{Context, Poll},
};

use evb_core::{
    live::HostFacts,
    session::{Dial, ReportFacts, RoleFault, Target},
    time::{Instant, earlier},
    units::Bytes,
};
use evb_net::{clock, pacing::Transport, timer::Timer};
use evb_shaper::role::{SourceOutput, SourceRole, SourceRoleConfig};
use tokio::sync::mpsc;

use super::{
    Readout, SourceConfig,
    dialing::Dialing,
    input::{Outlet, Pushed},
    lanes::{self, Lane},
    pacing::SocketRates,
};
use crate::role::{self, Beginning, BusyPoll, Entry, RoleError, RunOutcome, SupervisorLink};

/// How much readout makes in one turn, bytes: heartbeats and grants must not wait for more.
const TURN: usize = 4 << 20;

/// What making a fragment costs beside its bytes, in the time that so many bytes take.
const FRAGMENT_COST: usize = 1 << 10;

/// How many fragments are taken from the channel at once.
const BATCH: usize = 256;

/// Runs a source from its first roster to the end of the run.
pub(super) async fn run(
    config: SourceConfig,
    entry: Entry,
    outlet: Outlet,
    readout: Option<Box<dyn Readout>>,
    stop: mpsc::Receiver<String>,
) -> Result<RunOutcome, RoleError> {
    let (start, link) = match entry.begin().await? {
        Beginning::Start(start, link) => (start, link),
        Beginning::Over(outcome) => return Ok(*outcome),
    };
    let of_role = SourceRoleConfig {
        id: config.id,
        max_fragment: config.max_fragment,
        on_demand: readout.is_some(),
        datagrams: config.transport == Transport::Udp,
        queue: config.queue,
        paces: config.pacing.paces(config.shaping.pace(), config.cost()),
    };
    let now = clock::now();
    let mut driver = Driver {
        role: SourceRole::new(of_role, &start, now)?,
        link,
        lanes: Vec::new(),
        rates: SocketRates::new(&config),
        dialing: Dialing::new(&config),
        timer: Arc::clone(&config.pacing.executor).timer()?,
        busy_poll: BusyPoll::new(config.busy_poll, now),
        outlet,
        pushed: Vec::with_capacity(BATCH),
        readout,
        ranges: Vec::new(),
        stop,
        ended: None,
    };
    let _awake = role::keep_awake(config.keep_awake, config.queue);
    let ended = poll_fn(|cx| driver.poll_turn(cx)).await;
    ended.map_err(|fault| driver.link.error(fault))
}

struct Driver {
    role: SourceRole,
    link: SupervisorLink,
    /// By the machine's index.
    lanes: Vec<Lane>,
    rates: SocketRates,
    dialing: Dialing,
    timer: Timer,
    busy_poll: BusyPoll,
    outlet: Outlet,
    pushed: Vec<Pushed>,
    readout: Option<Box<dyn Readout>>,
    ranges: Vec<Range<u64>>,
    stop: mpsc::Receiver<String>,
    ended: Option<Result<RunOutcome, RoleFault>>,
}

impl Driver {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunOutcome, RoleFault>> {
        loop {
            let now = clock::now();
            let mut more = self.poll_control(cx, now);
            more |= self.poll_lanes(cx, now);
            more |= self.poll_pushed(cx, now);
            self.role.handle_timeout(now);
            more |= self.drain(cx, now);
            if self.make_wanted(now) {
                more |= self.drain(cx, now);
            }
            more |= self.role.has_wanted();
            self.lanes.iter_mut().for_each(|lane| lane.poll_flush(cx, &mut self.role, now));
            let sent = self.link.poll_flush(cx);
            if sent > 0 {
                self.role.handle_control_sent(Bytes::new(sent as u64), now);
            }
            if let Some(ended) = self.ended.take() {
                return Poll::Ready(ended);
            }
            let core = self.role.core();
            self.outlet.update(core.undecided(), core.backlog(), core.backlog_fragments());
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

    /// Takes in what builders say; whether there may be more.
    fn poll_lanes(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut more = false;
        for lane in &mut self.lanes {
            more |= lane.poll_input(cx, &mut self.role, now, &mut self.ranges);
        }
        more
    }

    /// Takes in what readout pushes; whether there may be more.
    fn poll_pushed(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut count = 0;
        if let Poll::Ready(received) = self.outlet.fragments.poll_recv_many(cx, &mut self.pushed, BATCH) {
            count = received;
        }
        for pushed in self.pushed.drain(..) {
            let fragment = self.outlet.take(pushed);
            // Checked at the door; what is left is a readout that runs far ahead of the run. The machine counts it.
            if let Err(error) = self.role.push(fragment, now) {
                tracing::error!(%error, "a fragment is refused");
            }
        }
        count == BATCH
    }

    /// Does what the machine wants done; whether that may bring something at once.
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
                    let host = HostFacts { tcp_retransmits, ..role::facts::of_process() };
                    let facts = ReportFacts { host, trains: Some(trains), ..ReportFacts::default() };
                    self.role.complete(&mut message, facts);
                    self.link.send(&message);
                }
                SourceOutput::Ended(ended) => self.ended = Some(*ended),
            }
        }
        while let Some(departure) = self.role.poll_departure(now) {
            let lane = &mut self.lanes[departure.lane];
            lane.send(departure);
            // At once: what was just made is still in the cache.
            lane.poll_flush(cx, &mut self.role, now);
        }
        more
    }

    fn dial(&mut self, dial: Dial) {
        let Target::Lane(index) = dial.target else { return self.link.dial(dial) };
        while self.lanes.len() <= index {
            let lane = self.lanes.len();
            self.lanes.push(Lane::new(lane, self.rates.of(self.role.builder_of(lane))));
        }
        self.lanes[index].dial(dial, &self.dialing);
    }

    /// Has readout make fragments that are wanted, a turn's worth; whether it made any.
    fn make_wanted(&mut self, now: Instant) -> bool {
        let Some(readout) = &mut self.readout else { return false };
        let mut made = 0;
        while made < TURN
            && let Some(event) = self.role.take_wanted()
        {
            let Some(fragment) = readout.fragment(event) else { continue };
            made += fragment.payload.len() + FRAGMENT_COST;
            if let Err(error) = self.role.push(fragment, now) {
                tracing::error!(%error, "readout made a fragment that is refused");
            }
        }
        made > 0
    }

    /// Arms the timer; ready when it has expired already.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let lanes = self.lanes.iter().filter_map(Lane::next_timeout).min();
        self.timer.arm_by(earlier(self.role.next_timeout(), lanes));
        if self.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        let core = self.role.core();
        let granted = || (0..core.lane_count()).map(|lane| core.granted(lane)).sum();
        self.busy_poll.stay_awake(cx, granted, now);
        Poll::Pending
    }
}
