//! Keys by which supervisor, sources and builders authenticate each other.
//!
//! Without the feature `security`, [`Security::None`] is all there is, and every peer must be on
//! this host: a connection with another address than loopback is refused.
//!
#![cfg_attr(feature = "security", doc = "```")]
#![cfg_attr(not(feature = "security"), doc = "```ignore")]
//! use evb::{
//!     prelude::*,
//!     security::{KEY_LENGTH, PresharedKey, Security},
//! };
//!
//! // `evbd keygen` writes a random key into a file.
//! let key = PresharedKey::new([7; KEY_LENGTH]);
//! let mut config = SourceConfig::new(SourceId::new(1), "daq0:7000");
//! config.security = Security::Psk(key);
//! ```

pub use evb_net::security::Security;
#[cfg(feature = "security")]
pub use evb_net::security::{KEY_LENGTH, KeyError, PresharedKey, SecretError};
