//! A complete configuration for given hosts, for example those of a Slurm job.

#[cfg(test)]
mod tests;

use std::{
    fmt::Write as _,
    io::{self, Read as _},
    path::Path,
    time::Duration,
};

use evb_core::{set::MAX_SOURCES, units::Bytes, wire::control::MAX_BUILDERS};

use super::{
    PlanArguments,
    advice::advise,
    skeleton::{host_rate, network, trigger},
};
use crate::{Endpoint, is_host, is_unspecified};

/// Default payload of each source's fragments.
const FRAGMENT: Bytes = Bytes::new(1000);
/// Start timeout of the run, long enough for hosts of a job that start one after the other.
const START_TIMEOUT: &str = "2 min";
/// Offset of builders' ports: builder N listens at the supervisor's port + [`BUILDERS_FROM`] + N.
const BUILDERS_FROM: u16 = 100;
/// Largest number of bytes that are read from a list of hosts.
const LONGEST: u64 = 1024 * 1024;

/// The reason why the list of hosts cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum AllocationError {
    /// A word in the list is neither the name nor the address of a host.
    #[error("--hosts: `{0}` is neither the name nor an address of a host; write for example daq1,daq2,daq3")]
    NoHost(String),
    /// The list is abbreviated in Slurm's notation, such as `n[1-3]`.
    #[error("--hosts: `{0}` is an abbreviated list; give its hosts: $(scontrol show hostnames '{0}')")]
    Short(String),
    /// The list contains no hosts.
    #[error(
        "--hosts: the list is empty; give for example daq1,daq2,daq3, or in a Slurm job $(scontrol show hostnames)"
    )]
    Empty,
    /// Standard input cannot be read.
    #[error(
        "--hosts -: cannot read the list from standard input: {0}; pipe in the names of hosts as plain text, or write them after --hosts"
    )]
    Input(#[from] io::Error),
}

/// The assignment of roles to hosts.
#[derive(Debug)]
pub(super) struct Allocation<'a> {
    arguments: &'a PlanArguments,
    /// Time from a grant to its data on which the advice is based.
    path: Duration,
    hosts: Vec<String>,
    sources: u16,
    builders: u16,
    fragment: Bytes,
}

/// Returns the hosts of sources and builders: all but the supervisor's, or both of two hosts, so
/// that events cross the network between them.
fn workers(hosts: &[String]) -> &[String] {
    if hosts.len() > 2 { &hosts[1..] } else { hosts }
}

impl<'a> Allocation<'a> {
    /// Assigns sources and builders to the hosts of the command line.
    ///
    /// # Errors
    /// [`AllocationError`]: the arguments are not a list of hosts.
    pub(super) fn new(arguments: &'a PlanArguments, path: Duration) -> Result<Self, AllocationError> {
        let hosts = hosts(&arguments.allocation.hosts)?;
        let workers = workers(&hosts).len();
        let most = |most: usize| u16::try_from(workers.min(most)).unwrap_or(u16::MAX);
        let sources = arguments.sources.unwrap_or_else(|| most(MAX_SOURCES));
        let fragment =
            arguments.event_size.map(|event| Bytes::new(event.count().div_ceil(u64::from(sources)).max(1)));
        Ok(Self {
            arguments,
            path,
            hosts,
            sources,
            builders: arguments.builders.unwrap_or_else(|| most(MAX_BUILDERS)),
            fragment: fragment.unwrap_or(FRAGMENT),
        })
    }

    /// Returns the host of a source. Sources take the hosts in turn, from the first to the last.
    fn source_host(&self, index: u16) -> &str {
        let workers = workers(&self.hosts);
        &workers[usize::from(index) % workers.len()]
    }

    /// Returns the host of a builder. Builders take the hosts in turn, from the last to the first,
    /// so that a few sources and a few builders do not share hosts.
    fn builder_host(&self, index: u16) -> &str {
        let workers = workers(&self.hosts);
        &workers[workers.len() - 1 - usize::from(index) % workers.len()]
    }

    /// Returns the TOML configuration for the hosts.
    pub(super) fn text(&self) -> String {
        let given = &self.arguments.allocation;
        let event = self.fragment * u64::from(self.sources);
        let numbers = self.arguments.numbers(self.sources, self.builders, event);
        let advice = numbers.as_ref().map(|numbers| advise(numbers, self.path));
        let mut text = format!(
            "# {} hosts, {} sources, {} builders. On each host: evbd run THIS_FILE --here\n\n",
            self.hosts.len(),
            self.sources,
            self.builders
        );
        if let Some(events) = given.events {
            let _ = writeln!(text, "[run]\nevents = {events}\n");
        }
        let listen = Endpoint { host: self.hosts[0].clone(), port: given.port };
        let _ = writeln!(
            text,
            "[supervisor]\nlisten        = \"{listen}\"\ntrigger       = {}\nstart_timeout = \"{START_TIMEOUT}\"",
            trigger(self.arguments.trigger_rate)
        );
        if let Some(advice) = &advice {
            let _ = writeln!(text, "slots         = {}", advice.slots);
        }
        text.push('\n');
        if let (Some(numbers), Some(advice)) = (&numbers, &advice) {
            text += &network(numbers, advice);
        }
        text += &self.security();
        for index in 0..self.sources {
            let (id, host, size) = (index + 1, self.source_host(index), self.fragment.count());
            let _ = writeln!(
                text,
                "\n[[source]]\nid    = {id}\nhost  = \"{host}\"\ninput = {{ kind = \"generator\", size = \"{size} B\" }}"
            );
            if let Some(rate) = numbers.as_ref().and_then(host_rate) {
                let _ = writeln!(text, "link_rate = {rate}");
            }
        }
        let sink = given.out.as_deref().map_or_else(
            || "\"null\"".to_owned(),
            |path| format!("{{ kind = \"file\", path = {} }}", quoted(path)),
        );
        for index in 0..self.builders {
            let (id, host) = (index + 1, self.builder_host(index).to_owned());
            let listen = Endpoint { host, port: given.port + BUILDERS_FROM + id };
            let _ = writeln!(text, "\n[[builder]]\nid     = {id}\nlisten = \"{listen}\"\nsink   = {sink}");
        }
        text
    }

    fn security(&self) -> String {
        match self.arguments.allocation.key_file.as_deref() {
            Some(key) => format!("[security]\nmode     = \"psk\"\nkey_file = {}\n", quoted(key)),
            None => "[security]\nmode = \"none\"  # every peer that reaches the ports is trusted: use a network of its own, or plan again with --key-file FILE\n"
                .to_owned(),
        }
    }
}

/// Returns each host once, in the order of the command line.
fn hosts(given: &[String]) -> Result<Vec<String>, AllocationError> {
    let mut hosts: Vec<String> = Vec::new();
    for argument in given {
        let read = if argument == "-" { read_input()? } else { argument.clone() };
        if read.contains('[') {
            return Err(AllocationError::Short(read.trim().to_owned()));
        }
        for host in read.split(|c: char| c == ',' || c.is_whitespace()).filter(|host| !host.is_empty()) {
            if !is_host(host) || is_unspecified(host) {
                return Err(AllocationError::NoHost(host.to_owned()));
            }
            if !hosts.iter().any(|known| known == host) {
                hosts.push(host.to_owned());
            }
        }
    }
    if hosts.is_empty() { Err(AllocationError::Empty) } else { Ok(hosts) }
}

fn read_input() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns a path as a quoted TOML string.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.to_string_lossy().into_owned()).to_string()
}
