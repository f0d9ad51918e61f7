//! [`SourceCore`]: moves fragments from readout to the lanes of the builders that build their
//! events.
//!
//! ```text
//! readout: push ──────────►┌────────────┐──► Output::Announce    records for a builder's lane
//! supervisor: decisions ──►│ SourceCore │──► Output::Wanted      a fragment for readout to make
//! lanes: grants, commits ─►└────────────┘──► Output::Supervisor  heartbeats
//!                           granted bytes: `take` from a lane, paced by evb-shaper
//! ```
// tidy: long because all inputs of one machine stand together.

mod push_error;
mod before_start;
mod backlog;
mod parking;
mod readout;
mod repeats;
mod recent;
mod counting;
mod seats;
mod lane;
mod lanes;
mod holdings;
mod stream_reader;
mod stream_writer;
mod datagram_end;

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

pub use before_start::{BeforeStart, FRONT_END_READ, MAX_FRONT_ENDS, assembly_memory, front_end_memory};
pub use datagram_end::{DatagramEnd, MAX_DATAGRAMS, MAX_TRAIN, Train};
pub use push_error::{MAX_AHEAD, PushError};
pub use stream_reader::StreamReader;
pub use stream_writer::{ParcelContent, StreamWriter};

use backlog::{Backlog, Placed, Unwanted};
use counting::Counting;
use lane::{LaneTimes, SourceLane};
use parking::Parking;
use readout::ReadoutWatch;
pub(crate) use recent::RecentReadings;
use repeats::{Compared, Repeats, Seen};
use seats::Seats;

use crate::{
    alignment::TriggerCounter,
    fragment::Fragment,
    id::{BuilderId, EventId, SourceId},
    index::LaneIndex,
    lane::StageTimes,
    live::{RARE, ReportTimer, nanos_since, on_grid},
    set::LaneSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{
        Control, Decisions, Heartbeat, Live, MalformedMessage, Message, ReadingsWanted, Report, RoleReport,
        SourceReport, TrainReport, Verdict,
    },
};

/// Time for which a source waits at the end of the run for the builders' last commits.
pub const LAST_COMMITS: Duration = Duration::from_secs(2);

/// Configuration of a source, fixed before the first event.
#[derive(Clone, Debug)]
pub struct SourceCoreConfig {
    /// Id of the source.
    pub id: SourceId,
    /// Largest payload that readout may push.
    pub max_fragment: Bytes,
    /// Time for which a fragment waits for the decision on its event before it is dropped as
    /// unexpected.
    pub orphan_timeout: Duration,
    /// Longest time between two heartbeats to the supervisor.
    pub heartbeat: Duration,
    /// All builders of the first roster, ascending. A builder's position in this list is the index
    /// of its lane for the whole run.
    pub builders: Vec<BuilderId>,
    /// True if readout makes fragments only on demand ([`Output::Wanted`]) and does not push them
    /// by itself.
    pub on_demand: bool,
    /// Last event that was decided before this source joined. No event up to `decided` waits for
    /// this source.
    pub decided: EventId,
    /// Time after an event's assignment at which builders give up fragments that have not been
    /// announced.
    pub deadline: Duration,
    /// Time in which full switch ports on the way to the builders drain. The delay of announcements
    /// depends on it, and over datagrams no announcement is repeated before this time has passed.
    pub queue_delay: Duration,
    /// Interval of the periodic reports; zero for no periodic reports.
    pub report_period: Duration,
}

/// Action that the driver is to take.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a source handles outputs one at a time and keeps none; a box would cost an allocation for each"
)]
pub enum Output {
    /// The lane with that index has announcements to send. Call [`SourceCore::announce`] for a lane
    /// over a stream, [`SourceCore::write_datagram`] for a lane over datagrams.
    Announce(LaneIndex),
    /// An event is assigned and its fragment is missing: readout has to make the fragment and push
    /// it. Only a source with `on_demand` returns this.
    Wanted(EventId),
    /// A message to send to the supervisor.
    Supervisor(Control),
}

