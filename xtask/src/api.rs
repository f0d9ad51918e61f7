//! Compares the public API of `evb` with the listing in `docs/reference/api.txt`, so that no change
//! of the API goes unnoticed. cargo-public-api creates the listing from the JSON documentation that
//! a nightly compiler writes; the versions of both tools are fixed here.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

/// Nightly compiler whose JSON documentation this version of cargo-public-api can read.
const NIGHTLY: &str = "nightly-2026-10-30";
const TOOL: &str = "0.52.0";
const LISTING: &str = "docs/reference/api.txt";

#[derive(Args)]
pub(crate) struct ApiArgs {
    /// Write the new listing to `docs/reference/api.txt` instead of comparing it.
    #[arg(long)]
    bless: bool,
}

/// Returns the command that installs a missing tool; `None` if the listing can be created on this
/// machine.
pub(crate) fn lacks() -> Option<String> {
    let tool = checkout::said("cargo", &["public-api", "--version"]).is_some_and(|said| said.contains(TOOL));
    if !tool {
        return Some(format!("cargo install --locked cargo-public-api --version {TOOL}"));
    }
    let installed = checkout::said("rustup", &["toolchain", "list"]).unwrap_or_default();
    let is_there = installed.lines().any(|line| line.starts_with(NIGHTLY));
    (!is_there).then(|| format!("rustup toolchain install {NIGHTLY} --profile minimal"))
}

/// Compares the public API with the listing, or writes the listing. Returns true if they agree.
pub(crate) fn run(args: &ApiArgs) -> Result<bool> {
    if let Some(remedy) = lacks() {
        anyhow::bail!(
            "the public API cannot be listed without cargo-public-api {TOOL} and {NIGHTLY}: {remedy}"
        );
    }
    let root = checkout::root();
    let listed = list(&root)?;
    let path = root.join(LISTING);
    if args.bless {
        fs::write(&path, &listed)?;
        return Ok(true);
    }
    let committed = fs::read_to_string(&path).with_context(|| LISTING.to_owned())?;
    let changes = changes(&committed, &listed);
    changes.iter().for_each(|change| println!("{change}"));
    if changes.is_empty() {
        println!("the public API is as {LISTING} lists it");
    } else {
        println!(
            "the public API differs from {LISTING}; if that is meant: cargo xtask api --bless, and a line in CHANGELOG.md"
        );
    }
    Ok(changes.is_empty())
}

fn list(root: &Path) -> Result<String> {
    let output = Command::new("cargo")
        .current_dir(root)
        .arg(format!("+{NIGHTLY}"))
        .args(["public-api", "--package", "evb", "-sss", "--color", "never"])
        .output()
        .context("cargo does not start")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo public-api: {}\n{errors}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the lines that are only in `before`, marked by `-`, and those that are only in `after`,
/// marked by `+`.
fn changes(before: &str, after: &str) -> Vec<String> {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (before.lines().collect(), after.lines().collect());
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    gone.chain(after.difference(&before).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests;
