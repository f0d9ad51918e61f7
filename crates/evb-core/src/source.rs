//! [`SourceCore`]: fragments from readout to the lanes of the builders that want them.
//!
//! ```text
//!   readout: push ───────────────────────►┌────────────┐──► Output::Announce    records for a builder's lane
//!   supervisor: decisions ───────────────►│ SourceCore │──► Output::Wanted      an event that readout is to make
//!   lanes: grants, commits ──────────────►└────────────┘──► Output::Supervisor  heartbeats
//!                                          permitted bytes: `take` from a lane, paced by evb-shaper
//! ```

mod stages;
mod push_error;
mod backlog;
mod parking;
mod seats;
mod datagrams;
mod holdings;
mod ending;

#[cfg(test)]
mod tests;

use core::{ops::Range, time::Duration};
use std::{collections::VecDeque, io::IoSlice};

use bytes::BytesMut;

pub use ending::LAST_COMMITS;
pub use push_error::{MAX_AHEAD, PushError};

use backlog::{Backlog, Placed};
use parking::Parking;
use seats::Seats;

use crate::{
    fragment::Fragment,
    id::{BuilderId, EventId, SourceId},
    lane::{Announcing, LaneError, OutgoingDatagrams, OutgoingLane, StageTimes, Taken},
    live::ReportTimer,
    set::LaneSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{
        Control, Decisions, Heartbeat, Live, MalformedMessage, Report, SourceReport, TrainReport, Verdict,
        control, report,
    },
};

/// What a source has to know before the first event.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Which source.
    pub id: SourceId,
    /// The largest payload that it may push.
    pub max_fragment: Bytes,
    /// How long a fragment waits for a decision before it counts as unexpected.
    pub orphan_timeout: Duration,
    /// How often the supervisor hears of us at least.
    pub heartbeat: Duration,
    /// All builders of the first roster, ascending; a builder's position is its lane's index, for the whole run.
    pub builders: Vec<BuilderId>,
    /// Whether readout makes fragments when they are wanted ([`Output::Wanted`]) instead of pushing them by itself.
    pub on_demand: bool,
    /// All events up to this one were decided before this source came: nobody waits for it there.
    pub decided: EventId,
}

/// What a source wants done.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is rare, never kept, and boxed would cost an allocation each"
)]
pub enum Output {
    /// The lane of that builder index has announcements: call [`SourceCore::announce`], or over datagrams
    /// [`SourceCore::write_datagram`].
    Announce(usize),
    /// An event is assigned and its fragment is not here: make it and push it. Only with `on_demand`.
    Wanted(EventId),
    /// To the supervisor.
    Supervisor(Control),
}

/// The source's machine.
///
/// Law: after inputs that share one `now`, call `poll` until `None`, and `take` what the shaper lets go.
#[derive(Debug)]
pub struct SourceCore {
    config: SourceConfig,
    backlog: Backlog,
    parking: Parking,
    seats: Seats,
    lanes: Vec<OutgoingLane>,
    /// Of lanes whose records go by datagrams.
    datagrams: Vec<Option<OutgoingDatagrams>>,
    ranges: Vec<Range<u64>>,
    /// Which lanes have a connection.
    connected: LaneSet,
    wanted: VecDeque<EventId>,
    announce: LaneSet,
    /// Of lanes whose records go by a stream.
    announcing: Vec<Announcing>,
    /// Of announcements.
    longest_wait: Duration,
    /// What full ports delay them by.
    queue: Duration,
    /// Whether there is a connection to the supervisor.
    is_supervised: bool,
    next_heartbeat: Instant,
    reports: ReportTimer,
    last_heard: Option<(u64, Instant)>,
    /// The run is ending: when to report at the latest.
    finish: Option<Instant>,
    counters: SourceReport,
    stages: StageTimes,
}

