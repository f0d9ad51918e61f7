//! [`Heard`]: an event of a role's connection to its supervisor.

use crate::wire::control::{Control, Refusal, Welcome};

/// An event of a role's connection to its supervisor.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum Heard {
    /// A dialed connection is up, and the supervisor admitted the role.
    Welcome(Welcome),
    /// A dialed connection failed.
    Failed(DialFailure),
    /// A message arrived.
    Message(Control),
    /// The connection broke, for this reason. Everything that arrived before has been delivered.
    Closed(String),
    /// The bytes that arrived are not a control message, for this reason.
    Unreadable(String),
}

/// A failed attempt to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct DialFailure {
    /// The kind of fault, which decides about another attempt.
    pub fault: DialFault,
    /// The fault in words.
    pub words: String,
}

/// The kind of fault that an attempt to connect failed with.
#[derive(Clone, Debug, PartialEq)]
pub enum DialFault {
    /// Nothing answers at the address.
    Unreachable,
    /// The name, or the local address to send from, is not available.
    NoAddress,
    /// Something answered, but the handshake failed.
    Handshake {
        /// True if the keys seem not to match.
        is_about_keys: bool,
    },
    /// An evb peer refused the connection.
    Refused(Refusal),
}
