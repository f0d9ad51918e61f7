//! `[control]`: access to run control.

use std::path::PathBuf;

use super::{
    endpoint::{Endpoint, is_loopback},
    section::Section,
};

/// Access to run control over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlConfig {
    /// Address at which run control listens for HTTP requests.
    pub listen: Endpoint,
    /// True if the first run starts as soon as all sources and builders have registered.
    pub autostart: bool,
    /// True if a start is refused while a source that should have front ends has none.
    pub require_readout: bool,
    /// File with the token that requests must carry; required if run control listens beyond
    /// loopback.
    pub token_file: Option<PathBuf>,
    /// Clients that may read the run's status without the token that commands need.
    pub viewers: ViewersEntry,
    /// Names by which requests may address this host, in addition to the host in `listen`.
    pub names: Vec<String>,
}

/// The clients that may look at a run without the token that commands need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ViewersEntry {
    /// No clients.
    #[default]
    None,
    /// All clients that can reach the address of run control.
    Anyone,
    /// Clients that send the token in this file.
    TokenFile(PathBuf),
}

impl ControlConfig {
    /// Default address at which run control listens.
    pub const USUAL: &'static str = "127.0.0.1:7900";

    /// Returns the defaults: the usual loopback address and no token.
    pub fn usual() -> Self {
        let listen = Endpoint { host: "127.0.0.1".to_owned(), port: 7900 };
        Self {
            listen,
            autostart: false,
            require_readout: false,
            token_file: None,
            viewers: ViewersEntry::None,
            names: Vec::new(),
        }
    }
}

pub(super) fn read(mut section: Section<'_>) -> Option<ControlConfig> {
    let given = section.has("listen");
    let listen = section.any_endpoint("listen");
    let autostart = section.flag("autostart").unwrap_or(false);
    let rules = [("warn", false), ("refuse", true)];
    let require_readout = section.choice("require_readout", &rules).unwrap_or(false);
    let token_file = section.text("token_file", "token_file = \"/etc/evb/control.token\"").map(PathBuf::from);
    let usual = ControlConfig::usual();
    let listen = if given { listen? } else { usual.listen };
    if !is_loopback(&listen.host) && token_file.is_none() {
        let reason =
            format!("`{}` can be reached from other machines, but there is no `token_file`", listen.host);
        let remedy = "use 127.0.0.1, or add token_file = \"PATH\" with a secret that only its owner can read";
        section.refuse("listen", reason, remedy);
    }
    let viewers = section.text("viewers", "viewers = \"anyone\"").map_or(ViewersEntry::None, |who| match who
        .as_str()
    {
        "anyone" => ViewersEntry::Anyone,
        path => ViewersEntry::TokenFile(PathBuf::from(path)),
    });
    if viewers != ViewersEntry::None && token_file.is_none() {
        let remedy =
            "remove `viewers`, or add token_file = \"PATH\" with the secret of those who give commands";
        section.refuse(
            "viewers",
            "without a `token_file`, everybody may look and give commands".to_owned(),
            remedy,
        );
    }
    let names = section.texts("names", "names = [\"daq0\"]").unwrap_or_default();
    section.finish();
    Some(ControlConfig { listen, autostart, require_readout, token_file, viewers, names })
}
