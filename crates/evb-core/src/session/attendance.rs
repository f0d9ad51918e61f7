//! [`Attendance`]: the behaviour that sources and builders share from the first roster to the end
//! of the run.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Dial, Heard, Membership, MembershipEvent, MembershipOutput, Participation, ReportFacts, RoleFault,
    RunIdentity, RunOutcome, Start,
};
use crate::{
    id::{BuilderId, Incarnation, Peer, RunNumber, SourceId},
    time::{Instant, earlier},
    wire::control::{
        Begin, Control, Leaving, MAX_REASON, MalformedMessage, Message, Report, RunEnd, is_name,
    },
};

/// An action that the attendance requests from the driver.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum AttendanceOutput {
    /// Connect to the supervisor and send it the role's greeting.
    Dial(Dial),
    /// Close the connection to the supervisor, or stop the attempt to connect.
    Close,
    /// Send this message to the supervisor.
    Send(Control),
    /// The role's part in the run has ended.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// A role's part in its run: its membership, its messages to the supervisor, its final report, and
/// its outcome.
#[derive(Debug)]
pub struct Attendance {
    membership: Membership,
    identity: RunIdentity,
    incarnation: Incarnation,
    /// Names of the sources and builders that have one; empty until the run begins.
    names: BTreeMap<Peer, String>,
    /// Messages to the supervisor that come from the attendance itself, not from the role's state
    /// machine.
    messages: VecDeque<Control>,
    participation: Participation,
    /// The final counters; `None` until they are sent.
    report: Option<Report>,
    ended: Option<Result<RunOutcome, RoleFault>>,
    is_over: bool,
}

impl Attendance {
    /// Creates the attendance of a role that has joined and has its first roster.
    pub fn new(start: &Start, now: Instant) -> Self {
        let mut membership = start.membership.clone();
        membership.watch(now);
        Self {
            membership,
            identity: start.identity,
            incarnation: start.registered.incarnation,
            names: BTreeMap::new(),
            messages: VecDeque::new(),
            participation: Participation::default(),
            report: None,
            ended: None,
            is_over: false,
        }
    }

    /// Returns the run that the role belongs to.
    pub fn identity(&self) -> RunIdentity {
        self.identity
    }

    /// Returns the role's incarnation.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns true if the connection to the supervisor is up.
    pub fn is_up(&self) -> bool {
        self.membership.is_up()
    }

    /// Returns true if the role's part in the run has ended, even if [`Self::poll`] has not
    /// returned that yet.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if the role has sent its final report.
    pub fn has_reported(&self) -> bool {
        self.report.is_some()
    }

    /// Handles an event of the connection to the supervisor. If the role gives up the supervisor,
    /// `held` describes the data that is lost with the role.
    pub fn handle(
        &mut self,
        heard: Heard,
        now: Instant,
        held: impl FnOnce() -> String,
    ) -> Option<MembershipEvent> {
        let event = self.membership.handle(heard, now);
        self.take(event, held)
    }

    /// Handles the passage of time; `held` is used as in [`Self::handle`].
    pub fn handle_timeout(&mut self, now: Instant, held: impl FnOnce() -> String) -> Option<MembershipEvent> {
        let event = self.membership.handle_timeout(now);
        self.take(event, held)
    }

    /// Returns the time at which to call [`Self::handle_timeout`] and [`Self::poll`] without
    /// further input, or `report`, the time of the final report, if that is earlier.
    pub fn next_timeout(&self, report: Option<Instant>) -> Option<Instant> {
        earlier(self.membership.next_timeout(), report.filter(|_| self.is_up()))
    }

    /// Returns the next action; no more after [`AttendanceOutput::Ended`].
    pub fn poll(&mut self, now: Instant) -> Option<AttendanceOutput> {
        if let Some(message) = self.messages.pop_front() {
            return Some(AttendanceOutput::Send(message));
        }
        if let Some(ended) = self.ended.take() {
            return Some(AttendanceOutput::Ended(Box::new(ended)));
        }
        if self.is_over {
            return None;
        }
        self.membership.poll(now).map(|output| match output {
            MembershipOutput::Dial(dial) => AttendanceOutput::Dial(dial),
            MembershipOutput::Close => AttendanceOutput::Close,
        })
    }

