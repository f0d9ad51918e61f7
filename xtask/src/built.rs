//! Builds programs of the workspace with the same features as `cargo test --workspace`, those of
//! all packages together. With the features of one package alone, cargo would build crates again
//! that the tests have already built.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};

/// Builds the target with this name and kind (such as `--example`), and returns the path of its
/// executable.
pub(crate) fn built(kind: &str, name: &str) -> Result<PathBuf> {
    built_in(&checkout::root(), kind, name)
}

/// Builds the target like [`built`], in another copy of the repository.
pub(crate) fn built_in(tree: &Path, kind: &str, name: &str) -> Result<PathBuf> {
    let mut cargo = checkout::cargo();
    let build = ["build", "--workspace", "--message-format", "json-render-diagnostics", kind, name];
    let output = cargo
        .args(build)
        .current_dir(tree)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    ensure!(output.status.success(), "`{name}` does not build");
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages, name).with_context(|| format!("cargo has built no `{name}`"))
}

/// Returns the executable of the target `name` from cargo's messages, which are one JSON object per
/// line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let named = message["target"]["name"].as_str() == Some(name);
        message["executable"].as_str().filter(|_| named).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests;
