//! Keys by which supervisor, sources and builders authenticate each other.
//!
//! ```
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

pub use evb_net::security::{KEY_LENGTH, KeyError, PresharedKey, Security};
