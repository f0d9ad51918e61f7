//! [`BuilderRole`]: a state machine with all behaviour of a builder in a run.

mod lanes;
mod sink;
#[cfg(test)]
mod tests;

use core::time::Duration;

use evb_core::{
    alignment::Episode,
    builder::{Output, RosterError, Standing},
    event::Event,
    id::{EventId, RunNumber, SourceId},
    index::LaneIndex,
    ledger::OwingChange,
    quantities::counted,
    session::{
        Admission, Attendance, AttendanceOutput, Dial, Heard, Lines, MembershipEvent, Registered,
        ReportFacts, RoleFault, RunOutcome, Start, Target,
    },
    set::{LaneSet, SourceSet},
    time::{Instant, earlier, stood_still},
    units::Bytes,
    wire::control::{Begin, Begun, Control, MAX_REASON, Message, Roster},
};

use super::BuilderPlan;
use crate::ShapedBuilder;

use lanes::LaneState;
pub use lanes::{Admitted, Greeting};
use sink::AtSink;

/// Longest time for which a due timer waits until unread input has been read.
const READING: Duration = Duration::from_millis(50);

/// Longest time for which the end of the run waits for a sink that is still writing.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Action that a builder requests from its driver.
#[derive(Debug)]
pub enum BuilderOutput {
    /// Connect to the supervisor and send the greeting. Hand the answer, or the failure, to
    /// [`BuilderRole::handle_supervisor`].
    Dial(Dial),
    /// Drop the connection to this target, or the attempt to connect; for a lane, also an answer to
    /// its greeting that has not left yet. The driver must not hand in any further input from the
    /// dropped connection.
    Close(Target),
    /// Send this message to the supervisor.
    Send(Control),
    /// Complete this report with [`BuilderRole::complete`], and send it to the supervisor.
    Report(Control),
    /// Building of this event has ended: filter and write it, and report the result with
    /// [`BuilderRole::handle_written`], [`BuilderRole::handle_rejected`] or
    /// [`BuilderRole::handle_failed`].
    Event(Event),
    /// This lane has records to send: let the machine behind [`BuilderRole::records`] write them.
    Lane(LaneIndex),
    /// The run begins, or has begun: prepare filter and sink for it, and report the result with
    /// [`BuilderRole::handle_begun`].
    Begin(Box<Begin>),
    /// The run is ending: from now on, limit the time for which a sink with a fault is waited for.
    ExpectEnd,
    /// Episodes of sources whose timestamps disagreed, new or changed: hand them to the sink.
    Episodes(Vec<Episode>),
    /// All exclusions and inclusions so far: hand them to the sink.
    Changes(Vec<OwingChange>),
    /// The builder's part in the run is over, with this result; no further output follows.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// The state machine of a builder in a run.
///
/// The driver must call `poll` until it returns `None` after all inputs with the same `now`.
#[derive(Debug)]
pub struct BuilderRole {
    plan: BuilderPlan,
    attendance: Attendance,
    core: ShapedBuilder,
    admission: Admission,
    /// State of each lane.
    lanes: Vec<LaneState>,
    /// Sources that are up according to the latest roster.
    up: SourceSet,
    /// Lanes whose connections are to be dropped.
    closing: LaneSet,
    /// Lanes that have records to send, but whose sources have not been sent the answer to their
    /// greeting yet.
    withheld: LaneSet,
    /// Lanes that have opened since, with records to send from before.
    opened: LaneSet,
    /// Span within which lanes over datagrams keep bytes that arrive out of order.
    window: Bytes,
    /// Limit on log lines about lost lanes, so that a source which loses its connection again and
    /// again does not fill the log.
    lines: Lines,
    sink: AtSink,
    expects_end: bool,
    /// The beginning of the run, for which filter and sink have to be prepared.
    begin: Option<Box<Begin>>,
    /// Episodes that the sink has not been told of.
    episodes: Vec<Episode>,
    /// All exclusions and inclusions so far, unless the sink has been told of them.
    changes: Option<Vec<OwingChange>>,
    /// Time at which the builder sends its last report even if it still has events; set when the
    /// run is ending.
    finish: Option<Instant>,
}

impl BuilderRole {
    /// Creates a builder that begins its part in a run.
    ///
    /// # Errors
    /// Returns [`RoleFault::Roster`] if the first roster is invalid.
    pub fn new(plan: BuilderPlan, start: &Start, now: Instant) -> Result<Self, RoleFault> {
        let (attendance, mut core) = (Attendance::new(start, now), plan.build(now));
        core.handle_registered(start.registered.greeted, now);
        let admission = Admission {
            builder: plan.config.id,
            identity: start.identity,
            incarnation: start.registered.incarnation,
            datagrams: plan.config.datagrams,
        };
        let count = plan.sources().len();
        let mut new = Self {
            window: plan.config.shaping.out_of_order_window(count),
            plan,
            attendance,
            core,
            admission,
            lanes: vec![LaneState::Closed; count],
            up: SourceSet::default(),
            closing: LaneSet::default(),
            withheld: LaneSet::default(),
            opened: LaneSet::default(),
            lines: Lines::default(),
            sink: AtSink::default(),
            expects_end: false,
            begin: None,
            episodes: Vec::new(),
            changes: None,
            finish: None,
        };
        new.handle_roster(&start.roster, now)?;
        Ok(new)
    }

