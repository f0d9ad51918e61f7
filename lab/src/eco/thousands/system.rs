//! The processes of a run with very many sources.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use lab_base::{
    fleet::{cpu_seconds, memory},
    guard::Guarded,
};
use serde_json::Value;

use super::{read, wait};

/// Bytes of a fragment.
const FRAGMENT: u32 = 2000;

/// Name of the process of all builders, and of the process of sources that is killed.
const BUILDERS: &str = "builders";
const KILLED: &str = "sources-0";

/// Numbers of sources, builders, and processes of sources.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) sources: u16,
    pub(super) builders: u16,
    pub(super) processes: u16,
}

/// Resources that a process uses.
pub(super) struct Usage {
    /// Processor time so far.
    pub(super) processor: Duration,
    /// Resident memory in bytes.
    pub(super) memory: u64,
}

/// A run whose processes are killed when this value is dropped.
pub(super) struct System {
    evbd: PathBuf,
    folder: PathBuf,
    size: Size,
    begun: Instant,
    processes: Vec<(String, Guarded)>,
}

impl Size {
    /// Returns the number of lanes that end at a process.
    pub(super) fn lanes_of(self, name: &str) -> u64 {
        let all = u64::from(self.sources) * u64::from(self.builders);
        match name {
            BUILDERS => all,
            name if name.starts_with("sources") => all / u64::from(self.processes),
            _ => 0,
        }
    }

    /// Returns the roles of each process.
    fn roles(self) -> Vec<(String, Vec<String>)> {
        let builders = (1..=self.builders).map(|id| format!("builder:{id}")).collect();
        let mut all =
            vec![("supervisor".to_owned(), vec!["supervisor".to_owned()]), (BUILDERS.to_owned(), builders)];
        for process in 0..self.processes {
            let own = (1..=self.sources).filter(|id| (id - 1) % self.processes == process);
            all.push((format!("sources-{process}"), own.map(|id| format!("source:{id}")).collect()));
        }
        all
    }

    fn config(self, events: u64, trigger: &str) -> String {
        let Self { sources, builders, .. } = self;
        format!(
            "[run]\nnumber = 1\nevents = {events}\n[supervisor]\nlisten = \"127.0.0.1:7000\"\n\
             start_timeout = \"60 s\"\ntrigger = {trigger}\n\
             [[source]]\nids = \"1-{sources}\"\nbind = \"127.0.0.1\"\n\
             input = {{ kind = \"generator\", size = \"{FRAGMENT} B\" }}\n\
             [[builder]]\nids = \"1-{builders}\"\nlisten = \"127.0.0.1:{{10000+id}}\"\nsink = \"null\"\n"
        )
    }
}

impl System {
    /// Starts all processes.
    pub(super) fn start(evbd: &Path, folder: &Path, size: Size, events: u64, trigger: &str) -> Result<Self> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("evb.toml"), size.config(events, trigger))?;
        let (evbd, folder) = (evbd.to_owned(), folder.to_owned());
        let mut system = Self { evbd, folder, size, begun: Instant::now(), processes: Vec::new() };
        for (name, roles) in size.roles() {
            system.spawn(&name, &roles)?;
        }
        Ok(system)
    }

    fn spawn(&mut self, name: &str, roles: &[String]) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.join(format!("{name}.log")))?;
        let mut command = Command::new(&self.evbd);
        command.args(["run", "evb.toml", "--quiet", "--summary"]).arg(format!("{name}.json"));
        command.args(roles.iter().flat_map(|role| ["--role", role])).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| self.evbd.display().to_string())?;
        self.processes.push((name.to_owned(), Guarded(child)));
        Ok(())
    }

    /// Waits until all lanes have a connection, and returns the time since the start.
    pub(super) fn connected(&mut self, limit: Duration) -> Result<Duration> {
        let (lanes, begun) = (self.size.lanes_of(BUILDERS), self.begun);
        let process = self.process(BUILDERS)?;
        let id = process.0.id();
        wait("all lanes connected", limit, || {
            let count = fs::read_dir(format!("/proc/{id}/fd"))?.count() as u64;
            ensure!(process.0.try_wait()?.is_none(), "the builders have ended");
            Ok((count >= lanes).then(|| begun.elapsed()))
        })
    }

    fn process(&mut self, name: &str) -> Result<&mut Guarded> {
        let found = self.processes.iter_mut().find(|(known, _)| known == name);
        Ok(&mut found.with_context(|| format!("no process {name}"))?.1)
    }

    /// Returns the resources that each process uses.
    pub(super) fn usage(&self) -> Result<Vec<(String, Usage)>> {
        let of = |(name, process): &(String, Guarded)| Ok((name.clone(), Usage::of(process.0.id())?));
        self.processes.iter().map(of).collect()
    }

    /// Kills one process of sources with SIGKILL.
    pub(super) fn kill_sources(&mut self) -> Result<()> {
        self.process(KILLED)?;
        self.processes.retain(|(name, _)| name != KILLED);
        Ok(())
    }

    /// Starts the killed process again.
    pub(super) fn start_sources(&mut self) -> Result<()> {
        let roles = self.size.roles().into_iter().find(|(name, _)| name == KILLED);
        let (name, roles) = roles.context("no such process")?;
        self.spawn(&name, &roles)
    }

    /// Waits until all processes have ended, and returns the supervisor's summary of the run.
    pub(super) fn finish(mut self, limit: Duration) -> Result<Value> {
        wait("over", limit, || {
            let mut states = self.processes.iter_mut().map(|(_, process)| process.0.try_wait());
            let ended = states.by_ref().map(|state| Ok(state?.is_some())).collect::<Result<Vec<_>>>()?;
            Ok(ended.into_iter().all(|has_ended| has_ended).then_some(()))
        })?;
        read(&self.folder.join("supervisor.json"))
    }
}

impl Usage {
    fn of(id: u32) -> Result<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}"));
        let used = cpu_seconds(&read("stat").context("a process has ended")?).context("/proc/PID/stat")?;
        let resident = memory(&read("status")?, "VmRSS:").context("/proc/PID/status")?;
        Ok(Self { processor: Duration::from_secs_f64(used), memory: resident * 1024 })
    }
}