/// State machine of a source.
///
/// After all inputs that share one `now`, call `poll` until it returns `None`, and `take` the bytes
/// that the shaper permits to send now.
#[derive(Debug)]
pub struct SourceCore {
    config: SourceCoreConfig,
    backlog: Backlog,
    parking: Parking,
    repeats: Repeats,
    /// Trigger counter that readout pushes in place of event ids.
    counting: Option<Counting>,
    readout: ReadoutWatch,
    /// True while readout cannot push, because the backlog is full.
    is_full: bool,
    seats: Seats,
    /// Lanes in the order of their builders in [`Seats`].
    lanes: Vec<SourceLane>,
    times: LaneTimes,
    /// Lanes that may have something to announce.
    announce: LaneSet,
    /// Lanes that have got permission to send since [`Self::take_permitted`] returned them.
    permitted: LaneSet,
    /// Assigned events whose fragments readout has to make.
    wanted: VecDeque<EventId>,
    /// True while the connection to the supervisor is up.
    is_supervised: bool,
    /// True while the run's triggers are paused.
    is_paused: bool,
    next_heartbeat: Instant,
    reports: ReportTimer,
    last_heard: Option<(u64, Instant)>,
    /// True while fragments from readout are discarded, because the run has not started.
    is_discarding: bool,
    /// Latest time of the final report, while the run is ending.
    finish: Option<Instant>,
    counters: SourceReport,
    stages: StageTimes,
    /// Timestamps of the last events, unless those of this source are not compared: that is known
    /// when the run begins.
    recent: Option<Box<RecentReadings>>,
}

impl SourceCore {
    /// Returns a source without fragments.
    pub fn new(mut config: SourceCoreConfig, now: Instant) -> Self {
        // An announcement has 32 bits for the length of a payload (docs/reference/protocol.md
        // LANE-4).
        config.max_fragment = config.max_fragment.min(Bytes::new(u32::MAX.into()));
        let times = LaneTimes::new(config.id, config.deadline, config.queue_delay);
        Self {
            backlog: Backlog::new(config.decided, config.orphan_timeout, config.on_demand),
            parking: Parking::default(),
            repeats: Repeats::default(),
            counting: None,
            readout: ReadoutWatch::new(config.deadline),
            is_full: false,
            seats: Seats::new(&config.builders),
            lanes: config.builders.iter().map(|_| SourceLane::new(&times)).collect(),
            times,
            announce: LaneSet::default(),
            permitted: LaneSet::default(),
            wanted: VecDeque::new(),
            is_supervised: true,
            is_paused: false,
            next_heartbeat: now,
            reports: ReportTimer::new(config.report_period, config.id.number(), now),
            last_heard: None,
            is_discarding: false,
            finish: None,
            counters: SourceReport::default(),
            stages: StageTimes::default(),
            recent: Some(Box::default()),
            config,
        }
    }

    /// Lets readout push the values of a trigger counter in place of event ids; before the first
    /// fragment. The counter passed [`TriggerCounter::check`].
    pub fn set_counter(&mut self, counter: TriggerCounter) {
        self.counting = Some(Counting::new(self.config.id, counter, self.config.decided));
    }

    /// Accepts a fragment from readout. Fragments that no builder needs are dropped and counted by
    /// cause; refused fragments are counted, too.
    ///
    /// With a [trigger counter](Self::set_counter), the fragment has the counter's value in place
    /// of its event id. A fragment whose value means no event is dropped and counted, too.
    pub fn push(&mut self, mut fragment: Fragment, now: Instant) -> Result<(), PushError> {
        if self.is_discarding {
            self.counters.discarded_before_start += 1;
            return Ok(());
        }
        if let Some(counting) = &mut self.counting {
            let event = counting.event_of(&fragment, &self.backlog, &self.repeats, &mut self.counters, now);
            let Some(event) = event else { return Ok(()) };
            fragment.event = event;
        }
        self.take_in(fragment, now).inspect_err(|_| self.counters.refused += 1)
    }

