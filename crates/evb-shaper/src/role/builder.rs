//! [`BuilderRole`]: all behaviour of a builder in a run.

mod lanes;
mod sink;
#[cfg(test)]
mod tests;

use core::time::Duration;

use evb_core::{
    builder::{Output, RosterError},
    event::Event,
    index::LaneIndex,
    session::{
        Admission, Attendance, AttendanceOutput, Dial, Heard, Lines, MembershipEvent, Registered,
        ReportFacts, RoleFault, RunOutcome, Start, Target,
    },
    set::{LaneSet, SourceSet},
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{Control, Message, Roster},
};

use super::BuilderPlan;
use crate::ShapedBuilder;

use lanes::LaneState;
pub use lanes::{Admitted, Greeting};
use sink::AtSink;

/// Time for which timers wait for unread input.
const READING: Duration = Duration::from_millis(50);

/// Time for which the end of the run waits for a sink that is still writing.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Action that a builder requests from its driver.
#[derive(Debug)]
pub enum BuilderOutput {
    /// Connect to the supervisor and greet it. The answer, or the failure, goes to
    /// [`BuilderRole::handle_supervisor`].
    Dial(Dial),
    /// Drop that connection, or the attempt at one; of a lane also the answer that is on its way.
    /// No further input of it may be handed in.
    Close(Target),
    /// To the supervisor.
    Send(Control),
    /// To the supervisor, behind [`BuilderRole::complete`].
    Report(Control),
    /// An event is over: filter it, write it, and say so by [`BuilderRole::handle_written`],
    /// [`BuilderRole::handle_rejected`] or [`BuilderRole::handle_failed`].
    Event(Event),
    /// That lane has records to be sent: have [`BuilderRole::records`] write them.
    Lane(LaneIndex),
    /// The run is ending: a sink in trouble is not to be waited for without limit any more.
    ExpectEnd,
    /// The builder's part is over; nothing more comes.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// A builder in a run.
///
/// Law: after inputs that share one `now`, call `poll` until `None`.
#[derive(Debug)]
pub struct BuilderRole {
    plan: BuilderPlan,
    attendance: Attendance,
    core: ShapedBuilder,
    admission: Admission,
    /// State of each lane.
    lanes: Vec<LaneState>,
    /// Lanes whose connections are to be dropped.
    closing: LaneSet,
    /// Lanes with records to be sent once their sources have been told.
    withheld: LaneSet,
    /// Lanes with such records that have opened since.
    opened: LaneSet,
    /// Span within which lanes over datagrams keep bytes that arrive out of order.
    window: Bytes,
    /// A source that breaks its lane again and again must not fill the log.
    lines: Lines,
    sink: AtSink,
    expects_end: bool,
    /// The run is ending: report when nothing is left, or then.
    finish: Option<Instant>,
}

impl BuilderRole {
    /// A builder that begins.
    ///
    /// # Errors
    /// [`RoleFault::Roster`]: the first roster cannot be.
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
            closing: LaneSet::default(),
            withheld: LaneSet::default(),
            opened: LaneSet::default(),
            lines: Lines::default(),
            sink: AtSink::default(),
            expects_end: false,
            finish: None,
        };
        new.handle_roster(&start.roster, now)?;
        Ok(new)
    }

    /// Takes in what came of the connection to the supervisor.
    pub fn handle_supervisor(&mut self, heard: Heard, now: Instant) {
        let (core, sink) = (&self.core, &self.sink);
        let event = self.attendance.handle(heard, now, || sink.give_up(core));
        self.take(event, now);
    }

    /// Has the supervisor end the run.
    pub fn request_run_end(&mut self, cause: String) {
        self.attendance.request_run_end(cause);
    }

    /// Returns whether a timer of the lanes is due, so that what can be read is to be read before
    /// [`Self::handle_timeout`]: what seems lost may be among that.
    pub fn wants_reading(&self, now: Instant) -> bool {
        self.core.next_timeout().is_some_and(|due| due <= now)
    }

    /// Notes that time has passed. Where input is unread (`is_unread`), timers of the lanes wait a
    /// while for it.
    pub fn handle_timeout(&mut self, is_unread: bool, now: Instant) {
        let (core, sink) = (&self.core, &self.sink);
        let event = self.attendance.handle_timeout(now, || sink.give_up(core));
        self.take(event, now);
        let Some(due) = self.core.next_timeout().filter(|due| *due <= now) else { return };
        if !is_unread || due + READING <= now {
            self.core.handle_timeout(now);
            self.drop_idle_lanes(now);
        }
    }

    /// Returns when there is something to do without further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        earlier(self.core.next_timeout(), self.attendance.next_timeout(self.finish))
    }

    /// Returns what is to be done next.
    pub fn poll(&mut self, now: Instant) -> Option<BuilderOutput> {
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
        if core::mem::take(&mut self.expects_end) {
            return Some(BuilderOutput::ExpectEnd);
        }
        if let Some(lane) = take_first(&mut self.closing) {
            return Some(BuilderOutput::Close(Target::Lane(lane)));
        }
        if let Some(lane) = take_first(&mut self.opened) {
            return Some(BuilderOutput::Lane(lane));
        }
        self.poll_machine(now).or_else(|| self.poll_report(now))
    }

    /// Adds to a report what only the driver knows, before it is sent.
    pub fn complete(&mut self, message: &mut Control, facts: ReportFacts) {
        self.attendance.complete(message, facts);
    }

    /// Returns the machine of the lanes' records and bytes: announcements and data in, grants and
    /// commits out.
    pub fn records(&mut self) -> &mut ShapedBuilder {
        &mut self.core
    }

    /// Returns the builder's state, for observers.
    pub fn core(&self) -> &ShapedBuilder {
        &self.core
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        self.core.invariants();
        for (lane, state) in self.lanes.iter().enumerate() {
            let is_connected = self.core.is_lane_connected(LaneIndex::new(lane));
            assert_eq!(is_connected, *state != LaneState::Closed, "lane {lane} is {state:?}");
        }
        assert!(self.core.slots_used() + self.sink.stale() >= self.sink.count(), "{:?}", self.sink);
    }

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

    /// Resumes after a new registration.
    fn go_on(&mut self, registered: &Registered, now: Instant) {
        if registered.incarnation != self.attendance.incarnation() {
            self.begin_anew(registered, now);
        }
        self.core.handle_registered(registered.greeted, now);
    }

    /// Begins a new life without state: the supervisor ended the last one and gave its events to
    /// others. The sink stays.
    fn begin_anew(&mut self, registered: &Registered, now: Instant) {
        let dropped = self.core.slots_used() + self.core.unaccounted();
        let incarnation = registered.incarnation;
        tracing::warn!(dropped, %incarnation, "this builder registered too late: its events were given to other builders, and it drops what it had built of them");
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

    /// The last report, once it is due.
    fn poll_report(&mut self, now: Instant) -> Option<BuilderOutput> {
        let limit = self.finish.filter(|_| self.attendance.is_up())?;
        if !self.core.is_idle() && now < limit {
            return None;
        }
        self.finish = None;
        Some(BuilderOutput::Report(self.core.report()))
    }

    /// Takes in what the supervisor says.
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
            Some(Message::Roster(roster)) => self.handle_roster(&roster, now)?,
            Some(Message::Heartbeat(heartbeat)) => self.core.handle_heartbeat(&heartbeat, now),
            Some(Message::Stop(_)) => self.expects_end = true,
            Some(Message::Finish(_)) => {
                self.finish = Some(now + LAST_WRITES);
                self.attendance.finish(now);
            }
            Some(Message::RunEnd(end)) => self.attendance.end(&end, now),
            // The rest is not for builders.
            _ => {}
        }
        Ok(())
    }

    /// Sources come and go: lanes of those that are down are dropped.
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
        self.core.handle_roster(roster.version, up, awaited, now);
        self.drop_lanes_but(up, now);
        Ok(())
    }
}

fn take_first(lanes: &mut LaneSet) -> Option<LaneIndex> {
    let lane = lanes.iter().next()?;
    lanes.remove(lane);
    Some(lane)
}