    /// Handles a message, a failure or the end of the connection to the supervisor.
    pub fn handle_supervisor(&mut self, heard: Heard, now: Instant) {
        let (core, sink) = (&self.core, &self.sink);
        let event = self.attendance.handle(heard, now, || sink.give_up(core));
        self.take(event, now);
    }

    /// Notes that filter and sink are prepared for the run, or the reason why they cannot be.
    /// `highest` is the highest run number that the sink's storage knows, if it is known.
    pub fn handle_begun(&mut self, result: Result<(), String>, highest: Option<RunNumber>) {
        let refusal = result.err().unwrap_or_default().chars().take(MAX_REASON).collect();
        let highest_run = highest.map_or(0, |run| 1 + u64::from(run.number()));
        self.attendance.send(Message::Begun(Begun { refusal, highest_run }));
    }

    /// Asks the supervisor to end the run.
    pub fn request_run_end(&mut self, cause: String) {
        self.attendance.request_run_end(cause);
    }

    /// Returns true if a timer of the lanes is due. The driver should then read all available input
    /// before it calls [`Self::handle_timeout`], since bytes that seem lost may be in that input.
    pub fn wants_reading(&self, now: Instant) -> bool {
        self.core.next_timeout().is_some_and(|due| due <= now)
    }

    /// Handles the timers that are due. If input is still unread (`is_unread`), timers of the lanes
    /// wait a while for it.
    pub fn handle_timeout(&mut self, is_unread: bool, now: Instant) {
        let (core, sink) = (&self.core, &self.sink);
        let event = self.attendance.handle_timeout(now, || sink.give_up(core));
        self.take(event, now);
        let Some(due) = self.core.next_timeout().filter(|due| *due <= now) else { return };
        if stood_still(due, now) {
            self.core.handle_standstill(now);
        }
        if !is_unread || due + READING <= now {
            self.core.handle_timeout(now);
            self.drop_idle_lanes(now);
        }
    }

    /// Returns the time at which to call [`Self::handle_timeout`] and [`Self::poll`] if no input
    /// comes before.
    pub fn next_timeout(&self) -> Option<Instant> {
        earlier(self.core.next_timeout(), self.attendance.next_timeout(self.finish))
    }