    /// Puts a fragment from readout in the lane of its builder, or keeps it until that is decided.
    fn take_in(&mut self, fragment: Fragment, now: Instant) -> Result<(), PushError> {
        let (event, timestamp, size) = (fragment.event, fragment.timestamp, fragment.size());
        if event.number() == 0 {
            return Err(PushError::EventZero);
        }
        if size > self.config.max_fragment {
            return Err(PushError::Oversize { event, size, limit: self.config.max_fragment });
        }
        let seen = Seen::of(&fragment);
        // The outer `None`: nothing is known about the event. The inner one: it has no builder yet.
        let placed = match self.parking.take_assignment(event) {
            Some(Some(lane)) => Placed::Ready(lane, fragment),
            Some(None) => Placed::Parked(fragment),
            None => self.backlog.push(fragment, now)?,
        };
        self.readout.handle_delivered(event, now);
        self.recent.iter_mut().for_each(|recent| recent.add(event, timestamp));
        self.counters.pushed += 1;
        self.counters.last_event = self.counters.last_event.max(event.number());
        self.counters.pushed_bytes += size.count();
        self.counters.backlog_peak_bytes = self.counters.backlog_peak_bytes.max(self.backlog.bytes().count());
        match placed {
            Placed::Duplicate | Placed::Unwanted(Unwanted::Closed) => self.handle_unused(seen, placed),
            placed => {
                self.repeats.remember(seen);
                self.place(placed);
            }
        }
        Ok(())
    }

    /// Counts a fragment of an event that needs none from readout, because readout has pushed one
    /// before, or because the event has ended without one.
    fn handle_unused(&mut self, seen: Seen, placed: Placed) {
        match self.repeats.compare(&seen) {
            Compared::New if placed == Placed::Unwanted(Unwanted::Closed) => {
                self.repeats.remember(seen);
                self.place(placed);
            }
            compared => compared.count(&seen, self.config.id, &mut self.counters),
        }
    }

    /// Discards and counts all fragments that wait for a decision, and those that readout pushes
    /// from now on, until [`Self::keep`]. No decision may have arrived.
    pub fn discard(&mut self) {
        self.counters.discarded_before_start += self.backlog.clear();
        self.repeats = Repeats::default();
        self.counting.iter_mut().for_each(Counting::begin_anew);
        self.recent.iter_mut().for_each(|recent| **recent = RecentReadings::default());
        self.is_discarding = true;
    }

    /// Keeps the fragments that readout pushes from now on.
    pub fn keep(&mut self) {
        self.is_discarding = false;
    }

    /// Notes that the run begins. What readout did or did not before says nothing about the run.
    pub fn begin(&mut self) {
        self.readout.begin();
    }

    /// Remembers the timestamps of the last events from now on, or not any more.
    pub fn remember_readings(&mut self, remembers: bool) {
        self.recent = remembers.then(|| self.recent.take().unwrap_or_default());
    }

    /// Handles the supervisor's question for the timestamps of the last events.
    pub fn handle_readings_wanted(&mut self, wanted: ReadingsWanted, now: Instant) {
        self.recent.get_or_insert_default().handle_wanted(wanted, now);
    }

    /// Notes the number of front ends that should be connected, 0 if they may come and go, and the
    /// number that are.
    pub fn handle_front_ends(&mut self, expected: u32, connected: u32, now: Instant) {
        self.readout.handle_front_ends(expected, connected, now);
    }

    /// Notes whether readout cannot push at present, because the backlog is full.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Counts the fragments that wait for a decision as having come before the start of the run.
    pub fn count_kept(&mut self) {
        self.counters.kept_before_start = self.backlog.held() as u64;
    }

    /// Handles decisions of the supervisor.
    pub fn handle_decisions(&mut self, decisions: &Decisions) -> Result<(), MalformedMessage> {
        self.check_wanted(0)?;
        for (first, count, verdict) in decisions.verdicts()? {
            let lane = match verdict {
                Verdict::Assigned(builder) => Some(self.lane_of(builder)?),
                Verdict::Inhibited | Verdict::Closed | Verdict::Excluded => None,
            };
            if lane.is_none() && self.backlog.pass(first, count.into(), verdict) {
                continue;
            }
            for step in 0..u64::from(count) {
                let event = EventId::new(first.number() + step);
                let placed = self.backlog.decide(event, verdict, lane);
                if lane.is_some() {
                    let lacks = matches!(placed, Placed::Waiting);
                    if self.config.on_demand && lacks {
                        self.wanted.push_back(event);
                    }
                    self.readout.handle_assigned(event, lacks && !self.config.on_demand);
                }
                self.place(placed);
            }
        }
        Ok(())
    }

