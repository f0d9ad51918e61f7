//! [`Joining`]: from a role's first call to the supervisor until the run has a roster.

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

/// An action that a role that joins asks for.
#[derive(Debug)]
pub enum JoiningOutput {
    /// Connect to the supervisor and greet it.
    Dial(Dial),
    /// Drop the connection to the supervisor, or the attempt at one.
    Close,
    /// The role was admitted. Its part in the run begins with that event; the caller may be told.
    Joined(EventId),
    /// The run has a roster: the role's machine takes over, including the connection.
    Begin(Box<Start>),
    /// The run ended before it began for this role, or the role cannot go on.
    Ended(Box<Result<RunOutcome, RoleFault>>),
}

/// The state that a role's machine begins with.
#[derive(Clone, Debug)]
pub struct Start {
    /// The role's place in the run.
    pub membership: Membership,
    /// The run that it belongs to.
    pub identity: RunIdentity,
    /// The registration that is valid.
    pub registered: Registered,
    /// The first roster.
    pub roster: Roster,
}

/// A role on its way into a run.
///
/// Law: after inputs that share one `now`, call `poll` until `None`.
#[derive(Clone, Debug)]
pub struct Joining {
    membership: Membership,
    registered: Option<Registered>,
    joined: Option<EventId>,
    start: Option<Box<Start>>,
    ended: Option<Result<RunOutcome, RoleFault>>,
}

impl Joining {
    /// Creates a role that tries to join from `now` on.
    pub fn new(member: Member, now: Instant) -> Self {
        let membership = Membership::new(member, now);
        Self { membership, registered: None, joined: None, start: None, ended: None }
    }

    /// Handles an event of the connection to the supervisor.
    pub fn handle_supervisor(&mut self, heard: Heard, now: Instant) {
        let event = self.membership.handle(heard, now);
        self.take(event, now);
    }

    /// Handles the passage of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let event = self.membership.handle_timeout(now);
        self.take(event, now);
    }

    /// Returns when [`Self::handle_timeout`] or [`Self::poll`] has something to do without input.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.membership.next_timeout()
    }

    /// Returns the next action; nothing more after [`JoiningOutput::Begin`] or
    /// [`JoiningOutput::Ended`].
    pub fn poll(&mut self, now: Instant) -> Option<JoiningOutput> {
        if let Some(first) = self.joined.take() {
            return Some(JoiningOutput::Joined(first));
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

    fn take(&mut self, event: Result<Option<MembershipEvent>, RoleFault>, now: Instant) {
        match event {
            Ok(Some(MembershipEvent::Registered(registered))) => {
                if self.registered.is_none() {
                    self.joined = Some(EventId::new(registered.parameters.decided.saturating_add(1)));
                }
                self.registered = Some(registered);
            }
            Ok(Some(MembershipEvent::Message(message))) => self.handle_message(message, now),
            Ok(Some(MembershipEvent::Lost) | None) => {}
            Err(fault) => {
                // A role that was admitted has joined, even if what it was told makes no sense.
                if self.registered.is_none() && self.membership.identity().is_some() {
                    self.joined = Some(EventId::FIRST);
                }
                self.ended = Some(Err(fault.holding(|| "nothing is built yet".to_owned())));
            }
        }
    }

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
            // The supervisor sends a role nothing else before the first roster.
            _ => {}
        }
    }
}
