//! Where the kernel comes from: two packages of Debian, unpacked into a cache. Nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::repo;

/// The kernel with its modules, and the shell tools that begin in it.
const PACKAGES: [&str; 2] = ["user-mode-linux", "busybox-static"];

/// What is loaded at its start, each after what it needs.
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

/// The unpacked kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Where it was unpacked.
    folder: PathBuf,
}

impl Kernel {
    /// The kernel's program.
    pub(super) fn program(&self) -> PathBuf {
        self.folder.join("usr/bin/linux.uml")
    }

    /// The tools of its first process.
    pub(super) fn busybox(&self) -> PathBuf {
        let places = ["bin/busybox", "usr/bin/busybox"].map(|place| self.folder.join(place));
        places.iter().find(|place| place.exists()).unwrap_or(&places[0]).clone()
    }

    /// The modules that it has of those wanted.
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

    /// A folder for one run, beside it.
    pub(super) fn job_folder(&self) -> PathBuf {
        let name = format!("evb-uml-job-{}", std::process::id());
        self.folder.parent().map_or_else(|| name.clone().into(), |parent| parent.join(&name))
    }
}

/// Why it cannot be had, as far as that is known before trying.
pub(super) fn lacks() -> Option<String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("User-Mode Linux runs on Linux on x86-64 only".into());
    }
    let missing = |tool: &&&str| Command::new(**tool).arg("--version").output().is_err();
    let to_fetch: &[&str] =
        if (Kernel { folder: folder() }).is_complete() { &[] } else { &["apt-get", "dpkg"] };
    let to_run = ["nice", "timeout", "ip", "tc"];
    let tool = to_run.iter().chain(to_fetch).find(missing)?;
    Some(format!("{tool} is not here, which User-Mode Linux is fetched or begun with"))
}

/// The kernel, fetched where it is not in the cache.
pub(super) fn kernel() -> Result<Kernel> {
    if let Some(reason) = lacks() {
        bail!(reason);
    }
    let kernel = Kernel { folder: folder() };
    if !kernel.is_complete() {
        fetch(&kernel.folder)?;
    }
    if !kernel.is_complete() {
        bail!("Debian's packages hold other files than expected, in {}", kernel.folder.display());
    }
    Ok(kernel)
}

/// `evb-uml` in the user's cache, or below `target`.
fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    own.filter(|path| path.is_absolute())
        .or_else(home)
        .unwrap_or_else(|| repo::root().join("target"))
        .join("evb-uml")
}

/// Fetches and unpacks beside `folder`, and puts it in place when it is whole.
fn fetch(folder: &Path) -> Result<()> {
    let fresh = folder.with_extension(format!("fresh-{}", std::process::id()));
    fs::create_dir_all(&fresh).with_context(|| format!("no folder {}", fresh.display()))?;
    let outcome = download(&fresh).and_then(|()| {
        // Another one may have been faster; what it has put there is as good.
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

/// Downloads and unpacks; where the lists of packages are missing or old, once more with fresh ones, if we may.
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
