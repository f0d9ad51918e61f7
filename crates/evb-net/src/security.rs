//! Admission: a key that all peers of a system share, and the keys derived from it
//! (docs/reference/protocol.md, section "Security"; docs/explanation/security.md names the
//! threats).
//!
//! The handshake is Noise NNpsk0 by [`snow`]. Control connections continue in Noise's transport
//! messages; lanes carry their bytes unencrypted, each parcel of a stream and each datagram with an
//! authentication tag ([`TagKey`]).

mod nonce;
mod lane_keys;
#[cfg(not(feature = "security"))]
mod absent;
mod secret;
#[cfg(feature = "security")]
mod key;
#[cfg(feature = "security")]
mod tag;
mod parcel;
#[cfg(feature = "security")]
mod session;
mod replay;
mod datagrams;

pub use datagrams::DatagramTags;
pub use evb_core::wire::tag::{PARCEL_OVERHEAD, TAG_LENGTH};
pub use lane_keys::Keys;
pub use nonce::Nonce;
pub use parcel::{MAX_CONTENT, Opener, Sealer};
pub use replay::{REPLAY_WINDOW, ReplayWindow, extend};

#[cfg(not(feature = "security"))]
pub use absent::{CipherError, Session, TagKey, Tagging, is_equal};
#[cfg(feature = "security")]
pub use key::{KEY_LENGTH, KeyError, PresharedKey};
pub use secret::{SecretError, open_secret};
#[cfg(feature = "security")]
pub use session::Session;
#[cfg(feature = "security")]
pub use tag::{TagKey, Tagging, is_equal};

use std::net::IpAddr;

/// Error of the encryption library.
#[cfg(feature = "security")]
pub type CipherError = snow::Error;

/// Key of one direction of a lane.
#[cfg(feature = "security")]
pub type LaneKey = zeroize::Zeroizing<[u8; 32]>;

/// Key of one direction of a lane: none, as this build has no keys.
#[cfg(not(feature = "security"))]
pub type LaneKey = std::convert::Infallible;

/// Means by which peers authenticate each other; all processes of a system must use the same means.
///
/// ```
/// use evb_net::security::Security;
///
/// let security = Security::default();
/// assert!(!security.is_protected(), "every peer is trusted");
/// assert!(security.allows("127.0.0.1".parse()?), "within a host, no key is needed");
/// # #[cfg(feature = "security")]
/// # {
/// let key = evb_net::security::PresharedKey::generate()?;
/// assert!(Security::Psk(key).is_protected());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// No authentication: every peer that can reach a port and speaks the protocol is trusted.
    #[default]
    None,
    /// Only peers that have the pre-shared key are trusted.
    #[cfg(feature = "security")]
    Psk(PresharedKey),
}

impl Security {
    /// Returns true if peers must have a pre-shared key.
    pub const fn is_protected(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns true if a connection with that address is allowed. A build without the feature
    /// `security` cannot protect connections, so it keeps them within the host.
    pub fn allows(&self, address: IpAddr) -> bool {
        cfg!(feature = "security") || address.to_canonical().is_loopback()
    }
}

/// Error for received bytes that differ from the bytes that a peer with the key sent at that
/// position: forged, repeated, left out, or damaged in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "bytes from the other side failed the check with this system's key (made with another key, or forged, replayed or damaged on the way); if this repeats, check the key and the program on the other side, and the network"
)]
pub struct Forged;
