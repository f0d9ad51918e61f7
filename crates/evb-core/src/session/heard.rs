//! [`Heard`]: an event on a role's connection to its supervisor.

use crate::wire::control::{Control, Refusal, Welcome};

/// An event on a role's connection to its supervisor.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum Heard {
    /// The requested connection is up, and the supervisor admitted the role.
    Welcome(Welcome),
    /// The requested connection could not be opened.
    Failed(DialFailure),
    /// A message from the supervisor arrived.
    Message(Control),
    /// The connection broke, for the given reason. All messages that arrived before have been
    /// delivered.
    Closed(String),
    /// The bytes that arrived are not a control message; the text says why.
    Unreadable(String),
}

/// A failed attempt to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct DialFailure {
    /// Kind of the fault, which decides whether another attempt makes sense.
    pub fault: DialFault,
    /// Description of the fault.
    pub words: String,
}

/// The kind of fault for which an attempt to connect failed.
#[derive(Clone, Debug, PartialEq)]
pub enum DialFault {
    /// Nothing answers at the peer's address.
    Unreachable,
    /// The peer's name cannot be resolved, or the local address to send from does not exist.
    NoAddress,
    /// The other side answered, but the handshake failed.
    Handshake {
        /// True if the keys or the protocol versions of both sides seem not to match.
        is_lasting: bool,
    },
    /// An evb peer refused the connection.
    Refused(Refusal),
}
