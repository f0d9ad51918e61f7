//! `[security]`: the rules by which hosts trust each other.

use std::path::PathBuf;

use serde::Deserialize;

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

/// The section as the configuration gives it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(
    extend("if" = { "properties": { "mode": { "const": "psk" } } }),
    extend("then" = { "required": ["key_file"] }),
    extend("else" = { "not": { "required": ["key_file"] } }),
))]
pub(super) struct GivenSecurity {
    /// With `"psk"`, only peers that have the key take part, and evb authenticates their data. With
    /// `"none"`, evb trusts everybody who reaches the ports.
    ///
    /// Default: required in the section
    mode: Mode,
    /// The file with the key: 32 bytes as 64 hex digits or in base64, readable by its owner alone,
    /// who must be the user of evbd or root. `evbd keygen FILE` makes such a file; copy it to all
    /// machines.
    ///
    /// Default: required with `"psk"`
    key_file: Option<PathBuf>,
}

#[derive(PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum Mode {
    None,
    Psk,
}

/// Reads the section; without it, only loopback is permitted.
pub(super) fn read(section: Option<Section<'_>>) -> SecurityMode {
    let Some(section) = section else { return SecurityMode::LoopbackOnly };
    match section.read() {
        Some(GivenSecurity { mode: Mode::Psk, key_file: Some(key_file) }) => {
            return SecurityMode::Psk { key_file };
        }
        Some(GivenSecurity { mode: Mode::Psk, key_file: None }) if !section.has("key_file") => {
            section.refuse_lack("key_file");
        }
        Some(GivenSecurity { mode: Mode::None, key_file: Some(_) }) => {
            section.refuse("key_file", "mode = \"none\" has no key", "remove it, or write mode = \"psk\"");
        }
        _ => {}
    }
    SecurityMode::None
}
