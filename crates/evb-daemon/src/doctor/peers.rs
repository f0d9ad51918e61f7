//! The peers of this host, and by which device it reaches each.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    net::{IpAddr, ToSocketAddrs as _},
};

use evb_core::id::Peer as Role;
use evb_net::host::{
    Fact,
    route::{Route, route},
};

use crate::config::Config;

/// An address, and who is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Peer {
    pub(super) roles: Vec<Role>,
    pub(super) address: IpAddr,
    pub(super) route: Fact<Route>,
}

impl Peer {
    /// Whether it is this host.
    pub(super) fn is_here(&self) -> bool {
        self.route.as_ref().is_ok_and(|route| route.local)
    }

    /// The roles in a few words: "builder 1, source 2", or "source 1 and 21 more".
    pub(super) fn who(&self) -> String {
        match self.roles.as_slice() {
            [first, _, _, _, ..] => format!("{first} and {} more", self.roles.len() - 1),
            [] => "named".to_owned(),
            few => few.iter().map(Role::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Who there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Peers {
    /// Peers to reach: those of other hosts, and this one where its roles speak with each other.
    pub(super) reached: Vec<Peer>,
    /// Configured hosts without address here, each with the reason.
    pub(super) unresolved: Vec<(String, String)>,
    /// The roles of this host, as far as the configuration gives them addresses.
    pub(super) here: Vec<Role>,
}

/// The peers in `config` and those named beside, by name resolution and the routes of this host.
pub(super) fn peers(config: Option<&Config>, named: &[IpAddr]) -> Peers {
    let mut found: BTreeMap<IpAddr, Vec<Role>> = named.iter().map(|address| (*address, Vec::new())).collect();
    let mut unresolved = Vec::new();
    for (host, roles) in config.map(places).unwrap_or_default() {
        match resolve(host) {
            Ok(address) => found.entry(address).or_default().extend(roles),
            Err(reason) => unresolved.push((host.to_owned(), reason)),
        }
    }
    let all = found.into_iter().map(|(address, roles)| Peer { roles, address, route: route(address, None) });
    let (reached, here) = choose(all.collect(), named);
    Peers { reached, unresolved, here }
}

/// Whom to reach, and the roles of this host. One's own address matters where a source and a builder of this host speak
/// over it, or where there is no other host.
fn choose(all: Vec<Peer>, named: &[IpAddr]) -> (Vec<Peer>, Vec<Role>) {
    let (own, mut reached): (Vec<_>, Vec<_>) = all.into_iter().partition(Peer::is_here);
    let here: Vec<Role> = own.iter().flat_map(|peer| peer.roles.clone()).collect();
    let has_source = here.iter().any(|role| matches!(role, Role::Source(_)));
    let has_builder = here.iter().any(|role| matches!(role, Role::Builder(_)));
    let all_own = reached.is_empty() || (has_source && has_builder);
    reached.extend(own.into_iter().filter(|peer| all_own || named.contains(&peer.address)));
    (reached, here)
}

/// Where the configuration says that roles are. A source without `bind` may be anywhere.
fn places(config: &Config) -> BTreeMap<&str, Vec<Role>> {
    let mut places: BTreeMap<&str, Vec<Role>> = BTreeMap::new();
    places.entry(&config.supervisor.listen.host).or_default().push(Role::Supervisor);
    for builder in &config.builders {
        places.entry(&builder.listen.host).or_default().push(Role::Builder(builder.id));
    }
    for source in &config.sources {
        if let Some(host) = &source.bind {
            places.entry(host).or_default().push(Role::Source(source.id));
        }
    }
    places
}

fn resolve(host: &str) -> Result<IpAddr, String> {
    // The port is not used.
    let mut addresses = (host, 9).to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().map(|address| address.ip()).ok_or_else(|| "the name has no address".to_owned())
}
