//! Simulated hosts on one switch, each a network namespace with its own host name. The hosts are
//! created inside the isolated environment of [`lab_base::alone`], and end with it.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use lab_base::needs::Need;
use serde_json::Value;

pub(crate) const HOSTNAME: Need = Need { program: "hostname", package: "hostname" };
pub(crate) const MOUNT: Need = Need { program: "mount", package: "mount" };

const SWITCH: &str = "switch";
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A host, and its addresses with their prefix lengths.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
}

/// The simulated hosts; they exist as long as the isolated environment.
pub(crate) struct Hosts;

impl Hosts {
    /// Creates the simulated hosts. `names` is the content of `/etc/hosts` on every host.
    pub(crate) fn up(folder: &Path, hosts: &[Host], names: &str) -> Result<Self> {
        // Mounts on `/run` and `/etc` are visible only in this mount namespace, and end with it.
        run("mount", &["-t", "tmpfs", "-o", "mode=755", "evb", "/run"])?;
        for (file, text) in [("hosts", names), ("resolv.conf", "")] {
            let path = folder.join(file);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            let bound = run("mount", &["--bind", &path.to_string_lossy(), &format!("/etc/{file}")]);
            // `/etc/resolv.conf` may not exist; then it cannot be replaced and need not be.
            if file == "hosts" {
                bound?;
            }
        }
        run("ip", &["netns", "add", SWITCH])?;
        run("ip", &["-n", SWITCH, "link", "add", "br0", "type", "bridge"])?;
        run("ip", &["-n", SWITCH, "link", "set", "br0", "up"])?;
        for host in hosts {
            attach(host).with_context(|| format!("attaching {}", host.name))?;
        }
        Ok(Self)
    }

    /// Returns a command that runs a program on a host. The process id of the command is that of
    /// the program, because the command's process executes the program directly.
    pub(crate) fn command(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host, "unshare", "--uts"]);
        command.args(["sh", "-ec", NAMED, host, program]).stdin(Stdio::null());
        command
    }

    /// Returns a command that runs a program on a host in its own process namespace: killing the
    /// command kills all processes of the namespace, like a power cut.
    pub(crate) fn machine(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host, "unshare", "--uts", "--pid", "--fork", "--kill-child"]);
        command.args(["--mount-proc", "sh", "-ec", NAMED, host, program]).stdin(Stdio::null());
        command
    }

    /// Disconnects the network cable of a host at the switch.
    pub(crate) fn cut(&self, host: &str) -> Result<()> {
        run("ip", &["-n", SWITCH, "link", "set", &port(host), "down"]).map(drop)
    }
}

/// A shell script that sets the host name (`$0`) in a new UTS namespace, and executes the program
/// (`$@`).
const NAMED: &str = "hostname \"$0\"; exec \"$@\"";

fn port(host: &str) -> String {
    format!("p-{host}")
}

fn attach(host: &Host) -> Result<()> {
    let (space, port) = (host.name.as_str(), port(&host.name));
    run("ip", &["netns", "add", space])?;
    let peer = ["type", "veth", "peer", "name", &port, "netns", SWITCH];
    run("ip", &[&["link", "add", "e0", "netns", space], &peer[..]].concat())?;
    run("ip", &["-n", space, "link", "set", "lo", "up"])?;
    run("ip", &["-n", space, "link", "set", "e0", "up"])?;
    for address in &host.addresses {
        // Duplicate address detection of IPv6 would take a second, and no other host has this
        // address.
        let nodad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
        run("ip", &[&["-n", space, "addr", "add", address, "dev", "e0"], nodad].concat())?;
    }
    run("ip", &["-n", SWITCH, "link", "set", &port, "master", "br0", "up"]).map(drop)
}

/// Runs a program and returns its output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String> {
    said(Command::new(program).args(arguments))
}

/// Runs a command and returns its output; fails if the command fails.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, words.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until a program ends, and returns its exit code, or -1 if a signal ended it.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<i32> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(-1));
        }
        if Instant::now() > until {
            bail!("the program has not ended within {} s", limit.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Polls until `is` returns true; fails after `limit`.
pub(crate) fn until(what: &str, limit: Duration, mut is: impl FnMut() -> bool) -> Result<()> {
    let until = Instant::now() + limit;
    while !is() {
        if Instant::now() > until {
            bail!("within {} s never {what}", limit.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Returns true if the event counts of a run summary add up: triggered = inhibited + complete +
/// incomplete + lost + rejected.
pub(crate) fn closes(summary: &Value) -> bool {
    let of = |key: &str| summary["events"][key].as_u64().unwrap_or(u64::MAX / 16);
    of("triggered") == ["inhibited", "complete", "incomplete", "lost", "rejected"].map(of).iter().sum::<u64>()
}
