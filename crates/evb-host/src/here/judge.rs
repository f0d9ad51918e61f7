//! Problems with the hosts of roles, and a comparison of all hosts for people and machines.

use std::{collections::BTreeMap, fmt::Write as _, net::IpAddr};

use evb_config::{Origin, Problem, Problems, Severity, is_loopback, roles_in_words};
use evb_core::id::Peer;
use serde_json::{Value, json};

use super::{Located, Locations};

/// Largest number of hosts in the comparison for people.
const MOST_SHOWN: usize = 40;

/// All roles of one host of the configuration.
struct OneHost<'a> {
    roles: Vec<Peer>,
    is_here: bool,
    addresses: Option<Result<&'a [IpAddr], &'a str>>,
}

impl<'c> Locations<'c> {
    /// Returns the problems with the hosts of roles, each with its line in the configuration.
    pub fn problems(&self, origin: &Origin) -> Problems {
        let mut list = Vec::new();
        if !self.are_on_loopback() {
            self.refuse_nowhere(origin, &mut list);
            self.refuse_loopback(origin, &mut list);
        }
        self.refuse_shared(origin, &mut list);
        Problems::new(origin.clone(), list)
    }

    /// Refuses roles for which the configuration names no host; roles of the same entry give a
    /// single problem.
    fn refuse_nowhere(&self, origin: &Origin, list: &mut Vec<Problem>) {
        let mut entries: BTreeMap<usize, Vec<&Located<'_>>> = BTreeMap::new();
        for located in self.list.iter().filter(|located| located.found.is_none()) {
            let span = origin.span_of("source.input", number(located.role()));
            entries.entry(span.start).or_default().push(located);
        }
        for entry in entries.values() {
            let roles: Vec<Peer> = entry.iter().map(|located| located.role()).collect();
            let reason = format!(
                "nothing says which host runs {}: no `host`, no `bind`, no address that one host alone has",
                roles_in_words(&roles)
            );
            let remedy = "add host = \"NAME\", with the name or an address of the host that runs it (in an entry with `ids`, for example \"daq{id}\")";
            let span = origin.span_of("source.input", number(roles[0]));
            list.push(problem(entry[0].place.key, span, reason, remedy.to_owned()));
        }
    }

    /// Refuses loopback addresses in a system of several hosts, because other hosts cannot reach
    /// them.
    fn refuse_loopback(&self, origin: &Origin, list: &mut Vec<Problem>) {
        let Some(other) = self.list.iter().find(|located| !located.is_on_loopback && located.found.is_some())
        else {
            return;
        };
        let other = format!("{} is on {}", roles_in_words(&[other.role()]), other.host().unwrap_or_default());
        for located in self.list.iter().filter(|located| located.is_on_loopback) {
            let role = roles_in_words(&[located.role()]);
            let host = located.host().unwrap_or_default();
            let (reason, remedy) = if is_loopback(host) {
                let reason = format!(
                    "{role} is on loopback (`{host}`), where other hosts do not reach it, but {other}"
                );
                (reason, "write the name or address by which the other hosts reach it")
            } else {
                let known: Vec<_> = located.found.iter().flatten().flatten().map(IpAddr::to_string).collect();
                let reason = format!(
                    "{role} is on `{host}`, which is {} on this host, where other hosts do not reach it, but {other}",
                    known.join(", ")
                );
                (reason, "give the name its network address in /etc/hosts, or write that address here")
            };
            let span = origin.span_of(located.place.key, number(located.role()));
            list.push(problem(located.place.key, span, reason, remedy.to_owned()));
        }
    }

    /// Refuses host names that resolve to addresses of this host and of another host.
    fn refuse_shared(&self, origin: &Origin, list: &mut Vec<Problem>) {
        for located in &self.list {
            let Some((mine, other)) = located.shared else { continue };
            let role = roles_in_words(&[located.role()]);
            let host = located.host().unwrap_or_default();
            let reason = format!(
                "`{host}` is {mine}, which is this host's, and {other}, which is not: two hosts would run {role}"
            );
            let remedy = "write a name that one host alone has, or the address of the host that shall run it";
            let span = origin.span_of(located.place.key, number(located.role()));
            list.push(problem(located.place.key, span, reason, remedy.to_owned()));
        }
    }

