//! Admission: a key that all peers of a system share, and the keys derived from it
//! (docs/reference/protocol.md, section "Security"; docs/explanation/security.md names the
//! threats).
//!
//! The handshake is Noise NNpsk0 by [`snow`]. Control connections continue in Noise's transport
//! messages; lanes carry their bytes in the clear, each parcel of a stream and each datagram behind
//! a tag ([`tag`]).

mod nonce;
mod lane_keys;
#[cfg(not(feature = "security"))]
mod absent;
#[cfg(feature = "security")]
mod key;
#[cfg(feature = "security")]
mod tag;
mod parcel;
#[cfg(feature = "security")]
mod session;
mod replay;
mod datagrams;

pub use datagrams::{DatagramTags, TagFault};
pub use lane_keys::Keys;
pub use nonce::{Nonce, TAG_LENGTH};
pub use parcel::{MAX_CONTENT, Opener, PARCEL_OVERHEAD, Sealer};
pub use replay::{REPLAY_WINDOW, ReplayWindow, extend};

#[cfg(not(feature = "security"))]
pub use absent::{CipherError, LaneKey, Session, TagKey, Tagging, is_equal};
#[cfg(feature = "security")]
pub use key::{KEY_LENGTH, KeyError, PresharedKey};
#[cfg(feature = "security")]
pub use session::Session;
#[cfg(feature = "security")]
pub use tag::{TagKey, Tagging, is_equal};

use std::net::IpAddr;

/// Reason why a cipher refuses to work.
#[cfg(feature = "security")]
pub type CipherError = snow::Error;

/// Key of one direction of a lane.
#[cfg(feature = "security")]
pub type LaneKey = zeroize::Zeroizing<[u8; 32]>;

/// Means by which peers authenticate each other. It must be the same on all sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Every peer that reaches a port and knows the protocol is believed.
    #[default]
    None,
    /// Only peers that have the key are believed.
    #[cfg(feature = "security")]
    Psk(PresharedKey),
}

impl Security {
    /// Returns true if peers need the key.
    pub const fn is_protected(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns true if a connection with that address is allowed. A build without the feature
    /// `security` cannot protect connections, so it keeps them within the host.
    pub fn allows(&self, address: IpAddr) -> bool {
        cfg!(feature = "security") || address.to_canonical().is_loopback()
    }
}

/// Bytes that differ from those that a peer with the key has sent in that place: forged, repeated,
/// left out, or damaged on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the bytes do not carry the tag of a peer with our key: they were forged, replayed or damaged on the way"
)]
pub struct Forged;
