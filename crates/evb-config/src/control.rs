//! `[control]`: access to run control.

use std::path::PathBuf;

use serde::Deserialize;

use super::{
    endpoint::{Endpoint, is_loopback},
    forms::{Address, As, Form, Word, Words},
    section::Section,
};

/// Access to run control over HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("dependencies" = { "viewers": ["token_file"] })))]
pub struct ControlConfig {
    /// The address for commands. An address that is not on loopback needs a `token_file`.
    ///
    /// Default: `"127.0.0.1:7900"`
    #[serde(default = "ControlConfig::usual_address", with = "As::<Address>")]
    pub listen: Endpoint,
    /// If true, the first run starts by itself as soon as every source and builder is connected,
    /// and of each source that should have [front ends](#input) at least one.
    ///
    /// Default: false
    #[serde(default)]
    pub autostart: bool,
    /// The treatment of a start while no front end is connected to a source that should have some
    /// (`front_ends`): with `"warn"`, the run starts, and its report remarks on these sources; with
    /// `"refuse"`, it does not start.
    ///
    /// Default: `"warn"`
    #[serde(default, with = "As::<Word<WithoutReadout>>")]
    pub require_readout: bool,
    /// A file with the token that every request must carry: 16 to 512 characters on one line. It
    /// must be [as closed as a key file](../explanation/security.md#the-key) (mode 0600).
    ///
    /// Default: none
    pub token_file: Option<PathBuf>,
    /// The clients that may read without the token of `token_file`: `"anyone"`, or those with
    /// another token, whose file has this path. Such viewers see the page, the status and the
    /// metrics, and cannot give commands.
    ///
    /// Default: none
    #[serde(default, with = "As::<Viewers>")]
    pub viewers: ViewersEntry,
    /// Names of this host that requests may use, beside `listen`, `localhost` and addresses, for
    /// example `["daq0", "daq0.lab"]`. A browser or a Prometheus that asks for `http://daq0:7900`
    /// is served only if `names` contains `daq0`.
    ///
    /// Default: none
    #[serde(default)]
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
        Self {
            listen: Self::usual_address(),
            autostart: false,
            require_readout: false,
            token_file: None,
            viewers: ViewersEntry::None,
            names: Vec::new(),
        }
    }

    fn usual_address() -> Endpoint {
        Endpoint { host: "127.0.0.1".to_owned(), port: 7900 }
    }
}

/// The treatment of a start while a source that should have front ends has none.
#[derive(Clone, Copy)]
pub(super) enum WithoutReadout {
    Warn,
    Refuse,
}

impl Words for WithoutReadout {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("warn", Self::Warn), ("refuse", Self::Refuse)]
    }
}

impl From<WithoutReadout> for bool {
    fn from(treatment: WithoutReadout) -> Self {
        matches!(treatment, WithoutReadout::Refuse)
    }
}

/// `anyone`, or the path of the file with the viewers' token.
pub(super) struct Viewers;

impl Form for Viewers {
    type Value = ViewersEntry;
    const EXAMPLE: &'static str = "anyone";

    fn parse(text: &str) -> Result<ViewersEntry, String> {
        Ok(match text {
            "anyone" => ViewersEntry::Anyone,
            path => ViewersEntry::TokenFile(PathBuf::from(path)),
        })
    }
}

/// Reads the section, and refuses access that nothing limits.
pub(super) fn read(section: &Section<'_>) -> Option<ControlConfig> {
    let config: ControlConfig = section.read()?;
    if !is_loopback(&config.listen.host) && config.token_file.is_none() {
        let reason = format!(
            "`{}` can be reached from other machines, and without a `token_file`, everybody there may give commands",
            config.listen.host
        );
        let remedy = "use 127.0.0.1, or add token_file = \"PATH\" with a secret that only its owner can read";
        section.refuse("listen", reason, remedy);
    }
    if config.viewers != ViewersEntry::None && config.token_file.is_none() {
        let reason = "`viewers` limits nobody without a `token_file`: everybody may look and give commands";
        let remedy =
            "remove `viewers`, or add token_file = \"PATH\" with the secret of those who give commands";
        section.refuse("viewers", reason, remedy);
    }
    section.finish(config)
}
