//! [`Fleet`] starts one evbd process per role on the lab's hosts, observes them, and kills them
//! when it is dropped.

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
/// The memory of the processes is read only in every fifth call of [`Fleet::look`], because the
/// kernel needs long to sum it up, on cores that the network needs.
const MEMORY_EVERY: u32 = 5;
/// Clock ticks per second in which the kernel states processor times in /proc (`USER_HZ`, 100 on
/// every Linux architecture that evb runs on).
const TICKS: f64 = 100.0;

/// The evbd process of a role.
pub struct RoleProcess {
    pub host: String,
    pub log: PathBuf,
    /// Exit code once the process has ended; -1 if a signal ended it.
    pub code: Option<i32>,
    pub cpu_s: f64,
    pub peak_rss_kib: u64,
    /// Resident memory at the last reading, in KiB.
    pub rss_kib: u64,
    child: Child,
    /// True if the test has killed the process, so that its end is no error.
    is_killed: bool,
}

/// All evbd processes of one run.
pub struct Fleet {
    pub processes: Vec<RoleProcess>,
    started: Instant,
    looks: u32,
    /// Start command of each process, by host.
    commands: Vec<(String, Command)>,
}

impl Fleet {
    /// Starts `evbd run CONFIG --role …` on every host, the supervisor first.
    pub fn start(network: &Network, evbd: &Path, config: &Path, folder: &Path) -> Result<Self> {
        Self::start_without(None, network, evbd, config, folder)
    }

    /// Starts `evbd run CONFIG --role …` on every host except `spared`.
    pub fn start_without(
        spared: Option<&str>,
        network: &Network,
        evbd: &Path,
        config: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let command = |host: &str| network.command(host, &evbd.to_string_lossy());
        let hosts = network.hosts().into_iter().filter(|host| Some(host.as_str()) != spared).collect();
        Self::start_each(hosts, command, |_| config, folder)
    }

    /// Starts `evbd run CONFIG --role …` on every host; the supervisor reads another configuration
    /// file than the other roles.
    pub fn start_with_two_configs(
        network: &Network,
        evbd: &Path,
        supervisor: &Path,
        others: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let command = |host: &str| network.command(host, &evbd.to_string_lossy());
        let config = |host: &str| if host == "sup" { supervisor } else { others };
        Self::start_each(network.hosts(), command, config, folder)
    }

    /// Starts the roles as processes of this machine, without the lab's network.
    pub fn start_here(hosts: &[&str], evbd: &Path, config: &Path, folder: &Path) -> Result<Self> {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Self::start_each(hosts, |_| Command::new(evbd), |_| config, folder)
    }

