//! The file descriptors that each host needs: sockets of lanes and control connections, and files.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use evb_core::id::Peer;

use crate::{Config, Input, SinkEntry, Transport, TriggerConfig, is_loopback};

/// The file descriptors that the roles of a host need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorSum {
    /// Host of the roles; `None`: this host, since all addresses are on loopback.
    pub host: Option<String>,
    /// Descriptors of lanes: a connection or socket for each source of a builder, and for each
    /// builder of a source.
    pub lanes: u64,
    /// Descriptors of control connections and of the roles' threads.
    pub control: u64,
    /// Descriptors of event files, journals and inputs.
    pub files: u64,
    /// Number of descriptors that a process may have open on this machine; `None`: unknown.
    pub limit: Option<u64>,
    /// Descriptors of a process that hosts only the role that needs the most.
    pub largest_role: u64,
}

/// Descriptors of a process beside its roles: standard streams, log, signals, timers, and what the
/// libraries open for a short time.
const OF_PROCESS: u64 = 32;
/// Descriptors of a source or builder: those of its thread's event loop, its control connection,
/// and the builder's listener.
const OF_ROLE: u64 = 8;
/// Descriptors of a sink with files: the file, its index, its directory, and the next file.
const OF_SINK: u64 = 4;
/// Descriptors for the clients of run control and the sender of triggers.
const OF_CLIENTS: u64 = 64;

impl DescriptorSum {
    /// Returns the number of descriptors that a process with all roles of the host needs.
    pub const fn needed(&self) -> u64 {
        OF_PROCESS + self.lanes + self.control + self.files
    }

    /// Returns the number of descriptors in words, with its parts.
    pub(super) fn in_words(&self) -> String {
        format!(
            "{} file descriptors ({} for event data, {} for control, {} for files, {OF_PROCESS} for the rest)",
            self.needed(),
            self.lanes,
            self.control,
            self.files
        )
    }

    fn of(host: Option<String>) -> Self {
        Self { host, lanes: 0, control: 0, files: 0, limit: None, largest_role: 0 }
    }

    fn add(&mut self, config: &Config, role: Peer) {
        let before = self.needed();
        self.add_role(config, role);
        self.largest_role = self.largest_role.max(self.needed() - before + OF_PROCESS);
    }

    /// Adds the file descriptors that a role needs.
    fn add_role(&mut self, config: &Config, role: Peer) {
        // Over UDP, a lane has a connection for its handshake and a socket at the source; all lanes
        // of a builder have one socket.
        let (at_source, at_builder) = match config.network.transport {
            Transport::Tcp => (1, 1),
            Transport::Udp => (2, 1),
        };
        let (sources, builders) = (config.sources.len() as u64, config.builders.len() as u64);
        match role {
            Peer::Supervisor => {
                self.control += sources + builders + OF_CLIENTS;
                self.files += u64::from(config.supervisor.journal.is_some()) * 2;
                self.files += u64::from(matches!(config.supervisor.trigger, TriggerConfig::External { .. }));
            }
            Peer::Source(id) => {
                self.control += OF_ROLE;
                self.lanes += builders * at_source;
                let input = config.sources.iter().find(|entry| entry.id == id).map(|entry| &entry.input);
                self.files += match input {
                    Some(Input::Generator { .. }) | None => 0,
                    Some(_) => 2,
                };
            }
            Peer::Builder(id) => {
                self.control += OF_ROLE;
                self.lanes += sources * at_builder;
                let sinks =
                    config.builders.iter().filter(|entry| entry.id == id).flat_map(|entry| &entry.sinks);
                self.files += sinks.filter(|sink| **sink != SinkEntry::Null).count() as u64 * OF_SINK;
            }
        }
    }
}

/// Returns the descriptors that a process with these roles needs.
pub fn descriptors(config: &Config, roles: &[Peer]) -> DescriptorSum {
    let mut sum = DescriptorSum::of(None);
    roles.iter().for_each(|role| sum.add(config, *role));
    sum
}

/// Returns the descriptors of each host, in the order in which the configuration names the hosts.
/// `limit` is the number of descriptors that a process may have open on this machine.
pub(super) fn of_hosts(config: &Config, limit: Option<u64>) -> Vec<DescriptorSum> {
    let supervisor = config.supervisor.listen.host.as_str();
    let is_here = is_loopback(supervisor);
    let builders =
        config.builders.iter().map(|entry| (Some(entry.listen.host.clone()), Peer::Builder(entry.id)));
    // A source without an address may run on any host, here on one of its own.
    let sources = config.sources.iter().map(|entry| (Some(entry.link_name()), Peer::Source(entry.id)));
    let roles = [(Some(supervisor.to_owned()), Peer::Supervisor)].into_iter().chain(builders).chain(sources);
    let mut sums: Vec<DescriptorSum> = Vec::new();
    let mut known: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for (host, role) in roles {
        let host = host.filter(|_| !is_here);
        let place = *known.entry(host.clone()).or_insert_with(|| {
            sums.push(DescriptorSum { limit, ..DescriptorSum::of(host) });
            sums.len() - 1
        });
        sums[place].add(config, role);
    }
    sums
}
