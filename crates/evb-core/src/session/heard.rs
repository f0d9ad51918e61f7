//! [`Heard`]: what comes of a role's connection to its supervisor.

use crate::wire::control::{Control, Refusal, Welcome};

/// What comes of a role's connection to its supervisor.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum Heard {
    /// A dialed connection stands, and the supervisor let the role in.
    Welcome(Welcome),
    /// A dialed connection did not come about.
    Failed(DialFailure),
    /// A message.
    Message(Control),
    /// The connection broke, in words. Whatever came before it was heard.
    Closed(String),
    /// What came is no control message, in words.
    Unreadable(String),
}

/// Why a connection did not come about.
#[derive(Clone, Debug, PartialEq)]
pub struct DialFailure {
    /// What it means for another try.
    pub fault: DialFault,
    /// The same for people.
    pub words: String,
}

/// What a failed connection means for another try.
#[derive(Clone, Debug, PartialEq)]
pub enum DialFault {
    /// Nobody answers there.
    Unreachable,
    /// The name, or the local address to send from, is not to be had.
    NoAddress,
    /// Somebody answered, and no handshake came about.
    Handshake {
        /// Whether keys seem not to fit.
        is_about_keys: bool,
    },
    /// An evb peer answered with no.
    Refused(Refusal),
}
