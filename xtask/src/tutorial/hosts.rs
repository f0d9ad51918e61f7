//! The hosts of a page whose commands stand behind prompts: network namespaces of their own, with
//! the addresses that the page uses, and stand-ins for `ssh` and `scp` between them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// Addresses for documentation (RFC 5737), which the pages use in the order of their hosts.
const NETWORK: &str = "192.0.2";

/// Command that gives a process namespaces in which it may create networks.
pub(crate) const UNSHARE: [&str; 6] =
    ["unshare", "--user", "--map-root-user", "--net", "--mount", "--kill-child"];

/// The hosts of a page, in this process's own namespaces.
pub(crate) struct Hosts {
    scratch: PathBuf,
}

impl Hosts {
    /// Creates a network with these hosts, each with a home folder in `scratch`.
    ///
    /// # Errors
    /// The operating system refuses a namespace or a device.
    pub(crate) fn create(names: &[String], scratch: &Path) -> Result<Self> {
        let mut script = String::from(
            "set -e\nmount -t tmpfs none /run\nmkdir /run/netns\nip link add switch type bridge\nip link set switch up\n",
        );
        for (number, host) in (1..).zip(names) {
            script += &format!(
                "ip netns add {host}\n\
                 ip link add port{number} type veth peer name eth0 netns {host}\n\
                 ip link set port{number} master switch up\n\
                 ip -n {host} address add {NETWORK}.{number}/24 dev eth0\n\
                 ip -n {host} link set eth0 up\n\
                 ip -n {host} link set lo up\n"
            );
            fs::create_dir(scratch.join(host))?;
        }
        let made = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().context("sh")?;
        ensure!(made.status.success(), "no network: {}", String::from_utf8_lossy(&made.stderr));
        let hosts = Self { scratch: scratch.to_owned() };
        hosts.stand_ins()?;
        Ok(hosts)
    }

    /// Returns a shell on a host.
    pub(crate) fn shell(&self, host: &str) -> Command {
        let mut command = Command::new("ip");
        let named = "echo \"$0\" > /proc/sys/kernel/hostname; exec bash";
        command.args(["netns", "exec", host, "unshare", "--uts", "bash", "-c", named, host]);
        command.env("HOME", self.home(host));
        command
    }

    /// Returns the home folder of a host.
    pub(crate) fn home(&self, host: &str) -> PathBuf {
        self.scratch.join(host)
    }

    /// Returns the folder of the stand-ins for `ssh` and `scp`, which all hosts find first.
    pub(crate) fn programs(&self) -> PathBuf {
        self.scratch.join("programs")
    }

    /// Writes programs that do on the other host what `ssh HOST COMMAND` and `scp [-p] FILE
    /// HOST:FOLDER` would do.
    fn stand_ins(&self) -> Result<()> {
        let home = self.scratch.display();
        let ssh = format!(
            "host=$1; shift; cd '{home}'/\"$host\"; HOME=$PWD exec ip netns exec \"$host\" bash -c \"$*\""
        );
        let scp = format!(
            "keep=; if [ \"$1\" = -p ]; then keep=-p; shift; fi; cp $keep \"$1\" '{home}'/\"${{2%%:*}}/${{2#*:}}\""
        );
        fs::create_dir(self.programs())?;
        for (name, body) in [("ssh", ssh), ("scp", scp)] {
            let path = self.programs().join(name);
            fs::write(&path, format!("#!/usr/bin/env bash\nset -e\n{body}\n"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }
}
