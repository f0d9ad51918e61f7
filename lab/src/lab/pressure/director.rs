//! [`Director`] applies the disturbance of a stage, and removes it again.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use lab_base::{disk::Disk, fleet::Fleet, network::Network};
use serde_json::Value;

use super::{
    slow::SlowDisk,
    stage::{FROZEN, Pressure, SLOW_SINK, SLOW_SOURCE},
};

/// Rate of the slow link, as a share of the source's normal rate.
const SLOW_LINK: f64 = 0.3;

pub(super) struct Director<'a> {
    network: &'a Network,
    disks: &'a BTreeMap<String, Disk>,
    evbd: &'a Path,
    /// Path of the supervisor's configuration, which contains the address of run control.
    config: PathBuf,
    /// Normal rate of a source, in bit/s.
    usual: f64,
    pressure: Pressure,
    slow: Vec<SlowDisk>,
}

impl<'a> Director<'a> {
    pub(super) fn new(
        network: &'a Network,
        disks: &'a BTreeMap<String, Disk>,
        evbd: &'a Path,
        config: &Path,
        usual: f64,
    ) -> Self {
        let config = config.to_owned();
        Self { network, disks, evbd, config, usual, pressure: Pressure::Nothing, slow: Vec::new() }
    }

    /// Removes the current disturbance, and applies another.
    pub(super) fn set(&mut self, pressure: Pressure, fleet: &Fleet) -> Result<()> {
        match self.pressure {
            Pressure::Nothing => {}
            Pressure::FrozenSource => fleet.signal(FROZEN, "CONT")?,
            Pressure::SlowSource => self.network.limit_host(SLOW_SOURCE, self.network.shape().rate)?,
            Pressure::SlowSink | Pressure::SlowSinks => {
                self.slow.drain(..).try_for_each(SlowDisk::heal)?;
            }
        }
        self.pressure = pressure;
        match pressure {
            Pressure::Nothing => {}
            Pressure::FrozenSource => fleet.signal(FROZEN, "STOP")?,
            Pressure::SlowSource => {
                self.network.limit_host(SLOW_SOURCE, (self.usual * SLOW_LINK) as u64)?;
            }
            Pressure::SlowSink => self.slow.extend(self.disks.get(SLOW_SINK).map(SlowDisk::new)),
            Pressure::SlowSinks => self.slow.extend(self.disks.values().map(SlowDisk::new)),
        }
        Ok(())
    }

    /// Requests the status of the run from the supervisor, as JSON.
    pub(super) fn status(&self) -> Result<Value> {
        let said = self.ctl(&["status"])?;
        serde_json::from_str(&said).context("reading the status of the supervisor")
    }

    /// Sets the trigger rate of the run, in Hz.
    pub(super) fn set_rate(&self, rate: f64) -> Result<()> {
        self.ctl(&["rate", &format!("{rate:.3} Hz")]).map(drop)
    }

    fn ctl(&self, words: &[&str]) -> Result<String> {
        let mut command: Command = self.network.command("sup", &self.evbd.to_string_lossy());
        command.args(["ctl", "--json", "--config"]).arg(&self.config).args(words);
        let output = command.output().context("evbd ctl does not run")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("evbd ctl {}: {}", words.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
