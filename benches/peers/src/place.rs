//! Places of a run's processes: all on loopback, or each on a host of the network lab.
//!
//! The lab's hosts are network namespaces on the ports of a switch (`cargo xtask lab up`), and at
//! most one lab is up on a machine: `evb-sup`, `evb-s1` and so on, `evb-b1` and so on, and the
//! switch `evb-sw`, whose ports have names like `p-b1`.

#[cfg(test)]
mod tests;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt;
use std::process::Command;

const PREFIX: &str = "evb-";
const SWITCH: &str = "evb-sw";

/// A host of the network lab, named by the role of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The host of evbd's supervisor.
    Supervisor,
    /// The host of a source, numbered from 1.
    Source(u32),
    /// The host of a builder, numbered from 1.
    Builder(u32),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Supervisor => f.write_str("sup"),
            Self::Source(id) => write!(f, "s{id}"),
            Self::Builder(id) => write!(f, "b{id}"),
        }
    }
}

/// Place where the processes of a run are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All processes on this host, connected over loopback.
    Loopback,
    /// The network lab, with each process in the network namespace of its lab host.
    Lab,
}

impl Place {
    /// Returns a command that starts `program` on `host`. The process id of the command is that of
    /// `program`, because the command's process executes it directly.
    pub fn command(self, host: Host, program: impl AsRef<OsStr>) -> Command {
        match self {
            Self::Loopback => Command::new(program),
            Self::Lab => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &format!("{PREFIX}{host}")]).arg(program);
                command
            }
        }
    }

    /// Returns the IP address of `host`.
    pub fn address(self, host: Host) -> String {
        match (self, host) {
            (Self::Loopback, _) => "127.0.0.1".to_owned(),
            (Self::Lab, Host::Supervisor) => "10.77.3.1".to_owned(),
            (Self::Lab, Host::Source(id)) => format!("10.77.1.{id}"),
            (Self::Lab, Host::Builder(id)) => format!("10.77.2.{id}"),
        }
    }

    /// Fails if the lab has no host for one of the sources or builders; always succeeds on
    /// loopback.
    pub fn check(self, sources: u32, builders: u32) -> Result<()> {
        if self == Self::Loopback {
            return Ok(());
        }
        let missing = missing(&ip(&["netns", "list"])?, sources, builders);
        ensure!(
            missing.is_empty(),
            "the lab has no {}; bring one up: cargo xtask lab up {sources} {builders} 1000 128",
            missing.join(", ")
        );
        Ok(())
    }

    /// Returns the packets that the switch's ports have dropped since the lab came up; `None` on
    /// loopback, which has no ports.
    pub fn drops(self) -> Result<Option<u64>> {
        match self {
            Self::Loopback => Ok(None),
            Self::Lab => {
                let said = ip(&["netns", "exec", SWITCH, "tc", "-s", "-j", "qdisc", "show"])?;
                port_drops(&said).map(Some)
            }
        }
    }

    /// Returns the packets that the switch's ports have dropped since they had dropped `before`.
    pub fn drops_since(self, before: Option<u64>) -> Result<Option<u64>> {
        Ok(self.drops()?.zip(before).map(|(after, before)| after.saturating_sub(before)))
    }
}

/// Returns the lab hosts that are missing in `listed`, the output of `ip netns list`.
fn missing(listed: &str, sources: u32, builders: u32) -> Vec<String> {
    let listed: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    [Host::Supervisor]
        .into_iter()
        .chain((1..=sources).map(Host::Source))
        .chain((1..=builders).map(Host::Builder))
        .map(|host| format!("{PREFIX}{host}"))
        .chain([SWITCH.to_owned()])
        .filter(|name| !listed.contains(&name.as_str()))
        .collect()
}

/// Returns the sum of the drops of all switch ports in tc's JSON output. The lab implements a port
/// as a token bucket (`tbf`); packets that the lab loses at random are not among the drops of a
/// port.
fn port_drops(json: &str) -> Result<u64> {
    let entries: Vec<Value> = serde_json::from_str(json).context("reading the answer of tc")?;
    let ports = entries.iter().filter(|entry| entry["kind"] == "tbf");
    let drops = ports.map(|port| port["drops"].as_u64()).collect::<Option<Vec<u64>>>();
    let drops = drops.context("tc states no drops of a port")?;
    ensure!(!drops.is_empty(), "the switch {SWITCH} has no port with a token bucket");
    Ok(drops.iter().sum())
}

fn ip(arguments: &[&str]) -> Result<String> {
    let output = Command::new("ip").args(arguments).output().context("the program ip does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {}: {}", arguments.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
