//! [`SourceRole`]: a state machine with all behaviour of a source in a run.

mod lanes;
mod roster;
#[cfg(test)]
mod tests;

use core::{fmt::Display, time::Duration};
use std::collections::VecDeque;

use bytes::BytesMut;
use evb_core::{
    alignment::{GuardedClocks, TriggerCounter},
    fragment::Fragment,
    id::{BuilderId, EventId, Peer, SourceId},
    index::LaneIndex,
    quantities::counted,
    session::{
        Attendance, AttendanceOutput, Dial, Heard, MembershipEvent, Registered, ReportFacts, RoleFault,
        RunIdentity, RunOutcome, Start, Target,
    },
    source::{BeforeStart, DatagramEnd, Output, PushError, SourceCore},
    time::{Instant, earlier, stood_still},
    units::Bytes,
    wire::{
        control::{Begun, Control, Message, Ready, Report, RoleReport, Welcome},
        datagram::Association,
    },
};

use crate::paced::{Departure, PacedSource};

use super::{Paces, RunStage};
use lanes::LaneConnections;

/// The source's own configuration; all other parameters come from the supervisor.
#[derive(Clone, Debug)]
pub struct SourceRoleConfig {
    /// Id of the source.
    pub id: SourceId,
    /// The largest payload of a fragment of this source.
    pub max_fragment: Bytes,
    /// True if readout makes each fragment on request, false if it pushes fragments on its own.
    pub on_demand: bool,
    /// Trigger counter that readout pushes in place of event ids, checked; `None`: event ids.
    pub counter: Option<TriggerCounter>,
    /// True if lanes use datagrams.
    pub datagrams: bool,
    /// Longest time of announcements in full queues on the way to a builder; zero if not known.
    pub queue_delay: Duration,
    /// Paces at which the source sends to each builder.
    pub paces: Paces,
}

/// Parameters of a lane's datagrams to its builder.
#[derive(Clone, Copy, Debug)]
pub struct LanePath {
    /// The association of the lane, from [`Dial::association`].
    pub association: Association,
    /// A measured round-trip time to the builder, if one is known.
    pub round_trip: Option<Duration>,
    /// The largest size of a datagram, in bytes.
    pub datagram: usize,
}

/// Action that a source requests from its driver.
#[derive(Debug)]
pub enum SourceOutput {
    /// Connect to the supervisor or to a lane's builder, and send the greeting. Hand the
    /// supervisor's answer, or a failure, to [`SourceRole::handle_supervisor`]; hand a builder's
    /// answer to [`SourceRole::handle_lane_up`], and a failure to [`SourceRole::handle_lane_down`].
    Dial(Dial),
    /// Drop the connection to this target, or the attempt, and hand in nothing more from it.
    Close(Target),
    /// Send this message to the supervisor.
    Send(Control),
    /// Complete this report with [`SourceRole::complete`], and send it to the supervisor.
    Report(Control),
    /// This lane has announcements to send: call [`SourceRole::announce`], or over datagrams
    /// [`SourceRole::announce_in_datagram`].
    Announce(LaneIndex),
    /// The run begins: prepare for it. If fragments of the time before are discarded, read all that
    /// has arrived from readout and push it. Then call [`SourceRole::handle_read_out`], or if the
    /// preparation fails, [`SourceRole::refuse_run`].
    Begin,
    /// The source's part in the run is over, with this result; no further output follows.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// The state machine of a source in a run.
///
/// After all inputs with the same `now`, the driver must call `poll` until it returns `None`, and
/// then `poll_departure` until it returns `None`. `take_wanted` returns the events whose fragments
/// readout must make.
#[derive(Debug)]
pub struct SourceRole {
    config: SourceRoleConfig,
    attendance: Attendance,
    paced: PacedSource,
    /// Connections of the lanes, by lane index.
    lanes: LaneConnections,
    /// Events whose fragments readout has to make; never more than the builders have slots.
    wanted: VecDeque<EventId>,
    /// True if the supervisor was told that the source is connected to all builders of the roster.
    is_ready: bool,
    /// Treatment of fragments from the time before the start; `None` if they are the run's own.
    before_start: Option<BeforeStart>,
    /// True if triggers may have been taken, so that no fragment is from the time before the start.
    is_under_way: bool,
    /// True if the run begins, and the driver has to be told.
    begins: bool,
    /// The stage of the run, for front ends.
    stage: RunStage,
    /// True if the run is ending, so that lost lanes are expected and not logged.
    is_ending: bool,
}

impl SourceRole {
    /// Creates a source that begins its part in a run.
    ///
    /// # Errors
    /// Returns [`RoleFault::Roster`] if the first roster is invalid.
    pub fn new(config: SourceRoleConfig, start: &Start, now: Instant) -> Result<Self, RoleFault> {
        let paced = roster::paced(&config, start, now)?;
        let mut new = Self {
            attendance: Attendance::new(start, now),
            paced,
            lanes: LaneConnections::default(),
            wanted: VecDeque::new(),
            is_ready: false,
            before_start: None,
            is_under_way: start.registered.parameters.under_way,
            begins: false,
            stage: RunStage::default(),
            is_ending: false,
            config,
        };
        new.handle_roster(&start.roster, now)?;
        if new.is_under_way {
            new.stage = RunStage::Running;
        }
        Ok(new)
    }

