//! [`TestProgram`]: the test programs of the workspace, as cargo builds them.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::tidy::purity::PURE;

/// A program that contains tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TestProgram {
    /// Name of the folder of the package, and of the target in it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Folder of the package, in which cargo starts the program.
    pub(crate) folder: PathBuf,
}

impl TestProgram {
    /// Returns true for the tests of a pure crate. `cargo xtask tidy` keeps these crates free of
    /// sockets, clocks, files and processes, so they depend on no machine; and their simulations
    /// take half of the time of all tests.
    pub(super) fn is_pure(&self) -> bool {
        let package = self.name.split('/').next().unwrap_or_default();
        PURE.contains(&package)
    }
}

/// Returns the programs that `cargo test --workspace` runs, and builds those that are missing.
pub(crate) fn built() -> Result<Vec<TestProgram>> {
    let mut cargo = checkout::cargo();
    let output = cargo
        .args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"])
        .current_dir(checkout::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    ensure!(output.status.success(), "the tests do not build");
    let mut all: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Returns the test program of one of cargo's messages.
fn program(message: &str) -> Option<TestProgram> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.strip_prefix(checkout::root()).ok()?.file_name();
    let package = package.map_or_else(|| "evb".into(), |name| name.to_string_lossy());
    let target = message["target"]["name"].as_str()?;
    let name = format!("{package}/{target}");
    Some(TestProgram { name, path: path.into(), folder: folder.to_owned() })
}

#[cfg(test)]
mod tests;