impl SourceCore {
    /// A source with nothing in hand.
    pub fn new(mut config: SourceConfig, now: Instant) -> Self {
        // An announcement says a payload's length in 32 bits (docs/protocol.md LANE-4).
        config.max_fragment = config.max_fragment.min(Bytes::new(u32::MAX.into()));
        Self {
            backlog: Backlog::new(config.decided, config.orphan_timeout, config.on_demand),
            parking: Parking::default(),
            seats: Seats::new(&config.builders),
            lanes: config.builders.iter().map(|_| OutgoingLane::default()).collect(),
            datagrams: config.builders.iter().map(|_| None).collect(),
            ranges: Vec::new(),
            connected: LaneSet::default(),
            wanted: VecDeque::new(),
            announce: LaneSet::default(),
            announcing: vec![
                Announcing::new(config.id, Duration::MAX, Duration::ZERO);
                config.builders.len()
            ],
            longest_wait: Duration::MAX,
            queue: Duration::ZERO,
            is_supervised: true,
            next_heartbeat: now,
            reports: ReportTimer::NEVER,
            last_heard: None,
            finish: None,
            counters: SourceReport::default(),
            stages: StageTimes::default(),
            config,
        }
    }

    /// Builders give up what is not announced a `deadline` after its assignment: a small part of that is what announcements may wait.
    /// Full ports on the way to them take `queue` to drain: announcements keep a distance by it, and over datagrams none is
    /// repeated before.
    #[must_use]
    pub fn with_times(mut self, deadline: Duration, queue: Duration) -> Self {
        (self.longest_wait, self.queue) = (deadline / 16, queue);
        self.announcing = vec![self.announcing(); self.config.builders.len()];
        self
    }

    /// The same with reports so far, that often; zero: none.
    #[must_use]
    pub fn with_reports(mut self, period: Duration, now: Instant) -> Self {
        self.reports = ReportTimer::new(period, self.config.id.number(), now);
        self
    }

    /// Of a lane that begins.
    fn announcing(&self) -> Announcing {
        Announcing::new(self.config.id, self.longest_wait, self.queue)
    }

    /// Takes a fragment from readout. Fragments that nobody wants are dropped and counted by cause, as is one that is refused.
    pub fn push(&mut self, fragment: Fragment, now: Instant) -> Result<(), PushError> {
        let taken = self.take_in(fragment, now);
        self.counters.refused += u64::from(taken.is_err());
        taken
    }

    fn take_in(&mut self, fragment: Fragment, now: Instant) -> Result<(), PushError> {
        let (event, size) = (fragment.event, fragment.size());
        if event.number() == 0 {
            return Err(PushError::EventZero);
        }
        if size > self.config.max_fragment {
            return Err(PushError::Oversize { event, size, limit: self.config.max_fragment });
        }
        let placed = match self.parking.take_home(event) {
            Some(Some(lane)) => Placed::Ready(lane, fragment),
            Some(None) => Placed::Parked(fragment),
            None => self.backlog.push(fragment, now)?,
        };
        self.counters.pushed += 1;
        self.counters.pushed_bytes += size.count();
        self.counters.backlog_peak_bytes = self.counters.backlog_peak_bytes.max(self.backlog.bytes().count());
        self.place(placed);
        Ok(())
    }

    /// The supervisor decided.
    pub fn handle_decisions(&mut self, decisions: &Decisions) -> Result<(), MalformedMessage> {
        self.check_wanted(0)?;
        for (first, count, verdict) in decisions.verdicts()? {
            let lane = match verdict {
                Verdict::Assigned(builder) => Some(self.lane_of(builder)?),
                Verdict::Inhibited | Verdict::Closed => None,
            };
            if lane.is_none() && self.backlog.pass(first, count.into()) {
                continue;
            }
            for step in 0..u64::from(count) {
                let event = EventId::new(first.number() + step);
                let placed = self.backlog.decide(event, verdict, lane);
                if matches!(placed, Placed::Waiting) && lane.is_some() && self.config.on_demand {
                    self.wanted.push_back(event);
                }
                self.place(placed);
            }
        }
        Ok(())
    }

    /// Whether so few events wait for readout that a run can have them outstanding; the driver adds those that it was told of.
    /// Requirements: docs/protocol.md RUN-6.
    pub fn check_wanted(&self, told: usize) -> Result<(), MalformedMessage> {
        let fault = MalformedMessage {
            message: "Decisions",
            problem: "more events are assigned than builders could have slots",
        };
        if (self.wanted.len() + told) as u64 > MAX_AHEAD { Err(fault) } else { Ok(()) }
    }

    /// The connection to the supervisor is gone: nothing is said to it until there is another.
    pub fn handle_supervisor_lost(&mut self) {
        self.is_supervised = false;
    }

    /// We registered, or registered again.
    pub fn handle_registered(&mut self, now: Instant) {
        self.is_supervised = true;
        self.next_heartbeat = now;
        self.backlog.wait_anew(now);
    }

