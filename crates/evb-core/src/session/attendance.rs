//! [`Attendance`]: what source and builder do alike in a run, from the first roster to the last word.

use std::collections::VecDeque;

use super::{
    Dial, Heard, Membership, MembershipOutput, News, Participation, ReportFacts, RoleFault, RunIdentity,
    RunOutcome, Start,
};
use crate::{
    id::Incarnation,
    time::{Instant, earlier},
    wire::control::{Control, Message, Report, RunEnd},
};

/// What a role's attendance wants done.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum AttendanceOutput {
    /// Connect to the supervisor and greet it.
    Dial(Dial),
    /// Drop the connection to the supervisor, or the attempt at one.
    Close,
    /// To the supervisor.
    Send(Control),
    /// The role's part is over.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// A role's part in its run: its membership, what it has to say, its last report, and how it ended.
#[derive(Debug)]
pub struct Attendance {
    membership: Membership,
    identity: RunIdentity,
    incarnation: Incarnation,
    /// Messages of its own, beside those of the role's machine.
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

    /// Which run this is.
    pub fn identity(&self) -> RunIdentity {
        self.identity
    }

    /// Which life of the role this is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns whether there is a connection to the supervisor.
    pub fn is_up(&self) -> bool {
        self.membership.is_up()
    }

    /// Returns whether the role's part is over, whether or not [`Self::poll`] has said so.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether the role has given its last report.
    pub fn has_reported(&self) -> bool {
        self.report.is_some()
    }

    /// Takes in what came of the connection; `held` tells what is lost with the role if it is abandoned.
    pub fn handle(&mut self, heard: Heard, now: Instant, held: impl FnOnce() -> String) -> Option<News> {
        let news = self.membership.handle(heard, now);
        self.take(news, held)
    }

    /// Takes in that time passed; `held` as for [`Self::handle`].
    pub fn handle_timeout(&mut self, now: Instant, held: impl FnOnce() -> String) -> Option<News> {
        let news = self.membership.handle_timeout(now);
        self.take(news, held)
    }

    /// Returns when something is to be done without further input; `report` is when the last report is due.
    pub fn next_timeout(&self, report: Option<Instant>) -> Option<Instant> {
        earlier(self.membership.next_timeout(), report.filter(|_| self.is_up()))
    }

    /// Returns what is to be done next; nothing more after [`AttendanceOutput::Ended`].
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

    /// Says something to the supervisor, unless there is no connection.
    pub fn send(&mut self, message: Message) {
        if self.is_up() {
            self.messages.push_back(Control { message: Some(message) });
        }
    }

    /// Has the supervisor end the run; asked again on each new connection.
    pub fn request_run_end(&mut self, cause: String) {
        self.messages.extend(self.membership.request_run_end(cause));
    }

    /// The role goes on in another life.
    pub fn renumber(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// What was done and reported so far counts no more.
    pub fn forget(&mut self) {
        (self.participation, self.report) = (Participation::default(), None);
    }

    /// Events came.
    pub fn go_on(&mut self, now: Instant) {
        self.participation.go_on(now);
    }

    /// No more events come.
    pub fn finish(&mut self, now: Instant) {
        self.participation.end(now);
    }

    /// Adds to a report what the role's machine does not know; remembers the last one.
    pub fn complete(&mut self, message: &mut Control, facts: ReportFacts) {
        if let Some(last) = facts.complete(message) {
            self.report = Some(last);
        }
    }

    /// The supervisor said its last word.
    pub fn end(&mut self, end: &RunEnd, now: Instant) {
        let outcome = RunOutcome::new(self.identity, end, self.report.take(), self.participation, now);
        self.ended = Some(Ok(outcome));
        self.is_over = true;
    }

    /// The role cannot go on.
    pub fn fail(&mut self, fault: RoleFault) {
        if !self.is_over {
            self.ended = Some(Err(fault));
            self.is_over = true;
        }
    }

    fn take(&mut self, news: Result<Option<News>, RoleFault>, held: impl FnOnce() -> String) -> Option<News> {
        if self.is_over {
            return None;
        }
        match news {
            Ok(news) => {
                match news {
                    // What was not said is said again where it matters.
                    Some(News::Lost) => self.messages.clear(),
                    Some(News::Registered(_)) => self.messages.extend(self.membership.stop_message()),
                    Some(News::Message(_)) | None => {}
                }
                news
            }
            Err(fault) => {
                self.fail(fault.holding(held));
                None
            }
        }
    }
}
