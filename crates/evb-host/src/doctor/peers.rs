//! The peers of this host, and the devices through which it reaches them.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::IpAddr};

use evb_config::Config;
use evb_core::id::Peer as Role;
use evb_net::host::{
    Fact,
    route::{Route, route},
};

use crate::here::Locations;

/// The address of a peer, with the roles at this address.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Peer {
    pub(super) roles: Vec<Role>,
    pub(super) address: IpAddr,
    pub(super) route: Fact<Route>,
}

impl Peer {
    /// Returns true if the address belongs to this host.
    pub(super) fn is_here(&self) -> bool {
        self.route.as_ref().is_ok_and(|route| route.local)
    }

    /// Returns a short list of the roles, such as "builder 1, source 2" or "source 1 and 21 more".
    pub(super) fn who(&self) -> String {
        match self.roles.as_slice() {
            [first, _, _, _, ..] => format!("{first} and {} more", self.roles.len() - 1),
            [] => "named".to_owned(),
            few => few.iter().map(Role::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

/// The peers and roles that concern this host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Peers {
    /// Peers to test: those on other hosts, and this host itself if its roles communicate with each
    /// other.
    pub(super) reached: Vec<Peer>,
    /// Configured host names that cannot be resolved on this host, each with the reason.
    pub(super) unresolved: Vec<(String, String)>,
    /// Roles of this host that the configuration's addresses and host names identify.
    pub(super) here: Vec<Role>,
}

/// Returns the peers in `config` and the addresses in `named`, by name resolution and the routes of
/// this host.
pub(super) fn peers(config: Option<&Config>, named: &[IpAddr]) -> Peers {
    let mut found: BTreeMap<IpAddr, Vec<Role>> = named.iter().map(|address| (*address, Vec::new())).collect();
    let locations = config.map(Locations::of);
    let located = locations.iter().flat_map(Locations::iter);
    for role in located.filter(|role| role.host().is_some()) {
        // Of a host with several addresses, the first one is tested.
        if let Some(Ok([address, ..])) = role.addresses() {
            found.entry(*address).or_default().push(role.role());
        }
    }
    let unresolved = locations.iter().flat_map(Locations::unknown);
    let unresolved = unresolved.map(|(host, (_, reason))| (host.to_owned(), reason.to_owned())).collect();
    let here = locations.as_ref().map(Locations::here).unwrap_or_default();
    let all = found.into_iter().map(|(address, roles)| Peer { roles, address, route: route(address, None) });
    Peers { reached: choose(all.collect(), named), unresolved, here }
}

/// Chooses the peers to test. An address of this host is tested only if a source and a builder of
/// this host communicate over it, if the user named it, or if there is no other host.
fn choose(all: Vec<Peer>, named: &[IpAddr]) -> Vec<Peer> {
    let (here, mut reached): (Vec<_>, Vec<_>) = all.into_iter().partition(Peer::is_here);
    let has = |wanted: fn(&Role) -> bool| here.iter().flat_map(|peer| &peer.roles).any(wanted);
    let has_source = has(|role| matches!(role, Role::Source(_)));
    let has_builder = has(|role| matches!(role, Role::Builder(_)));
    let all_own = reached.is_empty() || (has_source && has_builder);
    reached.extend(here.into_iter().filter(|peer| all_own || named.contains(&peer.address)));
    reached
}