    /// Handles a message, a failure or the end of the connection to the supervisor.
    pub fn handle_supervisor(&mut self, heard: Heard, now: Instant) {
        let core = self.paced.core();
        let event = self.attendance.handle(heard, now, || held(core));
        self.take(event, now);
    }

    /// Notes that the builder of a lane has admitted the source. `path` has the parameters of the
    /// lane's datagrams, if the lane uses datagrams.
    pub fn handle_lane_up(
        &mut self,
        lane: LaneIndex,
        welcome: &Welcome,
        path: Option<LanePath>,
        now: Instant,
    ) {
        if !self.lanes.handle_connected(lane, now) {
            return;
        }
        let held = match welcome.checked_lane(self.attendance.identity().id) {
            Ok(held) => held,
            Err(fault) => return self.give_up_lane(lane, &fault, now),
        };
        let core = self.paced.core_mut();
        if let Err(fault) = core.handle_lane_connected(lane, held.received, held.announced) {
            return self.give_up_lane(lane, &fault, now);
        }
        if let Some(LanePath { association, round_trip, datagram }) = path {
            core.associate(lane, association, round_trip, datagram);
        }
        let (builder, address) = self.lanes.peer(lane);
        tracing::debug!(builder = builder.number(), address, "lane is up");
    }

    /// Notes that a lane's connection was lost or not made, and that the driver has dropped it.
    pub fn handle_lane_down(&mut self, lane: LaneIndex, cause: &dyn Display, now: Instant) {
        if !self.lanes.handle_failed(lane, now) {
            return;
        }
        if !self.is_ending {
            let (builder, _) = self.lanes.peer(lane);
            self.lanes.log_down(lane, &self.attendance.named(Peer::Builder(builder)), cause, now);
        }
        self.paced.core_mut().handle_lane_disconnected(lane);
    }

    /// Takes a fragment from readout.
    ///
    /// # Errors
    /// Returns [`PushError`] if the fragment is not accepted; it is then dropped and counted.
    pub fn push(&mut self, fragment: Fragment, now: Instant) -> Result<(), PushError> {
        self.paced.core_mut().push(fragment, now)
    }

    /// Sets what becomes of fragments that arrive before the run has started. A source that joins a
    /// run that is under way keeps them all.
    pub fn set_before_start(&mut self, before_start: BeforeStart) {
        self.before_start = Some(before_start);
        if before_start == BeforeStart::Discard && !self.is_under_way {
            self.paced.core_mut().discard();
        }
    }

    /// Notes how many front ends should be connected (0: they may come and go), and how many are.
    pub fn handle_front_ends(&mut self, expected: u32, connected: u32, now: Instant) {
        self.paced.core_mut().handle_front_ends(expected, connected, now);
    }

    /// Notes whether readout cannot push at present, because the backlog is full.
    pub fn set_full(&mut self, is_full: bool) {
        self.paced.core_mut().set_full(is_full);
    }

    /// Returns true if triggers may have been taken.
    pub fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Returns the run, and its stage.
    pub fn run(&self) -> (RunIdentity, RunStage) {
        (self.attendance.identity(), self.stage)
    }

    /// Notes that the driver has pushed all fragments that had arrived when the run began: from now
    /// on, fragments are kept, and the supervisor is told.
    pub fn handle_read_out(&mut self) {
        self.paced.core_mut().keep();
        self.stage = RunStage::Running;
        self.attendance.send(Message::Begun(Begun::default()));
    }

    /// Tells the supervisor that the source cannot take part in the run that begins, and why.
    pub fn refuse_run(&mut self, refusal: String) {
        self.attendance.send(Message::Begun(Begun { refusal, highest_run: 0 }));
    }

    /// Asks the supervisor to end the run.
    pub fn request_run_end(&mut self, cause: String) {
        self.attendance.request_run_end(cause);
    }

    /// Notes that `bytes` were sent to the supervisor, for which fragments leave room on the link.
    pub fn handle_control_sent(&mut self, bytes: Bytes, now: Instant) {
        self.paced.charge_link(bytes, now);
    }

