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

/// A host of the lab, by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// evbd's supervisor.
    Supervisor,
    /// A source, numbered from 1.
    Source(u32),
    /// A builder, numbered from 1.
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

/// The place of a run's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This host, over loopback.
    Loopback,
    /// The lab, with each process in the network namespace of its host.
    Lab,
}

impl Place {
    /// Returns a command that starts `program` on `host`. It becomes the program itself, so its
    /// process id is the program's.
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

    /// Returns the address of `host`.
    pub fn address(self, host: Host) -> String {
        match (self, host) {
            (Self::Loopback, _) => "127.0.0.1".to_owned(),
            (Self::Lab, Host::Supervisor) => "10.77.3.1".to_owned(),
            (Self::Lab, Host::Source(id)) => format!("10.77.1.{id}"),
            (Self::Lab, Host::Builder(id)) => format!("10.77.2.{id}"),
        }
    }

    /// Rejects a lab that lacks a host for one of the sources or builders.
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
}

/// Returns the hosts that are not in `ip netns list`.
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

/// Returns the sum over the ports in tc's JSON. A port is a token bucket; packets that the lab
/// loses at random are not among its drops.
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
