//! [`Bench`] runs the systems of a scenario: it writes the configuration, starts the processes, and
//! collects the outcome.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    disk,
    fleet::{Fleet, machine_ticks},
    network::{Network, PortCount},
    outcome::Outcome,
    system::{System, Transport},
};

/// Time allowed for start, drain and final counters, in addition to the duration of a run.
const GRACE: Duration = Duration::from_secs(60);

/// The settings that all runs of a scenario share.
pub struct Bench {
    pub out: PathBuf,
    pub evbd: PathBuf,
    pub seconds: f64,
    pub runs: usize,
    pub only: String,
    /// Transports that a scenario tests one after the other, if it supports both.
    pub transports: &'static [Transport],
    /// True if hosts send trains of packets, in scenarios that can run with and without trains.
    pub trains: bool,
    /// Largest IP packet, in bytes.
    pub mtu: u64,
}

impl Bench {
    /// Returns true if the command line selects the case with this name.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    /// Returns the path of the program `evb-bench`, which is built beside evbd.
    pub fn evb_bench(&self) -> Result<String> {
        let path = self.evbd.with_file_name("evb-bench");
        ensure!(
            path.is_file(),
            "there is no {}: build it with `cargo build --release -p evb-bench`",
            path.display()
        );
        Ok(path.to_string_lossy().into_owned())
    }

    /// Returns the name of a case, with the transport appended if it is UDP.
    pub fn name(case: &str, transport: Transport) -> String {
        match transport {
            Transport::Tcp => case.to_owned(),
            Transport::Udp => format!("{case} udp"),
        }
    }

    /// Returns the name of the folder for the files of a case.
    pub fn case(name: &str) -> String {
        name.replace(" %", "").replace(' ', "-")
    }

    /// Creates an empty folder for the files of a case.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.out.join(Self::case(name));
        disk::unmount_below(&folder)?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Runs a system until all its processes have ended.
    pub fn run(&self, network: &Network, name: &str, system: System) -> Result<Outcome> {
        self.run_with(network, name, system, |_| Ok(()))
    }

    /// Runs a system with the evbd at path `evbd` instead of the usual one.
    pub fn run_program(&self, evbd: &Path, network: &Network, name: &str, system: System) -> Result<Outcome> {
        self.run_each(evbd, self.seconds, network, name, system, |_| Ok(()))
    }

    /// Runs a system, and calls `each_look` several times a second, which may act on its processes.
    pub fn run_with(
        &self,
        network: &Network,
        name: &str,
        system: System,
        each_look: impl FnMut(&mut Fleet) -> Result<()>,
    ) -> Result<Outcome> {
        self.run_each(&self.evbd, self.seconds, network, name, system, each_look)
    }

    /// Runs a system for `seconds` instead of the usual duration of the scenario's runs.
    pub fn run_for(
        &self,
        seconds: f64,
        network: &Network,
        name: &str,
        system: System,
        each_look: impl FnMut(&mut Fleet) -> Result<()>,
    ) -> Result<Outcome> {
        self.run_each(&self.evbd, seconds, network, name, system, each_look)
    }

    fn run_each(
        &self,
        evbd: &Path,
        seconds: f64,
        network: &Network,
        name: &str,
        system: System,
        each_look: impl FnMut(&mut Fleet) -> Result<()>,
    ) -> Result<Outcome> {
        let folder = self.folder(name)?;
        let config = folder.join("config.toml");
        fs::write(&config, system.config(network.shape(), seconds)?)?;
        let (before, (busy_before, all_before)) = (network.ports()?, machine_ticks()?);
        let spared = system.spares_last_source.then(|| format!("s{}", network.shape().sources));
        let mut fleet = Fleet::start_without(spared.as_deref(), network, evbd, &config, &folder)?;
        let limit = Duration::from_secs_f64(seconds) + GRACE;
        fleet.wait(limit, each_look).with_context(|| format!("{name}, see {}", folder.display()))?;
        let wall_s = fleet.elapsed().as_secs_f64();
        let (busy, all) = machine_ticks()?;
        let outcome = Outcome {
            name: name.to_owned(),
            shape: network.shape(),
            system,
            summary: summary(&folder.join("sup.json"), name, &fleet)?,
            ports: since(&before, network.ports()?),
            codes: fleet.processes.iter().map(|p| (p.host.clone(), p.code.unwrap_or(-1))).collect(),
            wall_s,
            cpu_s: fleet.processes.iter().map(|p| p.cpu_s).sum(),
            machine_busy: (busy - busy_before) as f64 / (all - all_before).max(1) as f64,
            peak_rss_kib: peaks(&fleet),
        };
        if outcome.codes.values().any(|code| *code != 0) {
            eprint!("{name}: not every process ended well\n{}", fleet.complaints());
        }
        Ok(outcome)
    }
}

fn summary(path: &Path, name: &str, fleet: &Fleet) -> Result<Value> {
    let missing = || format!("{name}: no summary from the supervisor\n{}", fleet.complaints());
    let text = fs::read_to_string(path).with_context(missing)?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// Returns the increase of drops and bytes of every switch port between two counts, by host.
pub fn since(
    before: &BTreeMap<String, PortCount>,
    after: BTreeMap<String, PortCount>,
) -> BTreeMap<String, PortCount> {
    let count = |host: &str| before.get(host).copied().unwrap_or_default();
    after
        .into_iter()
        .map(|(host, now)| {
            let then = count(&host);
            (host, PortCount { drops: now.drops - then.drops, bytes: now.bytes - then.bytes })
        })
        .collect()
}

/// Returns the peak resident memory of the largest supervisor, source and builder process, in KiB.
pub fn peaks(fleet: &Fleet) -> BTreeMap<&'static str, u64> {
    let mut peaks = BTreeMap::new();
    for process in &fleet.processes {
        let kind = match process.host.as_bytes() {
            b"sup" => "supervisor",
            [b's', ..] => "source",
            _ => "builder",
        };
        let peak: &mut u64 = peaks.entry(kind).or_default();
        *peak = process.peak_rss_kib.max(*peak);
    }
    peaks
}