    /// Handles the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let core = self.paced.core();
        let event = self.attendance.handle_timeout(now, || held(core));
        self.take(event, now);
        if let Some(due) = self.paced.next_timeout().filter(|due| *due <= now) {
            if stood_still(due, now) {
                self.paced.core_mut().handle_standstill(now);
            }
            self.paced.core_mut().handle_timeout(now);
        }
    }

    /// Returns the time at which to call [`Self::handle_timeout`], [`Self::poll`] and
    /// [`Self::poll_departure`] if no input comes before.
    pub fn next_timeout(&self) -> Option<Instant> {
        let session = self.attendance.next_timeout(self.paced.core().next_finish());
        earlier(earlier(self.paced.next_timeout(), self.lanes.next_timeout()), session)
    }

    /// Returns the next action that the driver must carry out.
    pub fn poll(&mut self, now: Instant) -> Option<SourceOutput> {
        if let Some(output) = self.attendance.poll(now) {
            return Some(match output {
                AttendanceOutput::Dial(dial) => SourceOutput::Dial(dial),
                AttendanceOutput::Close => SourceOutput::Close(Target::Supervisor),
                AttendanceOutput::Send(message) => SourceOutput::Send(message),
                AttendanceOutput::Ended(ended) => SourceOutput::Ended(ended),
            });
        }
        if self.attendance.is_over() {
            return None;
        }
        if core::mem::take(&mut self.begins) {
            return Some(SourceOutput::Begin);
        }
        if let Some(lane) = self.lanes.take_closing() {
            return Some(SourceOutput::Close(Target::Lane(lane)));
        }
        if let Some(lane) = self.lanes.take_due(now) {
            return Some(SourceOutput::Dial(self.dial(lane)));
        }
        self.poll_machine(now).or_else(|| self.poll_milestones(now))
    }

    /// Returns the next lane bytes to send; `None` if all wait for their departure time or a grant.
    pub fn poll_departure(&mut self, now: Instant) -> Option<Departure> {
        self.paced.poll_departure(now)
    }

    /// Removes and returns the next event whose fragment readout has to make and push.
    pub fn take_wanted(&mut self) -> Option<EventId> {
        self.wanted.pop_front()
    }

    /// Returns true if there are events whose fragments readout has to make.
    pub fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Appends the pending announcements of a lane to `into`, as bytes of its TCP stream.
    pub fn announce(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        self.paced.announce(lane, now, into);
    }

    /// Queues one datagram with pending records of a lane at the lane's `end`.
    pub fn announce_in_datagram(&mut self, lane: LaneIndex, now: Instant, end: &mut DatagramEnd) {
        self.paced.announce_in_datagram(lane, now, end);
    }

    /// Adds the facts that only the driver knows to a report, before the report is sent.
    pub fn complete(&mut self, message: &mut Control, facts: ReportFacts) {
        if let Some(Message::Report(Report { report: Some(RoleReport::Source(own)), live: None })) =
            &mut message.message
        {
            own.paths = self.core().worst_paths(&facts.tcp_retransmits);
        }
        self.attendance.complete(message, facts);
    }

    /// Returns the state machine that handles the records and bytes of the lanes: it reads grants
    /// and commits, and provides the memory of the data to send.
    pub fn records(&mut self) -> &mut SourceCore {
        self.paced.core_mut()
    }

    /// Returns the source's state, for observers.
    pub fn core(&self) -> &SourceCore {
        self.paced.core()
    }

    /// Returns the number of lanes.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the builder of a lane.
    pub fn builder_of(&self, lane: LaneIndex) -> BuilderId {
        self.lanes.peer(lane).0
    }

    /// Checks the invariants of the source, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant is violated, which is a defect of evb.
    pub fn invariants(&self) {
        self.paced.core().invariants();
        assert_eq!(self.lanes.len(), self.paced.core().lane_count(), "one connection for each lane");
        for lane in LaneIndex::all(self.lanes.len()) {
            let is_connected = self.paced.core().is_lane_connected(lane);
            assert!(
                !is_connected || self.lanes.is_up(lane),
                "lane {lane} counts as connected but has no open connection"
            );
        }
        assert!(self.wanted.len() as u64 <= evb_core::source::MAX_AHEAD);
    }

    /// Acts on an event of the membership.
    fn take(&mut self, event: Option<MembershipEvent>, now: Instant) {
        match event {
            Some(MembershipEvent::Message(message)) => {
                if let Err(fault) = self.handle_message(message, now) {
                    self.attendance.fail(fault);
                }
            }
            Some(MembershipEvent::Lost) => self.paced.core_mut().handle_supervisor_lost(),
            Some(MembershipEvent::Registered(registered)) => self.go_on(&registered, now),
            None => {}
        }
    }