    /// Returns the next action that the driver must carry out.
    pub fn poll(&mut self, now: Instant) -> Option<BuilderOutput> {
        // They may come together with the end of the run.
        if !self.episodes.is_empty() {
            return Some(BuilderOutput::Episodes(core::mem::take(&mut self.episodes)));
        }
        if let Some(changes) = self.changes.take() {
            return Some(BuilderOutput::Changes(changes));
        }
        if let Some(output) = self.attendance.poll(now) {
            return Some(match output {
                AttendanceOutput::Dial(dial) => BuilderOutput::Dial(dial),
                AttendanceOutput::Close => BuilderOutput::Close(Target::Supervisor),
                AttendanceOutput::Send(message) => BuilderOutput::Send(message),
                AttendanceOutput::Ended(ended) => BuilderOutput::Ended(ended),
            });
        }
        if self.attendance.is_over() {
            return None;
        }
        if let Some(begin) = self.begin.take() {
            return Some(BuilderOutput::Begin(begin));
        }
        if core::mem::take(&mut self.expects_end) {
            return Some(BuilderOutput::ExpectEnd);
        }
        if let Some(lane) = self.closing.take_first() {
            return Some(BuilderOutput::Close(Target::Lane(lane)));
        }
        if let Some(lane) = self.opened.take_first() {
            return Some(BuilderOutput::Lane(lane));
        }
        self.poll_machine(now).or_else(|| self.poll_report(now))
    }

    /// Adds the facts that only the driver knows to a report, before the report is sent.
    pub fn complete(&mut self, message: &mut Control, facts: ReportFacts) {
        self.attendance.complete(message, facts);
    }

    /// Returns the state machine that handles the records and bytes of the lanes: it reads
    /// announcements and data, and writes grants and commits.
    pub fn records(&mut self) -> &mut ShapedBuilder {
        &mut self.core
    }

    /// Returns the builder's state, for observers.
    pub fn core(&self) -> &ShapedBuilder {
        &self.core
    }

    /// Checks the invariants of the builder, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant is violated, which is a defect of evb.
    pub fn invariants(&self) {
        self.core.invariants();
        for (lane, state) in self.lanes.iter().enumerate() {
            let is_connected = self.core.is_lane_connected(LaneIndex::new(lane));
            assert_eq!(is_connected, *state != LaneState::Closed, "lane {lane} is {state:?}");
        }
        assert!(self.core.slots_used() + self.sink.stale() >= self.sink.count(), "{:?}", self.sink);
    }

    /// Acts on an event of the membership.
    fn take(&mut self, event: Option<MembershipEvent>, now: Instant) {
        match event {
            Some(MembershipEvent::Message(message)) => {
                if let Err(fault) = self.handle_message(message, now) {
                    self.attendance.fail(fault);
                }
            }
            Some(MembershipEvent::Lost) => self.core.handle_supervisor_lost(),
            Some(MembershipEvent::Registered(registered)) => self.go_on(&registered, now),
            None => {}
        }
    }

    /// Continues after the builder has registered with the supervisor again.
    fn go_on(&mut self, registered: &Registered, now: Instant) {
        if registered.incarnation != self.attendance.incarnation() {
            self.begin_anew(registered, now);
        }
        self.core.handle_registered(registered.greeted, now);
    }

    /// Begins a new incarnation without events: the supervisor has ended the previous one and
    /// assigned its events to other builders. Events at the sink remain there.
    fn begin_anew(&mut self, registered: &Registered, now: Instant) {
        let dropped = self.core.slots_used() + self.core.unaccounted();
        let incarnation = registered.incarnation;
        let events = counted(dropped, "event");
        tracing::warn!(dropped, %incarnation, "this builder registered again too late: other builders have taken its {events}, and it drops what it had built of them; nothing needs to be done, unless this is frequent: then look at the network to the supervisor");
        for lane in LaneIndex::all(self.lanes.len()) {
            self.close(lane);
        }
        self.attendance.renumber(incarnation);
        self.attendance.forget();
        self.admission.incarnation = incarnation;
        self.core = self.plan.build(now);
        self.core.open_sink(self.sink.begin_anew());
        self.finish = None;
    }

