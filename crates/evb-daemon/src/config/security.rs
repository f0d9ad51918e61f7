//! `[security]`: whom the network is trusted with.

use std::path::PathBuf;

use evb::{PresharedKey, Security};
use evb_net::security::KeyError;

use super::section::Section;

/// Whom the network is trusted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityMode {
    /// No section: nothing beyond this machine takes part.
    LoopbackOnly,
    /// `mode = "none"`: everybody on the network is trusted.
    None,
    /// `mode = "psk"`: who has the key in that file is.
    Psk {
        /// Where the key is.
        key_file: PathBuf,
    },
}

impl SecurityMode {
    /// Whether peers make sure of each other.
    pub fn is_protected(&self) -> bool {
        matches!(self, Self::Psk { .. })
    }

    /// The same with the key, if there is one.
    ///
    /// # Errors
    /// [`KeyError`]: the file cannot be read, or others can.
    pub fn load(&self) -> Result<Security, KeyError> {
        match self {
            Self::LoopbackOnly | Self::None => Ok(Security::None),
            Self::Psk { key_file } => Ok(Security::Psk(PresharedKey::read(key_file)?)),
        }
    }
}

pub(super) fn read(section: Option<Section<'_>>) -> SecurityMode {
    let Some(mut section) = section else { return SecurityMode::LoopbackOnly };
    let psk = section.choice("mode", &[("none", false), ("psk", true)]);
    let psk = section.need("mode", psk, "mode = \"none\"");
    let key_file = section.text("key_file", "key_file = \"/etc/evb/key\"");
    let mode = match (psk, key_file) {
        (Some(true), None) => {
            section.need("key_file", None::<()>, "key_file = \"/etc/evb/key\"; `evbd keygen FILE` makes one");
            SecurityMode::None
        }
        (Some(true), Some(key_file)) => SecurityMode::Psk { key_file: key_file.into() },
        (_, None) => SecurityMode::None,
        (_, Some(_)) => {
            section.refuse("key_file", "mode = \"none\" has no key", "remove it, or write mode = \"psk\"");
            SecurityMode::None
        }
    };
    section.finish();
    mode
}