    fn start_each<'a>(
        hosts: Vec<String>,
        command: impl Fn(&str) -> Command,
        config: impl Fn(&str) -> &'a Path,
        folder: &Path,
    ) -> Result<Self> {
        let mut fleet =
            Self { processes: Vec::new(), started: Instant::now(), looks: 0, commands: Vec::new() };
        for host in hosts {
            let log = folder.join(format!("{host}.log"));
            let mut command = command(&host);
            command.arg("run").arg(config(&host)).args(["--role", &role(&host)]);
            command.arg("--summary").arg(folder.join(format!("{host}.json")));
            File::create(&log)?;
            let append = || File::options().append(true).open(&log);
            command.stdin(Stdio::null()).stdout(append()?).stderr(append()?);
            let process = RoleProcess::start(&host, log.clone(), &mut command)?;
            fleet.processes.push(process);
            fleet.commands.push((host, command));
        }
        Ok(fleet)
    }

    /// Kills the process on a host, and waits until it has ended.
    pub fn kill(&mut self, host: &str) -> Result<()> {
        let process = self.running_on(host)?;
        process.is_killed = true;
        process.child.kill()?;
        process.code = Some(process.child.wait()?.code().unwrap_or(-1));
        Ok(())
    }

    /// Restarts the process of a host.
    pub fn start_again(&mut self, host: &str) -> Result<()> {
        let place = self.commands.iter().position(|(known, _)| known == host).context("no such host")?;
        let old = &self.processes[place];
        let mut process = RoleProcess::start(host, old.log.clone(), &mut self.commands[place].1)?;
        (process.cpu_s, process.peak_rss_kib) = (0.0, old.peak_rss_kib);
        self.processes[place] = process;
        Ok(())
    }

    /// Returns a host whose process has ended by itself, unless processes may end (`may_end`).
    pub fn ended_early(&self, may_end: bool) -> Option<&str> {
        let ended = |process: &&RoleProcess| process.code.is_some() && !process.is_killed && !may_end;
        self.processes.iter().find(ended).map(|process| process.host.as_str())
    }

    fn running_on(&mut self, host: &str) -> Result<&mut RoleProcess> {
        let running = |process: &&mut RoleProcess| process.host == host && process.code.is_none();
        self.processes.iter_mut().find(running).with_context(|| format!("nothing runs on {host}"))
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until all processes have ended. Calls `each_look` ten times a second, which may act on
    /// the fleet.
    pub fn wait(
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
    pub fn signal(&self, host: &str, signal: &str) -> Result<()> {
        let process =
            self.processes.iter().find(|p| p.host == host && p.code.is_none()).context("no such process")?;
        let status =
            Command::new("kill").args([format!("-{signal}"), process.child.id().to_string()]).status()?;
        if !status.success() {
            bail!("signal {signal} did not reach {host}");
        }
        Ok(())
    }

    /// Sends a signal, by name, to the processes of several hosts at once, if they still run.
    pub fn signal_all(&self, hosts: &[String], signal: &str) -> Result<()> {
        let is_meant = |p: &&RoleProcess| p.code.is_none() && hosts.contains(&p.host);
        let pids: Vec<String> =
            self.processes.iter().filter(is_meant).map(|p| p.child.id().to_string()).collect();
        if pids.is_empty() {
            return Ok(());
        }
        // The exit code of `kill` is ignored, because a process may have ended in the meantime.
        Command::new("kill").arg(format!("-{signal}")).args(pids).status()?;
        Ok(())
    }

    pub fn running(&self) -> Vec<String> {
        self.processes.iter().filter(|p| p.code.is_none()).map(|p| p.host.clone()).collect()
    }

    /// Returns the last lines of the logs of up to five processes that failed or still run.
    pub fn complaints(&self) -> String {
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

    /// Records resource usage and exit code of every process. Returns false if all processes have
    /// ended.
    pub fn look(&mut self) -> Result<bool> {
        let mut running = false;
        let with_memory = self.looks.is_multiple_of(MEMORY_EVERY);
        self.looks += 1;
        for process in self.processes.iter_mut().filter(|p| p.code.is_none()) {
            let folder = format!("/proc/{}", process.child.id());
            // Processor times are read before `try_wait`, because the kernel keeps them only until
            // an ended process has been waited for.
            if let Some(cpu_s) =
                fs::read_to_string(format!("{folder}/stat")).ok().and_then(|stat| cpu_seconds(&stat))
            {
                process.cpu_s = cpu_s;
            }
            if with_memory {
                let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
                process.rss_kib = memory(&status, "VmRSS:").unwrap_or_default();
                process.peak_rss_kib =
                    memory(&status, "VmHWM:").unwrap_or_default().max(process.peak_rss_kib);
            }
            match process.child.try_wait()? {
                Some(status) => process.code = Some(status.code().unwrap_or(-1)),
                None => running = true,
            }
        }
        Ok(running)
    }
}

impl RoleProcess {
    fn start(host: &str, log: PathBuf, command: &mut Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("starting evbd on {host}"))?;
        Ok(Self {
            host: host.to_owned(),
            log,
            code: None,
            cpu_s: 0.0,
            peak_rss_kib: 0,
            rss_kib: 0,
            child,
            is_killed: false,
        })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().filter(|p| p.code.is_none()) {
            // Killing fails harmlessly if the process has just ended by itself.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// Returns the role of a host in the form of evbd's option `--role`.
pub fn role(host: &str) -> String {
    match host.split_at(1) {
        _ if host == "sup" => "supervisor".into(),
        ("s", number) => format!("source:{number}"),
        (_, number) => format!("builder:{number}"),
    }
}

/// Returns the busy and the total CPU time of the machine since its boot, in ticks.
pub fn machine_ticks() -> Result<(u64, u64)> {
    let mut text = String::new();
    File::open("/proc/stat")?.read_to_string(&mut text)?;
    let first = text.lines().next().context("/proc/stat is empty")?;
    let ticks: Vec<u64> = first.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect();
    let all = ticks.iter().sum();
    let idle = ticks.iter().skip(3).take(2).sum::<u64>();
    Ok((all - idle, all))
}

/// Returns user plus system time in seconds from the content of /proc/PID/stat, fields 14 and 15.
/// Their sum is the scheduler's exact run time, unlike the times of the whole machine in
/// /proc/stat, which the kernel samples at each tick (`cputime_adjust` in kernel/sched/cputime.c).
pub fn cpu_seconds(stat: &str) -> Option<f64> {
    sum_of_ticks(stat, 14)
}

/// Returns the processor time in seconds of all processes that this process has started and that
/// have ended, with their own such processes: fields 16 and 17 of /proc/self/stat.
pub fn ended_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    sum_of_ticks(&stat, 16).context("/proc/self/stat is not as expected")
}

/// Returns the sum of two neighbouring fields of /proc/PID/stat, in seconds. The fields are counted
/// from the end of the process name (field 2), which may contain blanks.
fn sum_of_ticks(stat: &str, first: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(first - 3).take(2).map(str::parse::<f64>);
    Some((times.next()?.ok()? + times.next()?.ok()?) / TICKS)
}

/// Returns a process's resident memory in KiB from the content of /proc/PID/status; the key
/// `VmRSS:` stands for the current value, `VmHWM:` for the largest so far.
pub fn memory(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
