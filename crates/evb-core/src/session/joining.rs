//! [`Joining`]: the behaviour of a role from its first attempt to connect to the supervisor until
//! it has a roster.

#[cfg(test)]
mod tests;

use super::{
    Dial, Heard, Member, Membership, MembershipEvent, MembershipOutput, Participation, Registered, RoleFault,
    RunIdentity, RunOutcome,
};
use crate::{
    id::EventId,
    time::Instant,
    wire::control::{Control, Message, Roster},
};

/// An action that a joining role requests from the driver.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum JoiningOutput {
    /// Connect to the supervisor and send it the role's greeting.
    Dial(Dial),
    /// Close the connection to the supervisor, or stop the attempt to connect.
    Close,
    /// Send this message to the supervisor.
    Send(Control),
    /// The supervisor admitted the role. The role's part in the run begins with the given event id,
    /// which the driver may pass on to the user.
    Joined(EventId),
    /// The role has a roster. The role's own state machine continues after joining, and owns the
    /// connection to the supervisor.
    Begin(Box<Start>),
    /// The run ended before the role had a roster, or the role cannot join.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// The state from which a role's own state machine continues after joining.
#[derive(Clone, Debug)]
pub struct Start {
    /// Membership of the role in the run.
    pub membership: Membership,
    /// The run that the role belongs to.
    pub identity: RunIdentity,
    /// The latest registration of the role.
    pub registered: Registered,
    /// The first roster.
    pub roster: Roster,
}

/// State machine of a role that is joining a run.
///
/// After all inputs that share one `now`, call `poll` until it returns `None`.
#[derive(Clone, Debug)]
pub struct Joining {
    membership: Membership,
    registered: Option<Registered>,
    /// A message to the supervisor that is to be sent.
    message: Option<Control>,
    joined: Option<EventId>,
    start: Option<Box<Start>>,
    ended: Option<Result<RunOutcome, RoleFault>>,
}

impl Joining {
    /// Creates a role that tries to join from `now` on.
    pub fn new(member: Member, now: Instant) -> Self {
        let membership = Membership::new(member, now);
        Self { membership, registered: None, message: None, joined: None, start: None, ended: None }
    }

    /// Handles an event of the connection to the supervisor.
    pub fn handle_supervisor(&mut self, heard: Heard, now: Instant) {
        let event = self.membership.handle(heard, now);
        self.take(event, now);
    }

    /// Requests the end of the run from the supervisor, and repeats the request on each new
    /// connection, also after joining.
    pub fn request_run_end(&mut self, cause: String) {
        self.message = self.membership.request_run_end(cause);
    }

    /// Handles the passage of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let event = self.membership.handle_timeout(now);
        self.take(event, now);
    }

    /// Returns the time at which to call [`Self::handle_timeout`] and [`Self::poll`] without
    /// further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.membership.next_timeout()
    }

    /// Returns the next action; no more after [`JoiningOutput::Begin`] or [`JoiningOutput::Ended`].
    pub fn poll(&mut self, now: Instant) -> Option<JoiningOutput> {
        if let Some(first) = self.joined.take() {
            return Some(JoiningOutput::Joined(first));
        }
        if let Some(message) = self.message.take() {
            return Some(JoiningOutput::Send(message));
        }
        if let Some(start) = self.start.take() {
            return Some(JoiningOutput::Begin(start));
        }
        if let Some(ended) = self.ended.take() {
            return Some(JoiningOutput::Ended(Box::new(ended)));
        }
        self.membership.poll(now).map(|output| match output {
            MembershipOutput::Dial(dial) => JoiningOutput::Dial(dial),
            MembershipOutput::Close => JoiningOutput::Close,
        })
    }

    /// Handles an event of the membership while the role joins a run.
    fn take(&mut self, event: Result<Option<MembershipEvent>, RoleFault>, now: Instant) {
        match event {
            Ok(Some(MembershipEvent::Registered(registered))) => {
                if self.registered.is_none() {
                    self.joined = Some(EventId::new(registered.parameters.decided.saturating_add(1)));
                }
                self.registered = Some(registered);
                self.message = self.membership.stop_message();
            }
            Ok(Some(MembershipEvent::Message(message))) => self.handle_message(message, now),
            Ok(Some(MembershipEvent::Lost) | None) => {}
            Err(fault) => {
                // The supervisor admitted the role, so it has joined, even if the supervisor's
                // parameters are invalid.
                if self.registered.is_none() && self.membership.identity().is_some() {
                    self.joined = Some(EventId::FIRST);
                }
                self.ended =
                    Some(Err(fault.holding(|| "no event was built yet, so nothing is lost".to_owned())));
            }
        }
    }

    /// Handles a message of the supervisor: the first roster starts the role, and the end of the
    /// run ends it.
    fn handle_message(&mut self, message: Control, now: Instant) {
        let (Some(identity), Some(registered)) = (self.membership.identity(), &self.registered) else {
            return;
        };
        match message.message {
            Some(Message::Roster(roster)) => {
                self.membership.watch(now);
                let (membership, registered) = (self.membership.clone(), registered.clone());
                self.start = Some(Box::new(Start { membership, identity, registered, roster }));
            }
            Some(Message::RunEnd(end)) => {
                let outcome = RunOutcome::new(identity, &end, None, Participation::default(), now);
                self.ended = Some(Ok(outcome));
            }
            // Before the first roster, the supervisor sends a role no other messages.
            _ => {}
        }
    }
}
