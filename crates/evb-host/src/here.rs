//! The roles of a configuration that belong to this host, because their addresses are addresses of
//! this host.

mod this_host;
mod role_hosts;
mod judge;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use evb_config::{Config, is_loopback};
use evb_core::id::Peer;
use evb_net::{
    host::address::is_own,
    resolve::{self, ResolveError},
};

pub use this_host::host_name;

use self::{
    role_hosts::{RoleHost, role_hosts},
    this_host::OwnHost,
};

/// Number of names that are resolved at the same time. A name without an answer may take ten
/// seconds.
const LOOKUPS: usize = 64;

/// The addresses of a host, or the reason why they are unknown.
type Found = Result<Vec<IpAddr>, String>;

/// A role, and its host according to the configuration.
#[derive(Clone, Debug)]
pub struct Located<'c> {
    place: RoleHost<'c>,
    /// Result of the name resolution; `None` if the configuration names no host for the role.
    found: Option<Found>,
    /// True if the role belongs to this host.
    is_here: bool,
    /// True if the role's address is a loopback address, which only its own host can reach.
    is_on_loopback: bool,
    /// An address of this host and an address of another host, if the role's host name has both:
    /// both hosts would run the role.
    shared: Option<(IpAddr, IpAddr)>,
}

impl<'c> Located<'c> {
    /// Returns the role.
    pub fn role(&self) -> Peer {
        self.place.role
    }

    /// Returns the role's host as the configuration names it.
    pub fn host(&self) -> Option<&'c str> {
        self.place.host
    }

    /// Returns the addresses of the role's host, or the reason why they are unknown; `None` if the
    /// configuration names no host.
    pub fn addresses(&self) -> Option<Result<&[IpAddr], &str>> {
        self.found.as_ref().map(|found| found.as_deref().map_err(String::as_str))
    }
}

/// All roles of a configuration, compared with the addresses of this host.
#[derive(Clone, Debug)]
pub struct Locations<'c> {
    own: OwnHost,
    list: Vec<Located<'c>>,
    /// True if every address of the configuration is a loopback address, so that all roles belong
    /// to the host that starts the run.
    is_on_loopback: bool,
}

impl<'c> Locations<'c> {
    /// Resolves the host names of the configuration and compares their addresses with those of this
    /// host. The function blocks until the names are resolved.
    pub fn of(config: &'c Config) -> Self {
        let places = role_hosts(config);
        let found = look_up(places.iter().filter_map(|place| place.host).collect());
        Self::new(places, OwnHost::read(), |host| found[host].clone(), is_own)
    }

    /// Decides for each role whether it is on this host. `found` resolves names, and `is_own` knows
    /// this host's addresses.
    fn new(
        places: Vec<RoleHost<'c>>,
        own: OwnHost,
        found: impl Fn(&str) -> Found,
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Self {
        let locate = |place: RoleHost<'c>| locate(place, place.host.map(&found), &own, &is_own);
        let mut list: Vec<_> = places.into_iter().map(locate).collect();
        // The address at which a source takes fragments may not be a loopback address. If all other
        // roles are on loopback, the source still belongs to their host.
        let follows = |located: &Located<'_>| located.host().is_none() || located.place.is_input();
        let is_on_loopback = list.iter().all(|located| located.is_on_loopback || follows(located));
        for located in list.iter_mut().filter(|located| is_on_loopback && follows(located)) {
            located.is_here = true;
        }
        Self { own, list, is_on_loopback }
    }

    /// Returns all roles in the order supervisor, builders, sources.
    pub fn iter(&self) -> impl Iterator<Item = &Located<'c>> {
        self.list.iter()
    }

    /// Returns the roles that belong to this host.
    pub fn here(&self) -> Vec<Peer> {
        self.list.iter().filter(|located| located.is_here).map(Located::role).collect()
    }

    /// Returns true if every address of the configuration is a loopback address, so that all roles
    /// belong to the host that starts the run.
    pub fn are_on_loopback(&self) -> bool {
        self.is_on_loopback
    }

    /// Returns the host names that cannot be resolved, each with its roles and the resolver's
    /// reason.
    pub fn unknown(&self) -> BTreeMap<&'c str, (Vec<Peer>, &str)> {
        let mut unknown: BTreeMap<&str, (Vec<Peer>, &str)> = BTreeMap::new();
        for located in &self.list {
            if let (Some(host), Some(Err(reason))) = (located.host(), located.addresses()) {
                unknown.entry(host).or_insert((Vec::new(), reason)).0.push(located.role());
            }
        }
        unknown
    }
}

/// Decides whether a role belongs to this host, by the addresses of the role's host. A name without
/// addresses belongs to this host if it is this host's own name.
fn locate<'c>(
    place: RoleHost<'c>,
    found: Option<Found>,
    own: &OwnHost,
    is_own: &impl Fn(IpAddr) -> bool,
) -> Located<'c> {
    let host = place.host.unwrap_or_default();
    let (is_here, is_on_loopback, shared) = match &found {
        None => (false, false, None),
        Some(Err(_)) => (own.is_called(host), false, None),
        Some(Ok(addresses)) => {
            let mine = addresses.iter().copied().find(|address| is_own(*address));
            let other = addresses.iter().copied().find(|address| !is_own(*address));
            let loopback = addresses.iter().all(IpAddr::is_loopback);
            // A host's own name may resolve to a loopback address on this host. If the
            // configuration names only the host of a source (`source.host`), a loopback address
            // from the resolver does not count as loopback.
            let counts = !place.is_host_alone() || is_loopback(host);
            (mine.is_some(), loopback && counts, mine.zip(other))
        }
    };
    Located { place, found, is_here, is_on_loopback, shared }
}

/// Resolves the names of these hosts, many at the same time.
fn look_up(hosts: BTreeSet<&str>) -> BTreeMap<String, Found> {
    let one = |host: &str| {
        resolve::addresses(host).map_err(|error| match error {
            ResolveError::Unknown { reason, .. } => format!("not known here: {reason}"),
            ResolveError::Empty { .. } => "without an address in DNS and /etc/hosts of this host".to_owned(),
            other => other.to_string(),
        })
    };
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let mut found = BTreeMap::new();
    for some in hosts.chunks(LOOKUPS) {
        // An IP address needs no resolver, and so no thread.
        let (numbers, names): (Vec<&str>, Vec<&str>) =
            some.iter().partition(|host| host.parse::<IpAddr>().is_ok());
        found.extend(numbers.into_iter().map(|host| (host.to_owned(), one(host))));
        std::thread::scope(|scope| {
            let asked: Vec<_> = names.iter().map(|host| (*host, scope.spawn(|| one(host)))).collect();
            for (host, answer) in asked {
                let answer =
                    answer.join().unwrap_or_else(|_| Err("not known here: the resolver failed".to_owned()));
                found.insert(host.to_owned(), answer);
            }
        });
    }
    found
}
