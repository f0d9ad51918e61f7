//! The hosts of roles according to the configuration.

use evb_config::{Config, Input, SourceEntry, is_loopback, is_unspecified};
use evb_core::id::Peer;

/// The host of a role according to the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoleHost<'c> {
    /// Role whose host the configuration gives.
    pub(super) role: Peer,
    /// Configuration key that gives the role's host, or that the operator may add to give it.
    pub(super) key: &'static str,
    /// Name or address of the host; `None` if the configuration gives neither.
    pub(super) host: Option<&'c str>,
}

/// Key of a source that names only its host and no address.
pub(super) const SOURCE_HOST: &str = "source.host";
/// Key of a source whose host follows only from the address at which the source takes fragments.
const SOURCE_INPUT: &str = "source.input";

impl RoleHost<'_> {
    /// Returns true if the place is a host name or address at which no role listens
    /// (`source.host`).
    pub(super) fn is_host_alone(&self) -> bool {
        self.key == SOURCE_HOST
    }

    /// Returns true if the place follows from the address at which a source takes fragments.
    pub(super) fn is_input(&self) -> bool {
        self.key == SOURCE_INPUT
    }
}

/// Returns the places of all roles: the supervisor, the builders, the sources.
pub(super) fn role_hosts(config: &Config) -> Vec<RoleHost<'_>> {
    let listener = |role, key, host| RoleHost { role, key, host: Some(host) };
    let supervisor = listener(Peer::Supervisor, "supervisor.listen", config.supervisor.listen.host.as_str());
    let builders = config
        .builders
        .iter()
        .map(|builder| listener(Peer::Builder(builder.id), "builder.listen", builder.listen.host.as_str()));
    let sources = config.sources.iter().map(source);
    std::iter::once(supervisor).chain(builders).chain(sources).collect()
}

/// Returns the place of a source: the address from which it sends, else the host that it names,
/// else the address at which it takes fragments, if this address identifies a single host.
fn source(entry: &SourceEntry) -> RoleHost<'_> {
    let role = Peer::Source(entry.id);
    if let Some(bind) = entry.bind.as_deref().filter(|bind| !is_unspecified(bind)) {
        return RoleHost { role, key: "source.bind", host: Some(bind) };
    }
    if let Some(host) = entry.host.as_deref() {
        return RoleHost { role, key: SOURCE_HOST, host: Some(host) };
    }
    match &entry.input {
        Input::Tcp { listen, .. } if !is_unspecified(&listen.host) && !is_loopback(&listen.host) => {
            RoleHost { role, key: SOURCE_INPUT, host: Some(&listen.host) }
        }
        _ => RoleHost { role, key: SOURCE_HOST, host: None },
    }
}
