//! One process per role on the lab's hosts: started, watched, measured, and gone when the guard goes.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{interrupt, network::Network};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The kernel's clock ticks per second in /proc (`USER_HZ`, 100 on every Linux architecture that we meet).
const TICKS: f64 = 100.0;

/// A role's process.
pub(crate) struct RoleProcess {
    pub(crate) host: String,
    pub(crate) log: PathBuf,
    /// The exit code once it has ended; -1 for a signal.
    pub(crate) code: Option<i32>,
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_kib: u64,
    child: Child,
}

/// All processes of one run.
pub(crate) struct Fleet {
    pub(crate) processes: Vec<RoleProcess>,
    started: Instant,
}

impl Fleet {
    /// Starts `evbd run CONFIG --role …` on every host, the supervisor first.
    pub(crate) fn start(network: &Network, evbd: &Path, config: &Path, folder: &Path) -> Result<Self> {
        let command = |host: &str| network.command(host, &evbd.to_string_lossy());
        Self::start_each(network.hosts(), command, config, folder)
    }

    /// The same with processes of this host that play the hosts' roles.
    pub(crate) fn start_here(hosts: &[&str], evbd: &Path, config: &Path, folder: &Path) -> Result<Self> {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Self::start_each(hosts, |_| Command::new(evbd), config, folder)
    }

    fn start_each(
        hosts: Vec<String>,
        command: impl Fn(&str) -> Command,
        config: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let mut fleet = Self { processes: Vec::new(), started: Instant::now() };
        for host in hosts {
            let log = folder.join(format!("{host}.log"));
            let mut command = command(&host);
            command.arg("run").arg(config).args(["--role", &role(&host)]);
            command.arg("--summary").arg(folder.join(format!("{host}.json")));
            command
                .stdin(Stdio::null())
                .stdout(File::create(&log)?)
                .stderr(File::options().append(true).open(&log)?);
            let child = command.spawn().with_context(|| format!("starting evbd on {host}"))?;
            fleet.processes.push(RoleProcess { host, log, code: None, cpu_s: 0.0, peak_rss_kib: 0, child });
        }
        Ok(fleet)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for all to end. `each_look` sees the fleet ten times a second and may act on it.
    pub(crate) fn wait(
        &mut self,
        limit: Duration,
        mut each_look: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        while self.look()? {
            interrupt::check()?;
            each_look(self)?;
            if self.elapsed() > limit {
                bail!(
                    "after {:.0} s still running: {}\n{}",
                    limit.as_secs_f64(),
                    self.running().join(" "),
                    self.complaints()
                );
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Sends a signal, by name, to the process on a host.
    pub(crate) fn signal(&self, host: &str, signal: &str) -> Result<()> {
        let process =
            self.processes.iter().find(|p| p.host == host && p.code.is_none()).context("no such process")?;
        let status =
            Command::new("kill").args([format!("-{signal}"), process.child.id().to_string()]).status()?;
        if !status.success() {
            bail!("signal {signal} did not reach {host}");
        }
        Ok(())
    }

    pub(crate) fn running(&self) -> Vec<String> {
        self.processes.iter().filter(|p| p.code.is_none()).map(|p| p.host.clone()).collect()
    }

    /// The last lines of every log whose process did not end well.
    pub(crate) fn complaints(&self) -> String {
        let mut said = String::new();
        for process in self.processes.iter().filter(|p| p.code != Some(0)).take(5) {
            let code = process.code.map_or_else(|| "running".into(), |code| format!("exit {code}"));
            let log = fs::read_to_string(&process.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            said += &format!("  {} ({code})\n", process.host);
            for line in &lines[lines.len().saturating_sub(6)..] {
                said += &format!("    {line}\n");
            }
        }
        said
    }

    /// Notes what the processes have used and who has ended. False: all have.
    fn look(&mut self) -> Result<bool> {
        let mut running = false;
        for process in self.processes.iter_mut().filter(|p| p.code.is_none()) {
            let folder = format!("/proc/{}", process.child.id());
            // A process that has ended keeps its times until it is waited for, so they are read first.
            if let Some(cpu_s) =
                fs::read_to_string(format!("{folder}/stat")).ok().and_then(|stat| cpu_seconds(&stat))
            {
                process.cpu_s = cpu_s;
            }
            let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
            process.peak_rss_kib = peak_rss(&status).unwrap_or(process.peak_rss_kib);
            match process.child.try_wait()? {
                Some(status) => process.code = Some(status.code().unwrap_or(-1)),
                None => running = true,
            }
        }
        Ok(running)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().filter(|p| p.code.is_none()) {
            // It may just have ended by itself: then there is nothing to end.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// The role that a host plays, as `--role` names it.
pub(crate) fn role(host: &str) -> String {
    match host.split_at(1) {
        _ if host == "sup" => "supervisor".into(),
        ("s", number) => format!("source:{number}"),
        (_, number) => format!("builder:{number}"),
    }
}

/// Busy and all CPU time of the machine so far, in ticks.
pub(crate) fn machine_ticks() -> Result<(u64, u64)> {
    let mut text = String::new();
    File::open("/proc/stat")?.read_to_string(&mut text)?;
    let first = text.lines().next().context("/proc/stat is empty")?;
    let ticks: Vec<u64> = first.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect();
    let all = ticks.iter().sum();
    let idle = ticks.iter().skip(3).take(2).sum::<u64>();
    Ok((all - idle, all))
}

/// User and system time from /proc/PID/stat: fields 14 and 15, counted behind the name, which may hold anything.
pub(crate) fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Some((times.next()?.ok()? + times.next()?.ok()?) / TICKS)
}

/// The largest resident set so far, in KiB, from /proc/PID/status.
pub(crate) fn peak_rss(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
