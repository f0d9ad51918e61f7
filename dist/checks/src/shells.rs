//! Checks completions in shells on a terminal.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use lab_base::report::{Bound, Report};

use super::{release::Files, unpack};

const SCRIPT: &str = include_str!("terminal.py");

pub(super) fn check(files: &Files, folder: &Path, report: &mut Report) -> Result<()> {
    let tree = unpack(&files.musl, folder)?;
    let script = folder.join("terminal.py");
    fs::write(&script, SCRIPT)?;
    for shell in ["bash", "zsh"] {
        let mut python = Command::new("python3");
        let output = python.arg(&script).arg(shell).arg(&tree).output().context("python3")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let count = report.results(&said);
        report.holds(&format!("{shell}: completions tried"), count as f64, Bound::AtLeast(4.0));
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(())
}