    /// Returns the next output of the state machine that the driver must carry out.
    fn poll_machine(&mut self, now: Instant) -> Option<BuilderOutput> {
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Event(event) => {
                    self.sink.submit();
                    return Some(BuilderOutput::Event(event));
                }
                Output::Lane(lane) if self.takes_records(lane) => return Some(BuilderOutput::Lane(lane)),
                Output::Lane(lane) => self.withhold(lane),
                Output::Supervisor(message) => {
                    return Some(match message.message {
                        Some(Message::Report(_)) => BuilderOutput::Report(message),
                        _ => BuilderOutput::Send(message),
                    });
                }
            }
        }
        None
    }

    /// Returns the last report, once all events are finished or the time limit for them has passed.
    fn poll_report(&mut self, now: Instant) -> Option<BuilderOutput> {
        let limit = self.finish.filter(|_| self.attendance.is_up())?;
        if !self.core.is_idle() && now < limit {
            return None;
        }
        if let Some(doubts) = self.core.last_doubts() {
            return Some(BuilderOutput::Send(doubts));
        }
        self.finish = None;
        Some(BuilderOutput::Report(self.core.report()))
    }

    /// Handles a message of the supervisor.
    fn handle_message(&mut self, message: Control, now: Instant) -> Result<(), RoleFault> {
        let fault = |error: RosterError| RoleFault::Roster(error.to_string());
        match message.message {
            Some(Message::Assignments(assignments)) => {
                self.core.handle_assignments(&assignments, now).map_err(fault)?;
                if !assignments.events.is_empty() {
                    self.attendance.go_on(now);
                }
            }
            Some(Message::Accounted(accounted)) => {
                self.core.handle_accounted(&accounted).map_err(fault)?;
            }
            Some(Message::Begin(begin)) => {
                self.attendance.begin(&begin)?;
                self.plan.set_run(RunNumber::new(begin.run));
                self.core.set_run(RunNumber::new(begin.run));
                self.core.guard(&begin);
                self.begin = Some(Box::new(begin));
            }
            Some(Message::Roster(roster)) => self.handle_roster(&roster, now)?,
            Some(Message::Heartbeat(heartbeat)) => self.core.handle_heartbeat(&heartbeat, now),
            Some(Message::Learn(learn)) => {
                let after = EventId::new(learn.after);
                u16::try_from(learn.source)
                    .into_iter()
                    .for_each(|id| self.core.learn(SourceId::new(id), after));
            }
            Some(Message::Episodes(told)) => {
                self.episodes.extend(told.episodes.iter().filter_map(Episode::of_message));
            }
            Some(Message::Changes(told)) => {
                self.changes = Some(told.changes.iter().filter_map(OwingChange::of_entry).collect());
            }
            Some(Message::Stop(_)) => self.expects_end = true,
            Some(Message::Finish(_)) => {
                self.finish = Some(now + LAST_WRITES);
                self.attendance.finish(now);
            }
            Some(Message::RunEnd(end)) => self.attendance.end(&end, now),
            // All other messages are not meant for builders.
            _ => {}
        }
        Ok(())
    }

    /// Handles a new roster, and drops the lanes of sources that it takes out of service.
    fn handle_roster(&mut self, roster: &Roster, now: Instant) -> Result<(), RoleFault> {
        let sources = self.plan.sources();
        if !roster.sources.iter().copied().eq(sources.iter().map(|source| u32::from(source.number()))) {
            return Err(RoleFault::Roster("the sources of the run have changed".to_owned()));
        }
        let index = |id: &u32| sources.binary_search_by_key(id, |source| source.number().into());
        let indices = |ids: &[u32]| {
            let found: Result<SourceSet, usize> = ids.iter().map(index).collect();
            found.map_err(|_| RoleFault::Roster("it expects a source that is not in the run".to_owned()))
        };
        let (up, awaited) = (indices(&roster.up)?, indices(&roster.awaited)?);
        self.core.learn_max_fragments(&roster.max_fragment);
        self.core.set_standing(Standing {
            quiet: indices(&roster.quiet)?,
            excluded: indices(&roster.excluded)?,
            released: indices(&roster.released)?,
            expendable: indices(&roster.expendable)?,
            sporadic: indices(&roster.sporadic)?,
            sporadic_wait: Duration::from_nanos(roster.sporadic_wait_ns),
        });
        self.core.handle_roster(roster.version, up.clone(), awaited, now);
        self.drop_lanes_but(up, now);
        Ok(())
    }
}
