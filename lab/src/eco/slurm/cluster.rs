//! A Slurm cluster: munged, slurmctld on one simulated host, and slurmd on each of four others.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use lab_base::guard::Guarded;

use crate::eco::hosts::{Host, Hosts, said, until};

const NODES: u16 = 4;
const CONTROLLER: &str = "ctl";
/// Folder for the sockets of munged and Slurm; its path is short because the length of a socket
/// path is limited.
const RUNTIME: &str = "/run/slurm";
const SOON: Duration = Duration::from_secs(40);

/// The running daemons of the cluster; dropping this value ends all of them.
pub(super) struct Cluster {
    hosts: Hosts,
    folder: PathBuf,
    nodes: Vec<(String, Guarded)>,
    _others: Vec<Guarded>,
}

impl Cluster {
    /// Starts the Slurm cluster, and waits until every node is idle.
    pub(super) fn up(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("state"))?;
        let node = |number: u16| (format!("n{number}"), format!("10.80.0.{number}"));
        let all: Vec<_> =
            (1..=NODES).map(node).chain([(CONTROLLER.to_owned(), "10.80.0.100".to_owned())]).collect();
        let names: String = all.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
        let hosts: Vec<Host> = all
            .iter()
            .map(|(name, address)| Host { name: name.clone(), addresses: vec![format!("{address}/24")] })
            .collect();
        let hosts = Hosts::up(folder, &hosts, &format!("127.0.0.1 localhost\n{names}"))?;
        let mut cluster = Self { hosts, folder: folder.to_owned(), nodes: Vec::new(), _others: Vec::new() };
        cluster.start_munge()?;
        fs::write(folder.join("slurm.conf"), cluster.configuration())?;
        // By default, Slurm 22.05 looks for a cgroup v2 hierarchy, which the simulated hosts lack;
        // with the plugin for cgroup v1, Slurm starts without cgroups.
        fs::write(folder.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")?;
        let mut controller = cluster.hosts.machine(CONTROLLER, "slurmctld");
        let controller = cluster.start("slurmctld", controller.arg("-D"))?;
        cluster._others.push(controller);
        for number in 1..=NODES {
            let name = format!("n{number}");
            let mut daemon = cluster.hosts.machine(&name, "slurmd");
            let daemon = cluster.start(&format!("slurmd.{name}"), daemon.args(["-D", "-N", &name]))?;
            cluster.nodes.push((name, daemon));
        }
        let idle = || cluster.slurm("sinfo", &["--noheader", "--Node", "--format=%t"]).unwrap_or_default();
        until("all nodes idle", SOON, || idle().lines().filter(|state| *state == "idle").count() == 4)?;
        Ok(cluster)
    }

    /// Runs a Slurm command such as `sinfo` on the controller's host, and returns its output.
    pub(super) fn slurm(&self, program: &str, arguments: &[&str]) -> Result<String> {
        said(&mut self.command(program, arguments))
    }

    /// Returns a Slurm command on the controller's host, without starting it.
    pub(super) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.hosts.command(CONTROLLER, program);
        command.args(arguments).env("SLURM_CONF", self.folder.join("slurm.conf")).current_dir(&self.folder);
        command
    }

    /// Simulates a power cut of a node. The network cable is disconnected first, so that ending
    /// processes cannot send messages.
    pub(super) fn kill(&mut self, name: &str) -> Result<()> {
        self.hosts.cut(name)?;
        let place = self.nodes.iter().position(|(known, _)| known == name).context("no such node")?;
        drop(self.nodes.remove(place));
        Ok(())
    }

    fn start(&self, name: &str, command: &mut Command) -> Result<Guarded> {
        let log = File::create(self.folder.join(format!("{name}.log")))?;
        command.env("SLURM_CONF", self.folder.join("slurm.conf")).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        Ok(Guarded(command.spawn().with_context(|| format!("{name} does not start"))?))
    }

    /// Starts munged with a new key. One munged serves all simulated hosts, because they share the
    /// file system with its socket.
    fn start_munge(&mut self) -> Result<()> {
        fs::create_dir_all(RUNTIME)?;
        let key = Path::new(RUNTIME).join("munge.key");
        let mut random = vec![0; 1024];
        std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut random)?;
        fs::write(&key, random)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let mut command = Command::new("munged");
        command.args(["--foreground", "--force"]);
        for (option, file) in [
            ("key-file", "munge.key"),
            ("socket", "munge"),
            ("pid-file", "munge.pid"),
            ("seed-file", "munge.seed"),
        ] {
            command.arg(format!("--{option}={RUNTIME}/{file}"));
        }
        let munged = self.start("munged", &mut command)?;
        self._others.push(munged);
        until("munged ready", SOON, || Path::new(RUNTIME).join("munge").exists())
    }

    fn configuration(&self) -> String {
        let folder = self.folder.display();
        format!(
            "ClusterName=evb\nSlurmctldHost={CONTROLLER}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={RUNTIME}/munge\nCredType=cred/munge\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/linear\nMpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\nMailProg=/bin/true\n\
             ReturnToService=2\nSlurmdTimeout=10\nSlurmdParameters=config_overrides\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={RUNTIME}/spool.%n\n\
             SlurmdPidFile={RUNTIME}/slurmd.%n.pid\nSlurmctldPidFile={RUNTIME}/slurmctld.pid\n\
             NodeName=n[1-{NODES}] CPUs=2 State=UNKNOWN\nPartitionName=all Nodes=ALL Default=YES State=UP\n"
        )
    }
}
