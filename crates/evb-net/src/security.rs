//! Admission: a key that all peers of a system share, and the keys derived from it
//! (docs/reference/protocol.md, section "Security"; docs/explanation/security.md names the
//! threats).
//!
//! The handshake is Noise NNpsk0 by [`snow`]. Control connections continue in Noise's transport
//! messages; lanes carry their bytes unencrypted, each parcel of a stream and each datagram with an
//! authentication tag ([`tag`]).

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

/// Means by which peers authenticate each other; all processes of a system must use the same means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// No authentication: every peer that can reach a port and speaks the protocol is trusted.
    #[default]
    None,
    /// Only peers that have the pre-shared key are trusted.
    Psk(PresharedKey),
}

impl Security {
    /// Returns true if peers must have a pre-shared key.
    pub const fn is_protected(&self) -> bool {
        matches!(self, Self::Psk(_))
    }
}

/// Error for received bytes that differ from the bytes that a peer with the key sent at that
/// position: forged, repeated, left out, or damaged in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the bytes do not carry the tag of a peer with our key: they were forged, replayed or damaged on the way"
)]
pub struct Forged;
