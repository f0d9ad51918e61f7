//! Admission: a key that all peers of a system share, and the keys derived from it
//! (docs/reference/protocol.md, section "Security"; docs/explanation/security.md names the
//! threats).
//!
//! The handshake is Noise NNpsk0 by [`snow`]. Control connections continue in Noise's transport
//! messages; lanes carry their bytes in the clear, each parcel of a stream and each datagram behind
//! a tag ([`tag`]).

mod key;
pub mod tag;
mod parcel;
mod session;
mod replay;
mod datagrams;

pub use datagrams::{DatagramTags, TagFault};
pub use key::{KEY_LENGTH, KeyError, PresharedKey};
pub use parcel::{MAX_CONTENT, Opener, PARCEL_OVERHEAD, Sealer};
pub use replay::{REPLAY_WINDOW, ReplayWindow, extend};
pub use session::{Keys, Session};

/// Means by which peers authenticate each other. It must be the same on all sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Every peer that reaches a port and knows the protocol is believed.
    #[default]
    None,
    /// Only peers that have the key are believed.
    Psk(PresharedKey),
}

impl Security {
    /// Returns true if peers need the key.
    pub const fn is_protected(&self) -> bool {
        matches!(self, Self::Psk(_))
    }
}

/// Bytes that differ from those that a peer with the key has sent in that place: forged, repeated,
/// left out, or damaged on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the bytes do not carry the tag of a peer with our key: they were forged, replayed or damaged on the way"
)]
pub struct Forged;
