//! Checks which systems run the programs of the archives.

use std::{fs, path::Path, process::Command};

use anyhow::Result;
use lab_base::report::{Bound, Report};

use super::{execute, release::Files, unpack};

/// Minor version of the oldest glibc 2 with which the programs must run.
const GLIBC: f64 = 28.0;

pub(super) fn check(files: &Files, folder: &Path, report: &mut Report) -> Result<()> {
    let musl = unpack(&files.musl, folder)?;
    let headers = execute(Command::new("readelf").arg("-lW").arg(musl.join("bin/evbd")))?;
    report.yes("the static program needs no dynamic linker", !headers.contains("INTERP"));
    archive("musl", &musl, report)?;
    let Some(dynamic) = &files.dynamic else { return Ok(()) };
    let (glibc, sdk) = (unpack(&dynamic.glibc, folder)?, unpack(&dynamic.sdk, folder)?);
    archive("glibc", &glibc, report)?;
    let mut libraries = Vec::new();
    for entry in fs::read_dir(sdk.join("lib"))? {
        let path = entry?.path();
        if path.is_file() && !path.is_symlink() && path.to_string_lossy().contains(".so") {
            libraries.push(path);
        }
    }
    report.holds("shared libraries in the SDK", libraries.len() as f64, Bound::AtLeast(1.0));
    for path in [&glibc.join("bin/evbd")].into_iter().chain(&libraries) {
        let symbols = execute(Command::new("objdump").arg("-T").arg(path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = newest(&symbols).map_or(f64::NAN, f64::from);
        report.holds(
            &format!("{name}: minor version of glibc 2 that it needs"),
            version,
            Bound::AtMost(GLIBC),
        );
    }
    Ok(())
}

/// Checks an unpacked archive: its program and its manual.
fn archive(name: &str, tree: &Path, report: &mut Report) -> Result<()> {
    let evbd = tree.join("bin/evbd");
    let sections = execute(Command::new("readelf").arg("-SW").arg(&evbd))?;
    let stripped = !sections.contains(".symtab") && !sections.contains(".debug_info");
    report.yes(&format!("{name}: the program is stripped"), stripped);
    report.yes(&format!("{name}: the program names its debug symbols"), sections.contains(".gnu_debuglink"));
    let said = execute(Command::new(&evbd).arg("--version"))?;
    report.yes(&format!("{name}: the program runs here: {}", said.trim()), said.starts_with("evbd "));
    let pages = fs::read_dir(tree.join("share/man/man1"))?.count();
    report.holds(&format!("{name}: man pages"), pages as f64, Bound::AtLeast(13.0));
    report
        .yes(&format!("{name}: the notices of all that is in it"), has_notices(&tree.join("share/doc/evbd")));
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(tree.join("share/man/man1/evbd-run.1"));
    let page = execute(man.env("MANPAGER", "cat").env("MANROFFOPT", "-c"));
    report.yes(&format!("{name}: man shows a page"), page.is_ok_and(|page| page.contains("--here")));
    Ok(())
}

/// Returns true if a folder has the notices of crates and of the page's charts.
pub(super) fn has_notices(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join("THIRD-PARTY.txt")).unwrap_or_default();
    ["tokio 1.", "snow 0.", "Leon Sorokin", "Permission is hereby granted"]
        .iter()
        .all(|part| text.contains(part))
}

/// Returns the newest minor version of glibc 2 in the output of `objdump -T`.
pub(super) fn newest(symbols: &str) -> Option<u32> {
    let versions = symbols.split("GLIBC_2.").skip(1);
    versions.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).max()
}
