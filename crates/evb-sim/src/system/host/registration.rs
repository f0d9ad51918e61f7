//! [`Registration`]: a process's place in the run, over all the connections that it takes.
//!
//! To be replaced by the roles' own machines: until they have this logic, it stands here a second time
//! (`src/role/registration.rs`), with the same times.

use core::time::Duration;

use evb_core::{
    id::{Epoch, Incarnation, RunNumber},
    time::{Instant, earlier},
    wire::control::{
        Control, Hello, HelloReply, RunParameters, Welcome, control::Message, hello_reply::Reply,
        refusal::Reason,
    },
};

use super::Surroundings;
use crate::{
    stream::{read_control, write_control},
    system::{
        failure::Failure,
        greeting::{read_greeting, write_greeting},
        network::{ConnectionKind, EndId},
    },
};

/// A supervisor that says nothing for so long is not there.
const SILENCE: Duration = Duration::from_secs(2);
/// How long one try to register may take.
const TRY: Duration = Duration::from_secs(2);
/// How long after a try the next one begins.
const RETRY: Duration = Duration::from_millis(100);
/// How long to try, where the supervisor does not say.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the first registration is tried.
const FIRST: Duration = Duration::from_secs(30);

/// What comes from the supervisor.
#[derive(Debug)]
pub(crate) enum Heard {
    Message(Message),
    /// The connection is gone: go on without.
    Lost,
    /// There is a connection, the first or another one.
    Registered(Registered),
    /// There will be none.
    Abandoned(String),
}

/// A registration, and when the greeting that led to it was sent.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) greeted: Instant,
    pub(crate) incarnation: Incarnation,
    pub(crate) parameters: RunParameters,
}

/// Which life of which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunIdentity {
    pub(crate) epoch: Epoch,
    pub(crate) run: RunNumber,
}

#[derive(Debug)]
pub(crate) struct Registration {
    hello: Hello,
    identity: Option<RunIdentity>,
    patience: Duration,
    is_watched: bool,
    state: State,
    /// Without a connection since.
    since: Instant,
}

#[derive(Debug)]
enum State {
    Waiting(Instant),
    Trying { end: EndId, greeted: Instant },
    Up { end: EndId, heard: Instant },
}

impl Registration {
    pub(crate) fn new(hello: Hello, now: Instant) -> Self {
        let state = State::Waiting(now);
        Self { hello, identity: None, patience: FIRST, is_watched: false, state, since: now }
    }

    /// Which run it is, once that is known.
    pub(crate) fn identity(&self) -> Option<RunIdentity> {
        self.identity
    }

    /// From now on, the supervisor is to be heard regularly.
    pub(crate) fn watch(&mut self, now: Instant) {
        self.is_watched = true;
        if let State::Up { heard, .. } = &mut self.state {
            *heard = now;
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// The next that comes from the supervisor.
    pub(crate) fn poll(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Heard>, Failure> {
        let now = around.now();
        match self.state {
            State::Waiting(_) if now.since(self.since) >= self.patience => {
                Ok(Some(Heard::Abandoned("nobody answers".to_owned())))
            }
            State::Waiting(until) if until <= now => {
                let end = around.network.dial(around.node, 0, ConnectionKind::Control);
                write_greeting(ConnectionKind::Control, &self.hello, around.network.outgoing(end));
                around.network.flush(end);
                self.state = State::Trying { end, greeted: now };
                Ok(None)
            }
            State::Waiting(_) => Ok(None),
            State::Trying { end, greeted } => self.poll_try(around, end, greeted),
            State::Up { end, heard } => self.poll_link(around, end, heard),
        }
    }

    fn poll_try(
        &mut self,
        around: &mut Surroundings<'_>,
        end: EndId,
        greeted: Instant,
    ) -> Result<Option<Heard>, Failure> {
        let now = around.now();
        let reply: Option<HelloReply> = read_greeting(ConnectionKind::Control, around.network.incoming(end))
            .map_err(Failure::protocol)?;
        let over = around.network.is_ended(end) || now.since(greeted) >= TRY;
        match reply.and_then(|reply| reply.reply) {
            Some(Reply::Welcome(welcome)) => {
                self.state = State::Up { end, heard: now };
                self.welcomed(&welcome, greeted)
            }
            Some(Reply::Refusal(refusal)) if refusal.reason() != Reason::DuplicateId => {
                around.network.close(end);
                Ok(Some(Heard::Abandoned(refusal.detail)))
            }
            Some(Reply::Refusal(_)) => {
                around.network.close(end);
                self.state = State::Waiting(now + RETRY);
                Ok(None)
            }
            None if over => {
                around.network.abort(end);
                self.state = State::Waiting(now + RETRY);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn welcomed(&mut self, welcome: &Welcome, greeted: Instant) -> Result<Option<Heard>, Failure> {
        let identity = RunIdentity { epoch: Epoch::new(welcome.epoch), run: RunNumber::new(welcome.run) };
        if self.identity.is_some_and(|known| known != identity) {
            return Ok(Some(Heard::Abandoned("another supervisor leads another run".to_owned())));
        }
        let parameters = welcome.checked_parameters().map_err(Failure::protocol)?;
        self.identity = Some(identity);
        (self.hello.epoch, self.hello.run) = (welcome.epoch, welcome.run);
        self.hello.incarnation = welcome.incarnation;
        self.patience = match parameters.patience_ns {
            0 => PATIENCE,
            nanos => Duration::from_nanos(nanos),
        };
        let incarnation = Incarnation::new(welcome.incarnation);
        Ok(Some(Heard::Registered(Registered { greeted, incarnation, parameters })))
    }

    fn poll_link(
        &mut self,
        around: &mut Surroundings<'_>,
        end: EndId,
        heard: Instant,
    ) -> Result<Option<Heard>, Failure> {
        let now = around.now();
        if let Some(message) = read_control(around.network.incoming(end)).map_err(Failure::protocol)? {
            self.state = State::Up { end, heard: now };
            return Ok(Some(Heard::Message(message)));
        }
        if around.network.is_ended(end) || (self.is_watched && now.since(heard) >= SILENCE) {
            around.network.close(end);
            (self.state, self.since) = (State::Waiting(now), now);
            return Ok(Some(Heard::Lost));
        }
        Ok(None)
    }

    /// Says something; without a connection it is not said. Returns how many bytes went.
    pub(crate) fn send(&mut self, around: &mut Surroundings<'_>, message: &Control) -> u64 {
        let State::Up { end, .. } = self.state else { return 0 };
        let outgoing = around.network.outgoing(end);
        let before = outgoing.len();
        write_control(message, outgoing);
        let written = outgoing.len() - before;
        around.network.flush(end);
        written as u64
    }

    /// The process is done.
    pub(crate) fn close(&self, around: &mut Surroundings<'_>) {
        if let State::Up { end, .. } | State::Trying { end, .. } = self.state {
            around.network.close(end);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => earlier(Some(until), Some(self.since + self.patience)),
            State::Trying { greeted, .. } => Some(greeted + TRY),
            State::Up { heard, .. } => self.is_watched.then(|| heard + SILENCE),
        }
    }
}