    /// Queues a message for the supervisor; drops it if the connection is down.
    pub fn send(&mut self, message: Message) {
        if self.is_up() {
            self.messages.push_back(Control { message: Some(message) });
        }
    }

    /// Requests the end of the run from the supervisor, and repeats the request on each new
    /// connection.
    pub fn request_run_end(&mut self, cause: String) {
        self.messages.extend(self.membership.request_run_end(cause));
    }

    /// Notes that the role continues in another incarnation.
    pub fn renumber(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// Discards the final report and the time of participation, because the role begins again.
    pub fn forget(&mut self) {
        (self.participation, self.report) = (Participation::default(), None);
    }

    /// Returns a source or builder of the run with its name, if it has one.
    pub fn named(&self, peer: Peer) -> String {
        peer.named(self.names.get(&peer).map_or("", String::as_str))
    }

    /// Notes the number under which the run begins, and the names of its sources and builders.
    ///
    /// # Errors
    /// Returns an error if the message is of another run.
    pub fn begin(&mut self, begin: &Begin) -> Result<(), MalformedMessage> {
        if begin.run_id != self.identity.id {
            return Err(MalformedMessage { message: "Begin", problem: "it is of another run" });
        }
        self.membership.begin();
        self.identity.run = RunNumber::new(begin.run);
        let id = |id: u32| u16::try_from(id).ok();
        let source = |source: u32| id(source).map(|id| Peer::Source(SourceId::new(id)));
        let builder = |builder: u32| id(builder).map(|id| Peer::Builder(BuilderId::new(id)));
        let sources = begin.sources.iter().filter_map(|named| Some((source(named.id)?, &named.name)));
        let builders = begin.builders.iter().filter_map(|named| Some((builder(named.id)?, &named.name)));
        let names = sources.chain(builders).filter(|(_, name)| is_name(name));
        self.names = names.map(|(peer, name)| (peer, name.clone())).collect();
        Ok(())
    }

    /// Notes that events arrived.
    pub fn go_on(&mut self, now: Instant) {
        self.participation.go_on(now);
    }

    /// Notes that no more events will arrive.
    pub fn finish(&mut self, now: Instant) {
        self.participation.end(now);
    }

    /// Adds the facts to a report that the role's state machine does not know; keeps a copy of the
    /// final report.
    pub fn complete(&mut self, message: &mut Control, facts: ReportFacts) {
        if let Some(last) = facts.complete(message) {
            self.report = Some(last);
        }
    }

    /// Ends the role's part in the run with the supervisor's last message.
    pub fn end(&mut self, end: &RunEnd, now: Instant) {
        let outcome = RunOutcome::new(self.identity, end, self.report.take(), self.participation, now);
        self.messages.clear();
        self.ended = Some(Ok(outcome));
        self.is_over = true;
    }

    /// Ends the role's part in the run with a fault, and tells the supervisor the reason.
    pub fn fail(&mut self, fault: RoleFault) {
        if !self.is_over {
            self.messages.clear();
            self.send(leaving(&fault.to_string()));
            self.ended = Some(Err(fault));
            self.is_over = true;
        }
    }

    /// Looks at an event of the membership before it is returned to the role: a lost connection
    /// clears the queue of messages, and a fault ends the role. `held` describes the data that the
    /// role still has.
    fn take(
        &mut self,
        event: Result<Option<MembershipEvent>, RoleFault>,
        held: impl FnOnce() -> String,
    ) -> Option<MembershipEvent> {
        if self.is_over {
            return None;
        }
        match event {
            Ok(event) => {
                match event {
                    // Messages for the old connection are dropped; those that matter are sent again
                    // on the next connection.
                    Some(MembershipEvent::Lost) => self.messages.clear(),
                    Some(MembershipEvent::Registered(_)) => {
                        self.messages.extend(self.membership.stop_message())
                    }
                    Some(MembershipEvent::Message(_)) | None => {}
                }
                event
            }
            Err(fault) => {
                self.fail(fault.holding(held));
                None
            }
        }
    }
}

/// Returns the message by which a role tells the supervisor why it ends its part in the run.
pub fn leaving(reason: &str) -> Message {
    Message::Leaving(Leaving { reason: reason.chars().take(MAX_REASON).collect() })
}