    /// Checks that no more events wait for readout than can be outstanding in a run. `told` is the
    /// number of waiting events that the driver has already passed to readout.
    /// Requirements: docs/reference/protocol.md RUN-6.
    pub fn check_wanted(&self, told: usize) -> Result<(), MalformedMessage> {
        let fault = malformed("more events are assigned than builders could have slots");
        if (self.wanted.len() + told) as u64 > MAX_AHEAD { Err(fault) } else { Ok(()) }
    }

    /// Notes that the connection to the supervisor is gone. Messages to the supervisor wait for the
    /// next connection.
    pub fn handle_supervisor_lost(&mut self) {
        self.is_supervised = false;
    }

    /// Notes that the source has registered with the supervisor, for the first time or again.
    pub fn handle_registered(&mut self, now: Instant) {
        self.is_supervised = true;
        self.next_heartbeat = now;
        self.readout.forget_told();
        self.backlog.wait_anew(now);
    }

    /// Handles a heartbeat of the supervisor.
    pub fn handle_heartbeat(&mut self, heartbeat: &Heartbeat, now: Instant) {
        self.last_heard = Some((heartbeat.sent_ns, now));
        self.is_paused = heartbeat.is_paused;
    }

    /// Restarts the time for which fragments wait for decisions: those that arrived are unread.
    pub fn handle_standstill(&mut self, now: Instant) {
        self.backlog.wait_anew(now);
    }