    /// Returns the message for a host without roles; it lists the addresses that were compared.
    pub fn nobody_here(&self, file: &str) -> String {
        let mut words = format!("no role of {file} belongs to this host\n");
        let _ = writeln!(words, "  this host is {}: {}", self.own.name, self.own.addresses_in_words());
        words += "  the configuration has:\n";
        words += &self.table("    ");
        let unknown = self.unknown();
        let help = match unknown.keys().next() {
            Some(host) => format!("`{host}` has no address here: if it is this host, correct its spelling, DNS or /etc/hosts, else start evbd on a host of this list"),
            None => "start evbd on a host of this list, or write an address or a name of this host into the configuration; --role hosts a role here whatever its address"
                .to_owned(),
        };
        words + "  = help: " + &help
    }

    /// Describes this host, and all hosts of the configuration with their roles, as text for
    /// people.
    pub fn page(&self) -> String {
        let here = self.here();
        let roles = if here.is_empty() { "nothing".to_owned() } else { roles_in_words(&here) };
        let mut page = format!("This host hosts {roles}\n");
        let _ = writeln!(page, "  it is {}: {}", self.own.name, self.own.addresses_in_words());
        if self.are_on_loopback() {
            page += "  every address of the configuration is on loopback: the system belongs to one host, whichever starts it\n";
        }
        page + "\nHosts of the configuration\n" + &self.table("  ")
    }

    /// Describes this host, and all hosts of the configuration with their roles, as JSON for
    /// machines.
    pub fn json(&self) -> Value {
        let hosts: Vec<Value> = self
            .hosts()
            .iter()
            .map(|(host, one)| {
                json!({
                    "host": host,
                    "here": one.is_here,
                    "roles": one.roles.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "addresses": one.addresses.and_then(Result::ok),
                    "unknown": one.addresses.and_then(Result::err),
                })
            })
            .collect();
        json!({
            "name": self.own.name,
            "addresses": self.own.addresses.iter().flatten().map(|(address, _)| address).collect::<Vec<_>>(),
            "roles": self.here().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "on_loopback": self.are_on_loopback(),
            "hosts": hosts,
        })
    }

    /// Returns the hosts in the order of their first roles in the configuration.
    fn hosts(&self) -> Vec<(&'c str, OneHost<'_>)> {
        let mut hosts: Vec<(&str, OneHost<'_>)> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for located in &self.list {
            let host = located.host().unwrap_or_default();
            let place = *places.entry(host).or_insert_with(|| {
                let addresses = located.addresses();
                hosts.push((host, OneHost { roles: Vec::new(), is_here: located.is_here, addresses }));
                hosts.len() - 1
            });
            let (_, host) = &mut hosts[place];
            host.roles.push(located.role());
        }
        hosts
    }

    /// Formats a table of the hosts with their roles and addresses.
    fn table(&self, margin: &str) -> String {
        let hosts = self.hosts();
        let width = hosts.iter().map(|(host, _)| host.len()).max().unwrap_or_default().max(9);
        let mut table = String::new();
        for (host, one) in hosts.iter().take(MOST_SHOWN) {
            let name = if host.is_empty() { "any host" } else { host };
            let addresses = match one.addresses {
                Some(Ok(addresses)) => addresses
                    .iter()
                    .map(ToString::to_string)
                    .filter(|address| address != host)
                    .collect::<Vec<_>>()
                    .join(", "),
                Some(Err(reason)) => reason.to_owned(),
                None => String::new(),
            };
            let mark = if one.is_here { "here" } else { "" };
            let line = format!("{margin}{name:<width$}  {mark:<4}  {}", roles_in_words(&one.roles));
            let tail = if addresses.is_empty() { String::new() } else { format!("  ({addresses})") };
            let _ = writeln!(table, "{}", format!("{line}{tail}").trim_end());
        }
        if hosts.len() > MOST_SHOWN {
            let _ = writeln!(table, "{margin}and {} more hosts", hosts.len() - MOST_SHOWN);
        }
        table
    }
}

fn number(role: Peer) -> Option<u16> {
    match role {
        Peer::Supervisor => None,
        Peer::Source(id) => Some(id.number()),
        Peer::Builder(id) => Some(id.number()),
    }
}

fn problem(key: &str, span: std::ops::Range<usize>, reason: String, remedy: String) -> Problem {
    Problem { severity: Severity::Error, key: key.to_owned(), span, reason, remedy }
}
