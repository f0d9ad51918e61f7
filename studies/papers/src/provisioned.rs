//! [`Provisioned`]: token buckets in the kernels of the sources' hosts, which `evbd provision`
//! installs and removes.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use lab_base::{bench::Bench, network::Network, system::System};

/// The mechanism by which `evbd provision` enforces the rate of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bucket {
    /// The ceiling of an HTB class.
    Htb,
    /// A tbf within an HTB class.
    Tbf,
}

impl Bucket {
    /// Returns the value of evbd's option `--bucket`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Htb => "htb",
            Self::Tbf => "tbf",
        }
    }
}

/// Hosts on which `evbd provision` has installed token buckets; dropping this value restores their
/// original links.
pub struct Provisioned<'n> {
    network: &'n Network,
    hosts: Vec<String>,
    evbd: String,
    config: String,
}

impl<'n> Provisioned<'n> {
    /// Runs `evbd provision` for `system` on the host of every source.
    pub fn apply(network: &'n Network, bench: &Bench, system: &System, bucket: Bucket) -> Result<Self> {
        let path = bench.out.join("provision.toml");
        fs::write(&path, system.config(network.shape(), bench.seconds)?)?;
        let mut provisioned = Self {
            network,
            hosts: Vec::new(),
            evbd: bench.evbd.to_string_lossy().into_owned(),
            config: path.to_string_lossy().into_owned(),
        };
        for i in 1..=network.shape().sources {
            let host = format!("s{i}");
            provisioned.call(&host, "apply", &["--replace", "--bucket", bucket.word()])?;
            provisioned.hosts.push(host);
        }
        Ok(provisioned)
    }

    fn call(&self, host: &str, action: &str, more: &[&str]) -> Result<()> {
        let mut command: Command = self.network.command(host, &self.evbd);
        command
            .args(["provision", &self.config, action, "--device", "e0", "--source", &host[1..]])
            .args(more);
        let output = command.output().context("evbd provision does not run")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("evbd provision {action} on {host}: {}", said.trim());
        }
        Ok(())
    }
}

impl Drop for Provisioned<'_> {
    fn drop(&mut self) {
        for host in &self.hosts {
            let rate = self.network.shape().rate;
            let restored = self.call(host, "remove", &[]).and_then(|()| self.network.limit_host(host, rate));
            if let Err(error) = restored {
                eprintln!("{host} keeps its token buckets: {error:#}");
            }
        }
    }
}