    /// Drops fragments that waited too long for a decision, and handles the timers of the lanes.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.readout.handle_timeout(self.is_full || !self.is_supervised || self.is_paused, now);
        self.recent.iter_mut().for_each(|recent| recent.handle_timeout(now));
        if self.is_supervised {
            self.counters.unexpected += self.backlog.expire(now);
        }
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.handle_timeout(now) {
                self.announce.insert(LaneIndex::new(index));
            }
        }
    }

    /// Returns the time at which to call `handle_timeout` and `poll` if no input comes before.
    pub fn next_timeout(&self) -> Option<Instant> {
        let spoken = earlier(Some(self.next_heartbeat), self.reports.next());
        let asked = self.recent.as_ref().and_then(|recent| recent.next_timeout());
        let supervised = earlier(earlier(spoken, asked), self.backlog.next_expiry());
        let lanes = self.lanes.iter().map(SourceLane::next_timeout);
        let without_lanes = earlier(supervised.filter(|_| self.is_supervised), self.readout.next_timeout());
        lanes.fold(without_lanes, earlier)
    }

    /// Returns the next action. Granted data is not an action: get it from the lanes by `take`.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        self.readout.settle(now);
        if let Some(event) = self.wanted.pop_front() {
            return Some(Output::Wanted(event));
        }
        while let Some(lane) = self.announce.take_first() {
            if self.lanes[lane].is_announcement_due(now) {
                return Some(Output::Announce(lane));
            }
        }
        if !self.is_supervised {
            return None;
        }
        if let Some(status) = self.readout.take_news(self.backlog.held() > 0) {
            return Some(Output::Supervisor(Control { message: Some(Message::Readout(status)) }));
        }
        if let Some(readings) = self.recent.as_mut().and_then(|recent| recent.take_answer()) {
            return Some(Output::Supervisor(Control { message: Some(Message::Readings(readings)) }));
        }
        if self.next_heartbeat > now {
            return self
                .reports
                .ring(self.next_heartbeat, now)
                .then(|| Output::Supervisor(self.report_so_far(now)));
        }
        let heartbeat = self.config.heartbeat;
        self.next_heartbeat = if heartbeat < RARE { now + heartbeat } else { on_grid(now, heartbeat) };
        let message = Some(Message::Heartbeat(Heartbeat::echoing(self.last_heard, now)));
        Some(Output::Supervisor(Control { message }))
    }

    /// Notes that every event of the run is settled, and that the source has to report after the
    /// last commits (docs/reference/protocol.md RUN-17).
    pub fn handle_finish(&mut self, now: Instant) {
        self.finish = Some(now + LAST_COMMITS);
    }

    /// Returns the latest time of the final report, if that is requested and not sent yet.
    pub fn next_finish(&self) -> Option<Instant> {
        self.finish
    }

    /// Returns true once per request when the final report is due: everything is committed, or
    /// [`LAST_COMMITS`] have passed.
    pub fn finish(&mut self, now: Instant) -> bool {
        self.finish.take_if(|limit| *limit <= now).is_some()
            || (self.uncommitted() == 0 && self.finish.take().is_some())
    }

    /// Counts a sample of the wake-up time: from the kernel's receipt of a grant to its read.
    pub fn record_grant_wake(&mut self, took: Duration) {
        self.stages.wake.record(took);
    }

    /// Counts a sample of the write time: from the read of a grant to the end of the write of its
    /// first data.
    pub fn record_grant_answer(&mut self, took: Duration) {
        self.stages.write.record(took);
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        self.lanes.iter().for_each(SourceLane::invariants);
        self.counting.iter().for_each(Counting::invariants);
        assert_eq!(self.lanes.len(), self.seats.len(), "each builder has a lane");
        assert!(self.announce.iter().all(|lane| lane.get() < self.lanes.len()), "{:?}", self.announce);
    }

    /// Returns the number of lanes.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the payload bytes that wait for a decision; the configured backlog limits them.
    pub fn backlog(&self) -> Bytes {
        self.backlog.bytes()
    }

    /// Returns the number of fragments that wait for a decision.
    pub fn backlog_fragments(&self) -> usize {
        self.backlog.held()
    }

    /// Returns the first event for which no decision has arrived.
    pub fn undecided(&self) -> EventId {
        self.backlog.undecided()
    }

    /// Returns the lane of a builder that is or was in a roster.
    pub fn lane_index(&self, builder: BuilderId) -> Option<LaneIndex> {
        self.seats.lane(builder)
    }

    /// Returns the source's configuration.
    pub fn config(&self) -> &SourceCoreConfig {
        &self.config
    }

    /// Returns the message with the final counters for the supervisor.
    pub fn report(&self, tcp_retransmits: u64, trains: Option<TrainReport>) -> Control {
        let counters =
            SourceReport { tcp_retransmits, trains, stages: self.stages.report(), ..self.counters() };
        reported(counters, None)
    }

    /// Returns a message with a periodic report, which has no histograms and no last event.
    fn report_so_far(&self, now: Instant) -> Control {
        let counters = SourceReport { last_event: 0, ..self.counters() };
        let live = Live {
            backlog_bytes: self.backlog.bytes().count(),
            backlog_fragments: self.backlog.held() as u64,
            since_fragment_ns: nanos_since(self.readout.delivered(), now),
            ..Live::default()
        };
        reported(counters, Some(live))
    }

    /// Returns the counters so far, including those of the lanes.
    fn counters(&self) -> SourceReport {
        let uncommitted = self.uncommitted() as u64 + self.backlog.held() as u64;
        let mut counters = SourceReport { uncommitted, ..self.counters.clone() };
        self.lanes.iter().for_each(|lane| lane.counters().add_to(&mut counters));
        counters
    }

    /// Puts a fragment where the backlog says, or counts it as not used.
    fn place(&mut self, placed: Placed) {
        match placed {
            Placed::Waiting | Placed::Known => {}
            Placed::Ready(lane, fragment) => self.deliver(lane, fragment),
            Placed::Parked(fragment) => self.parking.park(fragment),
            Placed::Unwanted(Unwanted::Inhibited) => self.counters.inhibited += 1,
            Placed::Unwanted(Unwanted::Closed) | Placed::Duplicate => self.counters.closed += 1,
            Placed::Unwanted(Unwanted::Excluded) => self.counters.pushed_while_excluded += 1,
        }
    }

    fn lane_of(&self, builder: BuilderId) -> Result<LaneIndex, MalformedMessage> {
        self.seats.lane(builder).ok_or_else(|| malformed("one builder is not in its list of builders"))
    }
}

fn reported(counters: SourceReport, live: Option<Live>) -> Control {
    let report = Report { report: Some(RoleReport::Source(counters)), live };
    Control { message: Some(Message::Report(report)) }
}

const fn malformed(problem: &'static str) -> MalformedMessage {
    MalformedMessage { message: "Decisions", problem }
}
