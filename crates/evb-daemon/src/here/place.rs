//! Where the configuration puts each role.

use evb_core::id::Peer;

use crate::config::{Config, Input, SourceEntry, is_loopback, is_unspecified};

/// Where the configuration puts a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'c> {
    /// Who.
    pub(super) role: Peer,
    /// The key that says so, or that could.
    pub(super) key: &'static str,
    /// A name or an address; `None`: nothing says where.
    pub(super) host: Option<&'c str>,
}

/// The key of sources that name a host and no address of it.
pub(super) const SOURCE_HOST: &str = "source.host";
/// The key of sources that say where they take fragments, and nothing else.
const SOURCE_INPUT: &str = "source.input";

impl Place<'_> {
    /// Whether it names a host and no address at which something is reached.
    pub(super) fn is_host_alone(&self) -> bool {
        self.key == SOURCE_HOST
    }

    /// Whether it is the address at which a source takes fragments.
    pub(super) fn is_input(&self) -> bool {
        self.key == SOURCE_INPUT
    }
}

/// Every role: the supervisor, the builders, the sources.
pub(super) fn places(config: &Config) -> Vec<Place<'_>> {
    let listener = |role, key, host| Place { role, key, host: Some(host) };
    let supervisor = listener(Peer::Supervisor, "supervisor.listen", config.supervisor.listen.host.as_str());
    let builders = config
        .builders
        .iter()
        .map(|builder| listener(Peer::Builder(builder.id), "builder.listen", builder.listen.host.as_str()));
    let sources = config.sources.iter().map(source);
    std::iter::once(supervisor).chain(builders).chain(sources).collect()
}

/// The address that it sends from, the host that it names, or the address at which it takes fragments, if that tells one host from
/// others.
fn source(entry: &SourceEntry) -> Place<'_> {
    let role = Peer::Source(entry.id);
    if let Some(bind) = entry.bind.as_deref().filter(|bind| !is_unspecified(bind)) {
        return Place { role, key: "source.bind", host: Some(bind) };
    }
    if let Some(host) = entry.host.as_deref() {
        return Place { role, key: SOURCE_HOST, host: Some(host) };
    }
    match &entry.input {
        Input::Tcp { listen } if !is_unspecified(&listen.host) && !is_loopback(&listen.host) => {
            Place { role, key: SOURCE_INPUT, host: Some(&listen.host) }
        }
        _ => Place { role, key: SOURCE_HOST, host: None },
    }
}
