//! Who may come in: a key that all peers of a system share, and what is made of it (docs/reference/protocol.md,
//! section "Security"; docs/explanation/security.md says against what).
//!
//! The handshake is Noise NNpsk0 by [`snow`]. Control connections go on in Noise's transport messages; lanes carry their bytes
//! in the clear, each parcel of a stream and each datagram behind a tag ([`tag`]).

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

/// How peers make sure of each other. The same on all sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Whoever reaches a port and knows the protocol is believed.
    #[default]
    None,
    /// Who has the key is believed, and nobody else.
    Psk(PresharedKey),
}

impl Security {
    /// Whether peers need the key.
    pub const fn is_protected(&self) -> bool {
        matches!(self, Self::Psk(_))
    }
}

/// Bytes that are not what a peer with the key has sent, in that place: forged, repeated, left out, or damaged on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes that do not carry the tag of a peer with our key: forged, replayed or damaged on the way")]
pub struct Forged;
