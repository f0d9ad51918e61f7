//! `[security]`: the rules by which hosts trust each other.

use std::path::PathBuf;

use super::section::Section;

/// The rule by which hosts trust each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityMode {
    /// The file has no section `[security]`: all peers are on this machine.
    LoopbackOnly,
    /// `mode = "none"`: every peer on the network is trusted.
    None,
    /// `mode = "psk"`: peers that prove possession of the key in the file are trusted.
    Psk {
        /// Path of the file with the key.
        key_file: PathBuf,
    },
}

impl SecurityMode {
    /// Returns true if peers authenticate each other with a key.
    pub fn is_protected(&self) -> bool {
        matches!(self, Self::Psk { .. })
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
