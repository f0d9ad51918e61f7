//! [`Attendance`]: the part in a run that sources and builders share, from the first roster to the
//! end of the run.

use std::collections::VecDeque;

use super::{
    Dial, Heard, Membership, MembershipEvent, MembershipOutput, Participation, ReportFacts, RoleFault,
    RunIdentity, RunOutcome, Start,
};
use crate::{
    id::Incarnation,
    time::{Instant, earlier},
    wire::control::{Control, Message, Report, RunEnd},
};

/// An action that a role's attendance asks for.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum AttendanceOutput {
    /// Connect to the supervisor and greet it.
    Dial(Dial),
    /// Drop the connection to the supervisor, or the attempt at one.
    Close,
    /// Send this message to the supervisor.
    Send(Control),
    /// The role's part is over.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// A role's part in its run: its membership, its messages, its last report, and its outcome.
#[derive(Debug)]
pub struct Attendance {
    membership: Membership,
    identity: RunIdentity,
    incarnation: Incarnation,
    /// Messages of the attendance itself, in addition to those of the role's machine.
    messages: VecDeque<Control>,
    participation: Participation,
    /// The final counters, once they are sent.
    report: Option<Report>,
    ended: Option<Result<RunOutcome, RoleFault>>,
    is_over: bool,
}

impl Attendance {
    /// Takes over from joining.
    pub fn new(start: &Start, now: Instant) -> Self {
        let mut membership = start.membership.clone();
        membership.watch(now);
        Self {
            membership,
            identity: start.identity,
            incarnation: start.registered.incarnation,
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

    /// Returns true if there is a connection to the supervisor.
    pub fn is_up(&self) -> bool {
        self.membership.is_up()
    }

    /// Returns true if the role's part is over, even if [`Self::poll`] has not returned that yet.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if the role has sent its last report.
    pub fn has_reported(&self) -> bool {
        self.report.is_some()
    }

    /// Handles an event of the connection; `held` describes what is lost with the role if it is
    /// abandoned.
    pub fn handle(
        &mut self,
        heard: Heard,
        now: Instant,
        held: impl FnOnce() -> String,
    ) -> Option<MembershipEvent> {
        let event = self.membership.handle(heard, now);
        self.take(event, held)
    }

    /// Handles the passage of time; `held` as for [`Self::handle`].
    pub fn handle_timeout(&mut self, now: Instant, held: impl FnOnce() -> String) -> Option<MembershipEvent> {
        let event = self.membership.handle_timeout(now);
        self.take(event, held)
    }

    /// Returns when there is something to do without further input; `report` is when the last
    /// report is due.
    pub fn next_timeout(&self, report: Option<Instant>) -> Option<Instant> {
        earlier(self.membership.next_timeout(), report.filter(|_| self.is_up()))
    }

    /// Returns the next action; nothing more after [`AttendanceOutput::Ended`].
    pub fn poll(&mut self, now: Instant) -> Option<AttendanceOutput> {
        if let Some(ended) = self.ended.take() {
            self.messages.clear();
            return Some(AttendanceOutput::Ended(Box::new(ended)));
        }
        if let Some(message) = self.messages.pop_front() {
            return Some(AttendanceOutput::Send(message));
        }
        if self.is_over {
            return None;
        }
        self.membership.poll(now).map(|output| match output {
            MembershipOutput::Dial(dial) => AttendanceOutput::Dial(dial),
            MembershipOutput::Close => AttendanceOutput::Close,
        })
    }

    /// Sends a message to the supervisor, unless there is no connection.
    pub fn send(&mut self, message: Message) {
        if self.is_up() {
            self.messages.push_back(Control { message: Some(message) });
        }
    }

    /// Asks the supervisor to end the run, and again on each new connection.
    pub fn request_run_end(&mut self, cause: String) {
        self.messages.extend(self.membership.request_run_end(cause));
    }

    /// Lets the role go on in another incarnation.
    pub fn renumber(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// Forgets what was done and reported so far.
    pub fn forget(&mut self) {
        (self.participation, self.report) = (Participation::default(), None);
    }

    /// Notes that events arrived.
    pub fn go_on(&mut self, now: Instant) {
        self.participation.go_on(now);
    }

    /// Notes that no more events will arrive.
    pub fn finish(&mut self, now: Instant) {
        self.participation.end(now);
    }

    /// Adds facts to a report that the role's machine does not know; remembers the final one.
    pub fn complete(&mut self, message: &mut Control, facts: ReportFacts) {
        if let Some(last) = facts.complete(message) {
            self.report = Some(last);
        }
    }

    /// Ends the role's part with the supervisor's last message.
    pub fn end(&mut self, end: &RunEnd, now: Instant) {
        let outcome = RunOutcome::new(self.identity, end, self.report.take(), self.participation, now);
        self.ended = Some(Ok(outcome));
        self.is_over = true;
    }

    /// Ends the role's part with a fault.
    pub fn fail(&mut self, fault: RoleFault) {
        if !self.is_over {
            self.ended = Some(Err(fault));
            self.is_over = true;
        }
    }

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
                    // Messages that the old connection did not carry are sent again where it
                    // matters.
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
