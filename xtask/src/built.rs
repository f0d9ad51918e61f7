//! Programs of the workspace, built as `cargo test --workspace` builds them: with the features of
//! all packages together. With those of one package, cargo would build what the tests have built
//! already once more.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::repo;

/// Builds a program, which `kind` finds among the targets (such as `--example`) by its name; where
/// it is.
pub(crate) fn built(kind: &str, name: &str, features: &[&str]) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let build = ["build", "--workspace", "--message-format", "json-render-diagnostics", kind, name];
    let output = cargo
        .args(build)
        .args(features.iter().flat_map(|feature| ["--features", feature]))
        .current_dir(repo::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    ensure!(output.status.success(), "`{name}` does not build");
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages, name).with_context(|| format!("cargo has built no `{name}`"))
}

/// The executable of a target among cargo's messages, one JSON object a line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let named = message["target"]["name"].as_str() == Some(name);
        message["executable"].as_str().filter(|_| named).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests;