    /// Handles a message of the supervisor.
    fn handle_message(&mut self, message: Control, now: Instant) -> Result<(), RoleFault> {
        let core = self.paced.core_mut();
        match message.message {
            Some(Message::Decisions(decisions)) => {
                core.check_wanted(self.wanted.len())?;
                core.handle_decisions(&decisions)?;
                self.is_under_way = true;
                self.attendance.go_on(now);
            }
            Some(Message::Begin(begin)) => {
                self.attendance.begin(&begin)?;
                core.remember_readings(GuardedClocks::of(&begin).compares(core.config().id));
                if !self.is_under_way {
                    core.begin();
                }
                self.begin();
            }
            Some(Message::Heartbeat(heartbeat)) => core.handle_heartbeat(&heartbeat, now),
            Some(Message::ReadingsWanted(wanted)) => core.handle_readings_wanted(wanted, now),
            Some(Message::Stop(_)) => self.stage = RunStage::Stopped,
            Some(Message::Finish(_)) => {
                self.stage = RunStage::Stopped;
                core.handle_finish(now);
                self.attendance.finish(now);
                self.is_ending = true;
            }
            Some(Message::RunEnd(end)) => self.attendance.end(&end, now),
            Some(Message::Roster(roster)) => self.handle_roster(&roster, now)?,
            Some(Message::Holdings(holdings)) => {
                core.handle_holdings(&holdings)?;
                core.check_wanted(self.wanted.len())?;
            }
            // All other messages are not meant for sources.
            _ => {}
        }
        Ok(())
    }

    /// Prepares for the first event. The beginning of a run may be given up and come again, so
    /// fragments that came in between are from the time before the start, too.
    fn begin(&mut self) {
        let core = self.paced.core_mut();
        match self.before_start.filter(|_| !self.is_under_way) {
            Some(BeforeStart::Discard) => core.discard(),
            Some(BeforeStart::Keep) => core.count_kept(),
            // There is no rule for what came before the start, or the run is under way already.
            None => return self.handle_read_out(),
        }
        self.begins = true;
    }

    /// Continues after the source has registered again. After a registration, the supervisor sends
    /// a roster, and the decisions on all events that the source may have missed.
    fn go_on(&mut self, registered: &Registered, now: Instant) {
        self.is_under_way |= registered.parameters.under_way;
        if registered.incarnation != self.attendance.incarnation() {
            self.attendance.renumber(registered.incarnation);
            self.paced.core_mut().begin_anew();
            self.lanes.begin_anew(now);
        }
        self.paced.core_mut().handle_registered(now);
        // The roster that follows resets this flag, and the source then reports again that it is
        // ready.
        self.is_ready = true;
    }

    /// Returns the next output of the state machine that the driver must carry out.
    fn poll_machine(&mut self, now: Instant) -> Option<SourceOutput> {
        while let Some(output) = self.paced.core_mut().poll(now) {
            match output {
                Output::Announce(lane) if self.lanes.is_up(lane) => {
                    return Some(SourceOutput::Announce(lane));
                }
                Output::Announce(lane) => self.paced.core_mut().handle_lane_disconnected(lane),
                Output::Wanted(event) => self.wanted.push_back(event),
                Output::Supervisor(message) => return Some(said(message)),
            }
        }
        None
    }

    /// Returns the messages that are sent only once: that the source is connected to all builders
    /// of a roster, and the last report.
    fn poll_milestones(&mut self, now: Instant) -> Option<SourceOutput> {
        let core = self.paced.core_mut();
        if !self.is_ready && core.is_connected() {
            self.is_ready = true;
            if self.attendance.is_up() {
                return Some(said(Control { message: Some(Message::Ready(Ready {})) }));
            }
        }
        let is_asked = core.next_finish().is_some() && self.attendance.is_up();
        (is_asked && core.finish(now)).then(|| SourceOutput::Report(self.paced.report(0, None)))
    }

    /// Closes a lane whose builder sent an invalid answer.
    fn give_up_lane(&mut self, lane: LaneIndex, cause: &dyn Display, now: Instant) {
        self.handle_lane_down(lane, cause, now);
        self.lanes.close(lane);
    }
}

fn said(message: Control) -> SourceOutput {
    match message.message {
        Some(Message::Report(_)) => SourceOutput::Report(message),
        _ => SourceOutput::Send(message),
    }
}

/// Describes the fragments that are lost if this source ends.
fn held(core: &SourceCore) -> String {
    let (assigned, undecided) = (core.uncommitted(), core.backlog_fragments());
    format!(
        "what this source held is lost: {} of assigned events, and {undecided} of events that had no builder yet",
        counted(assigned, "fragment")
    )
}
