//! Checks the package: its form by lintian, and its behaviour in a fresh Debian system, which has a
//! network of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use lab_base::report::{Bound, Report};

use super::{execute, release::Files};

const SCRIPT: &str = include_str!("debian.sh");
const SUITE: &str = "bookworm";
/// Number of results of the script.
const RESULTS: f64 = 17.0;

pub(super) fn check(files: &Files, out: &Path, folder: &Path, report: &mut Report) -> Result<()> {
    lintian(&files.debs[0], report)?;
    let root = system(out, folder)?;
    let packages = root.join("packages");
    fs::create_dir_all(&packages)?;
    for (deb, name) in files.debs.iter().zip(["old.deb", "new.deb"]) {
        fs::copy(deb, packages.join(name))?;
    }
    fs::write(packages.join("debian.sh"), SCRIPT)?;
    // All mounts and processes end with the namespaces.
    let mut inside = Command::new("unshare");
    inside.args(["--net", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c"]);
    inside.arg("ip link set lo up && cd \"$1\" && mount -t proc proc proc && mount --rbind /dev dev && exec chroot . sh packages/debian.sh");
    inside.arg("sh").arg(&root).env("OLD", version(&files.debs[0])?).env("NEW", version(&files.debs[1])?);
    let output = inside.output().context("unshare does not start")?;
    let count = report.results(&String::from_utf8_lossy(&output.stdout));
    report.holds("checks in a fresh Debian system", count as f64, Bound::AtLeast(RESULTS));
    let complaints = String::from_utf8_lossy(&output.stderr);
    fs::write(folder.join("debian.log"), complaints.as_bytes())?;
    fs::remove_dir_all(&root).with_context(|| root.display().to_string())
}

/// Counts what lintian says about the package.
fn lintian(deb: &Path, report: &mut Report) -> Result<()> {
    let output = Command::new("lintian").arg("--allow-root").arg(deb).output().context("lintian")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{said}");
    let count = |letter: &str| said.lines().filter(|line| line.starts_with(letter)).count() as f64;
    report.holds("errors of lintian", count("E:"), Bound::AtMost(0.0));
    report.holds("warnings of lintian", count("W:"), Bound::AtMost(0.0));
    Ok(())
}

/// Makes the archive of a fresh system, unless it is there.
pub(super) fn fetch(out: &Path) -> Result<()> {
    let archive = archive(out);
    if archive.exists() {
        return Ok(());
    }
    let fresh = out.join(SUITE);
    let _ = fs::remove_dir_all(&fresh);
    println!("installing: Debian {SUITE}");
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", "--include=adduser", SUITE]).arg(&fresh);
    execute(debootstrap.arg(mirror()))?;
    // A name that is complete only when the archive is.
    let new = archive.with_extension("new");
    execute(Command::new("tar").arg("-cf").arg(&new).arg("-C").arg(&fresh).arg("."))?;
    fs::rename(new, &archive)?;
    fs::remove_dir_all(&fresh)?;
    Ok(())
}

fn archive(out: &Path) -> PathBuf {
    out.join(format!("{SUITE}.tar"))
}

/// Returns a copy of the fresh system.
fn system(out: &Path, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("system");
    fs::create_dir_all(&root)?;
    execute(Command::new("tar").arg("-xf").arg(archive(out)).arg("-C").arg(&root))?;
    Ok(root)
}

/// Returns the mirror from which this host installs, or Debian's own.
fn mirror() -> String {
    let lists = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
    let text: String = lists.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let word = |line: &str| line.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned);
    let lines = text.lines().filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    lines.filter_map(word).next().unwrap_or_else(|| "http://deb.debian.org/debian".to_owned())
}

fn version(deb: &Path) -> Result<String> {
    let said = execute(Command::new("dpkg-deb").arg("--field").arg(deb).arg("Version"))?;
    Ok(said.trim().to_owned())
}