    /// A heartbeat of the supervisor's.
    pub fn handle_heartbeat(&mut self, heartbeat: &Heartbeat, now: Instant) {
        self.last_heard = Some((heartbeat.sent_ns, now));
    }

    /// A builder accepted our connection and said what it holds.
    pub fn handle_lane_connected(
        &mut self,
        lane: usize,
        received: u64,
        announced: u64,
    ) -> Result<(), LaneError> {
        self.lanes[lane].handle_reconnect(received, announced)?;
        self.counters.reconnects += u64::from(received > 0);
        self.connected.insert(lane);
        self.announce.insert(lane);
        Ok(())
    }

    /// A builder's connection is gone.
    pub fn handle_lane_disconnected(&mut self, lane: usize) {
        self.connected.remove(lane);
        self.announcing[lane].reset();
        self.datagrams[lane] = None;
    }

    /// Whether a lane has a connection.
    pub fn is_lane_connected(&self, lane: usize) -> bool {
        self.connected.contains(lane)
    }

    /// Whether every builder of the roster can be reached.
    pub fn is_connected(&self) -> bool {
        (0..self.lanes.len()).all(|lane| self.connected.contains(lane) || !self.seats.is_listed(lane))
    }

    /// A builder grants.
    pub fn handle_grant(&mut self, lane: usize, end: u64) -> Result<(), LaneError> {
        self.lanes[lane].handle_grant(end)?;
        // The builder may have too little left to grant.
        if self.lanes[lane].has_announcements() {
            self.announce.insert(lane);
        }
        Ok(())
    }

    /// A builder's sink accepted: the memory is given back.
    pub fn handle_commit(
        &mut self,
        lane: usize,
        offset: u64,
        ranges: &[Range<u64>],
    ) -> Result<(), LaneError> {
        let lane = &mut self.lanes[lane];
        let before = lane.held_fragments();
        lane.handle_commit(offset, ranges)?;
        self.counters.committed += (before - lane.held_fragments()) as u64;
        Ok(())
    }

