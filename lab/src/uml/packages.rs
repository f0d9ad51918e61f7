//! Fetches User-Mode Linux: two Debian packages are downloaded and unpacked into a cache folder,
//! without installing them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Debian packages of the kernel with its modules, and of the shell tools that run in it.
const PACKAGES: [&str; 2] = ["user-mode-linux", "busybox-static"];

/// Kernel modules to load at the start; each comes after the modules that it needs.
const MODULES: [&str; 22] = [
    "lib/crc-ccitt",
    "net/ipv6/ipv6",
    "drivers/net/veth",
    "drivers/net/dummy",
    "net/llc/llc",
    "net/802/stp",
    "net/bridge/bridge",
    "net/sched/sch_fq",
    "net/sched/sch_fq_codel",
    "net/sched/sch_etf",
    "net/sched/sch_mqprio",
    "net/sched/sch_prio",
    "net/sched/sch_netem",
    "net/sched/sch_tbf",
    "net/sched/sch_htb",
    "net/sched/sch_ingress",
    "net/sched/cls_basic",
    "net/sched/cls_bpf",
    "net/sched/cls_flower",
    "net/sched/cls_matchall",
    "net/sched/cls_u32",
    "net/sched/act_pedit",
];

/// The unpacked packages of User-Mode Linux.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Folder into which the packages were unpacked.
    folder: PathBuf,
}

impl Kernel {
    /// Returns the path of the User-Mode Linux program.
    pub(super) fn program(&self) -> PathBuf {
        self.folder.join("usr/bin/linux.uml")
    }

    /// Returns the path of BusyBox, which the init script uses.
    pub(super) fn busybox(&self) -> PathBuf {
        let places = ["bin/busybox", "usr/bin/busybox"].map(|place| self.folder.join(place));
        places.iter().find(|place| place.exists()).unwrap_or(&places[0]).clone()
    }

    /// Returns the paths of the modules to load, without those that the package lacks.
    pub(super) fn modules(&self) -> Vec<PathBuf> {
        let versions = fs::read_dir(self.folder.join("usr/lib/uml/modules")).into_iter().flatten().flatten();
        let folders: Vec<PathBuf> = versions.map(|entry| entry.path().join("kernel")).collect();
        let found = MODULES.iter().filter_map(|module| {
            folders.iter().map(|folder| folder.join(format!("{module}.ko"))).find(|path| path.exists())
        });
        found.collect()
    }

    fn is_complete(&self) -> bool {
        self.program().exists() && self.busybox().exists()
    }

    /// Returns the path of a folder for one start of the kernel, beside the unpacked Debian
    /// packages.
    pub(super) fn job_folder(&self) -> PathBuf {
        let name = format!("evb-uml-job-{}", std::process::id());
        self.folder.parent().map_or_else(|| name.clone().into(), |parent| parent.join(&name))
    }
}

/// Returns the reason why User-Mode Linux is unavailable, as far as this can be known without
/// starting it.
fn lacks() -> Option<String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("User-Mode Linux runs on Linux on x86-64 only".into());
    }
    let missing = |tool: &&&str| Command::new(**tool).arg("--version").output().is_err();
    let to_fetch: &[&str] =
        if (Kernel { folder: folder() }).is_complete() { &[] } else { &["apt-get", "dpkg"] };
    let to_run = ["nice", "timeout", "ip", "tc"];
    let tool = to_run.iter().chain(to_fetch).find(missing)?;
    Some(format!("User-Mode Linux cannot be fetched or started without {tool}: install that"))
}

/// Returns User-Mode Linux, which is fetched first if the cache does not contain it.
pub(super) fn kernel() -> Result<Kernel> {
    if let Some(reason) = lacks() {
        bail!(reason);
    }
    let kernel = Kernel { folder: folder() };
    if !kernel.is_complete() {
        fetch(&kernel.folder)?;
    }
    if !kernel.is_complete() {
        bail!(
            "Debian's packages hold other files than expected, in {}: remove that folder, and try again",
            kernel.folder.display()
        );
    }
    Ok(kernel)
}

/// Returns the path of the folder `evb-uml` in the user's cache folder, or in `target` if there is
/// no home folder.
fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    own.filter(|path| path.is_absolute())
        .or_else(home)
        .unwrap_or_else(|| checkout::root().join("target"))
        .join("evb-uml")
}

/// Downloads and unpacks the packages into a temporary folder, and renames it to `folder` when it
/// is complete.
fn fetch(folder: &Path) -> Result<()> {
    let fresh = folder.with_extension(format!("fresh-{}", std::process::id()));
    fs::create_dir_all(&fresh).with_context(|| format!("cannot create the folder {}", fresh.display()))?;
    let outcome = download(&fresh).and_then(|()| {
        // Another process may have created `folder` meanwhile; its content is equivalent and is
        // replaced.
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        Ok(fs::rename(&fresh, folder)?)
    });
    if outcome.is_err() {
        let _ = fs::remove_dir_all(&fresh);
    }
    outcome
}

/// Downloads and unpacks the packages. If the download fails, because the package lists may be
/// missing or old, it is tried again after `apt-get update`.
fn download(fresh: &Path) -> Result<()> {
    let fetched = apt_get(&[&["download"], &PACKAGES[..]].concat(), fresh);
    if fetched.is_err() && apt_get(&["update"], fresh).is_ok() {
        apt_get(&[&["download"], &PACKAGES[..]].concat(), fresh)?;
    } else {
        fetched?;
    }
    for entry in fs::read_dir(fresh)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            let unpacked = Command::new("dpkg").arg("-x").arg(&path).arg(fresh).status()?;
            if !unpacked.success() {
                bail!("{} cannot be unpacked", path.display());
            }
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn apt_get(arguments: &[&str], folder: &Path) -> Result<()> {
    let ran = Command::new("timeout")
        .args(["120", "apt-get", "-qq"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        let last = said.lines().last().unwrap_or("it says nothing");
        bail!("apt-get {} failed: {last}", arguments.join(" "));
    }
    Ok(())
}
