//! `[security]`: whom the network is trusted with.

use super::section::Section;

/// Whom the network is trusted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityMode {
    /// No section: nothing beyond this machine takes part.
    LoopbackOnly,
    /// `mode = "none"`: everybody on the network is trusted.
    None,
}

pub(super) fn read(section: Option<Section<'_>>) -> SecurityMode {
    let Some(mut section) = section else { return SecurityMode::LoopbackOnly };
    let psk = section.choice("mode", &[("none", false), ("psk", true)]);
    if section.need("mode", psk, "mode = \"none\"") == Some(true) {
        section.refuse(
            "mode",
            "`psk` is not available yet in this version",
            "write mode = \"none\" on a network you trust",
        );
        section.value("key_file");
    } else {
        section.not_yet("key_file", "remove it: mode = \"none\" has no key");
    }
    section.finish();
    SecurityMode::None
}
