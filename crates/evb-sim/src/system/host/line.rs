//! [`Line`]: a connection that a role dialed, to the supervisor or to a lane's builder.

use core::time::Duration;

use evb_core::{
    session::{Dial, DialFailure, DialFault, HANDSHAKE_TIMEOUT, Heard},
    time::Instant,
    wire::control::{Control, HelloReply, Refusal, Reply, Welcome},
};

use super::Surroundings;
use crate::{
    stream::{read_control, write_control},
    system::{
        failure::Failure,
        greeting::{read_greeting, write_greeting},
        network::{ConnectionKind, EndId},
        scenario,
    },
};

/// A connection on which the greeting has been sent and the answer is awaited.
#[derive(Debug)]
pub(crate) struct Greeted {
    pub(crate) end: EndId,
    pub(crate) dial: Dial,
    since: Instant,
    limit: Duration,
}

/// The answer to a greeting.
#[derive(Debug)]
pub(crate) enum Answer {
    Welcome(Welcome),
    Refusal(Refusal),
    /// There is no answer: the peer has closed the connection, or the time limit has passed.
    Failed(&'static str),
}

impl Greeted {
    /// Opens a connection and sends the greeting.
    pub(crate) fn dial(
        dial: Dial,
        kind: ConnectionKind,
        limit: Duration,
        around: &mut Surroundings<'_>,
    ) -> Self {
        let to = scenario::node_of_address(&dial.address).unwrap_or_default();
        let end = around.network.dial(around.node, to, kind);
        write_greeting(kind, &*dial.hello, around.network.outgoing(end));
        around.network.flush(end);
        Self { end, dial, since: around.now(), limit }
    }

    /// Returns the peer's answer, once it has arrived or can no longer arrive.
    pub(crate) fn poll(
        &self,
        kind: ConnectionKind,
        around: &mut Surroundings<'_>,
    ) -> Result<Option<Answer>, Failure> {
        let reply: Option<HelloReply> =
            read_greeting(kind, around.network.incoming(self.end)).map_err(Failure::protocol)?;
        Ok(match reply.and_then(|reply| reply.reply) {
            Some(Reply::Welcome(welcome)) => Some(Answer::Welcome(welcome)),
            Some(Reply::Refusal(refusal)) => Some(Answer::Refusal(refusal)),
            None if around.network.is_ended(self.end) => Some(Answer::Failed("it was closed")),
            None if around.now().since(self.since) >= self.limit => {
                Some(Answer::Failed("there is no answer"))
            }
            None => None,
        })
    }

    pub(crate) fn next_timeout(&self) -> Instant {
        self.since + self.limit
    }
}

/// The connection of a source's or builder's process to the supervisor.
#[derive(Debug, Default)]
pub(crate) enum Line {
    #[default]
    None,
    Greeted(Box<Greeted>),
    Up(EndId),
}

impl Line {
    pub(crate) fn dial(&mut self, dial: Dial, around: &mut Surroundings<'_>) {
        self.close(around);
        let greeted = Greeted::dial(dial, ConnectionKind::Control, HANDSHAKE_TIMEOUT, around);
        *self = Self::Greeted(Box::new(greeted));
    }

    pub(crate) fn close(&mut self, around: &mut Surroundings<'_>) {
        match core::mem::take(self) {
            Self::Greeted(greeted) => around.network.abort(greeted.end),
            Self::Up(end) => around.network.close(end),
            Self::None => {}
        }
    }

    /// Returns the next message from the supervisor, or the next change of the connection.
    pub(crate) fn poll(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Heard>, Failure> {
        let failed = |fault, words: &str| Heard::Failed(DialFailure { fault, words: words.to_owned() });
        match self {
            Self::None => Ok(None),
            Self::Greeted(greeted) => {
                let end = greeted.end;
                let Some(answer) = greeted.poll(ConnectionKind::Control, around)? else { return Ok(None) };
                let heard = match answer {
                    Answer::Welcome(welcome) => {
                        *self = Self::Up(end);
                        return Ok(Some(Heard::Welcome(welcome)));
                    }
                    Answer::Refusal(refusal) => {
                        let words = refusal.detail.clone();
                        failed(DialFault::Refused(refusal), &words)
                    }
                    Answer::Failed(words) => failed(DialFault::Unreachable, words),
                };
                self.close(around);
                Ok(Some(heard))
            }
            Self::Up(end) => {
                let end = *end;
                if let Some(message) =
                    read_control(around.network.incoming(end)).map_err(Failure::protocol)?
                {
                    return Ok(Some(Heard::Message(Control { message: Some(message) })));
                }
                if around.network.is_ended(end) {
                    self.close(around);
                    return Ok(Some(Heard::Closed("it was closed".to_owned())));
                }
                Ok(None)
            }
        }
    }

    /// Sends a message to the supervisor, or discards it if there is no connection. Returns the
    /// number of bytes sent.
    pub(crate) fn send(&self, message: &Control, around: &mut Surroundings<'_>) -> u64 {
        let Self::Up(end) = self else { return 0 };
        let outgoing = around.network.outgoing(*end);
        let before = outgoing.len();
        write_control(message, outgoing);
        let written = outgoing.len() - before;
        around.network.flush(*end);
        written as u64
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Greeted(greeted) => Some(greeted.next_timeout()),
            Self::None | Self::Up(_) => None,
        }
    }
}