    /// Time passed: fragments that nobody decided about.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_supervised {
            self.counters.unexpected += self.backlog.expire(now);
        }
        self.expire_datagrams(now);
        for (lane, announcing) in self.announcing.iter().enumerate() {
            if announcing.next().is_some_and(|at| at <= now) {
                self.announce.insert(lane);
            }
        }
    }

    /// When `handle_timeout` or `poll` has something to do without further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        let spoken = earlier(Some(self.next_heartbeat), self.reports.next());
        let supervised = earlier(spoken, self.backlog.next_expiry());
        let announcing = self.announcing.iter().map(Announcing::next).fold(self.next_datagram(), earlier);
        earlier(supervised.filter(|_| self.is_supervised), announcing)
    }

    /// What is to be done next; permitted data is taken from the lanes beside it.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if let Some(event) = self.wanted.pop_front() {
            return Some(Output::Wanted(event));
        }
        while let Some(lane) = self.announce.iter().next() {
            self.announce.remove(lane);
            if self.connected.contains(lane) && self.is_announcement_due(lane, now) {
                return Some(Output::Announce(lane));
            }
        }
        if !self.is_supervised {
            return None;
        }
        if self.next_heartbeat > now {
            return self.reports.ring(now).then(|| Output::Supervisor(self.report_so_far()));
        }
        self.next_heartbeat = now + self.config.heartbeat;
        let (echo_ns, since) = self.last_heard.unwrap_or_default();
        let echo_delay_ns = if echo_ns == 0 { 0 } else { now.since(since).as_nanos() as u64 };
        let heartbeat = Heartbeat { sent_ns: now.as_nanos(), echo_ns, echo_delay_ns, load: None };
        Some(Output::Supervisor(Control { message: Some(control::Message::Heartbeat(heartbeat)) }))
    }

    /// Appends announcements to a lane's stream: of those that wait, as many as may go now.
    pub fn announce(&mut self, lane: usize, now: Instant, into: &mut BytesMut) {
        let (announcing, outgoing) = (&mut self.announcing[lane], &mut self.lanes[lane]);
        let mut left = announcing.batch(outgoing, now);
        while left > 0 {
            let count = outgoing.announce_at_most(left, into);
            self.counters.announced += count as u64;
            left = if count == 0 { 0 } else { left - count };
        }
        announcing.note(outgoing, now);
        // What is left waits.
        if outgoing.has_announcements() {
            self.announce.insert(lane);
        }
    }

    /// Bytes that a lane may send now; none while it is not connected.
    pub fn sendable(&self, lane: usize) -> u64 {
        if self.connected.contains(lane) { self.lanes[lane].sendable() } else { 0 }
    }

    /// As [`Self::sendable`], about so many and rather whole fragments: see [`OutgoingLane::sendable_whole`].
    pub fn sendable_whole(&self, lane: usize, about: u64) -> u64 {
        if self.connected.contains(lane) { self.lanes[lane].sendable_whole(about) } else { 0 }
    }

    /// Hands out at most `limit` permitted bytes of a lane.
    pub fn take(&mut self, lane: usize, limit: u64) -> Option<Taken> {
        if !self.connected.contains(lane) {
            return None;
        }
        let taken = self.lanes[lane].take(limit)?;
        self.counters.sent_bytes += taken.range.end - taken.range.start;
        Some(taken)
    }

    /// The memory behind a range that was handed out: see [`OutgoingLane::gather`].
    pub fn gather<'a>(&'a self, lane: usize, range: Range<u64>, slices: &mut Vec<IoSlice<'a>>) -> u64 {
        self.lanes[lane].gather(range, slices)
    }

    /// The same, piece by piece: see [`OutgoingLane::pieces`].
    pub fn pieces<'a>(
        &'a self,
        lane: usize,
        range: Range<u64>,
        room: usize,
        each: impl FnMut(&'a [u8]),
    ) -> u64 {
        self.lanes[lane].pieces(range, room, each)
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        self.lanes.iter().for_each(OutgoingLane::invariants);
    }

    /// How many lanes there are.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// Events whose fragments a lane keeps until they are committed.
    pub fn held_events(&self, lane: usize) -> impl Iterator<Item = EventId> {
        self.lanes[lane].held_events()
    }

    /// Payload bytes that wait for a decision: what `backlog` bounds.
    pub fn backlog(&self) -> Bytes {
        self.backlog.bytes()
    }

    /// How many fragments that is.
    pub fn backlog_fragments(&self) -> usize {
        self.backlog.held()
    }

    /// The first event that is not decided.
    pub fn undecided(&self) -> EventId {
        self.backlog.undecided()
    }

    /// The lane of a builder that is or was in a roster.
    pub fn lane_index(&self, builder: BuilderId) -> Option<usize> {
        self.seats.lane(builder)
    }

    /// The configuration that it runs by.
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// The final counters, for the supervisor.
    pub fn report(&self, tcp_retransmits: u64, trains: Option<TrainReport>) -> Control {
        let uncommitted = self.uncommitted() as u64 + self.backlog.held() as u64;
        let stages = self.stages.report();
        let counters = SourceReport { tcp_retransmits, uncommitted, trains, stages, ..self.counters.clone() };
        let report = Report { report: Some(report::Report::Source(counters)), live: None };
        Control { message: Some(control::Message::Report(report)) }
    }

    /// The counters so far, without histograms.
    fn report_so_far(&self) -> Control {
        let uncommitted = self.uncommitted() as u64 + self.backlog.held() as u64;
        let counters = SourceReport { uncommitted, ..self.counters.clone() };
        let live = Live {
            backlog_bytes: self.backlog.bytes().count(),
            backlog_fragments: self.backlog.held() as u64,
            ..Live::default()
        };
        let report = Report { report: Some(report::Report::Source(counters)), live: Some(live) };
        Control { message: Some(control::Message::Report(report)) }
    }

    fn place(&mut self, placed: Placed) {
        match placed {
            Placed::Waiting | Placed::Known => {}
            Placed::Ready(lane, fragment) => self.deliver(lane, fragment),
            Placed::Parked(fragment) => self.parking.park(fragment),
            Placed::Inhibited => self.counters.inhibited += 1,
            Placed::Closed => self.counters.closed += 1,
            Placed::Duplicate => self.counters.duplicate += 1,
        }
    }

    fn lane_of(&self, builder: BuilderId) -> Result<usize, MalformedMessage> {
        let fault = MalformedMessage {
            message: "Decisions",
            problem: "assigned to a builder that is not in the roster",
        };
        self.seats.lane(builder).ok_or(fault)
    }
}
