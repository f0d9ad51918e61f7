//! Listings of event files: made by the Rust reader, and compared line by line.

use std::{fmt, path::Path, process::Command};

use anyhow::{Result, bail, ensure};

/// Returns the Rust reader's listing of the given paths, which are relative to `folder` or
/// absolute.
pub(super) fn of_rust(folder: &Path, paths: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "evb-file", "--example", "listing", "--manifest-path"]);
    command.arg(checkout::root().join("Cargo.toml")).arg("--").args(paths).current_dir(folder);
    said(&mut command)
}

/// Runs a command and returns its output; fails if the command fails.
pub(super) fn said(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Fails if two listings differ, and names the file and the first line that differs.
pub(super) fn compare(expected: &str, found: &str) -> Result<()> {
    let mut file = "";
    let (mut expected, mut found) = (expected.lines(), found.lines());
    for number in 1.. {
        let (wanted, got) = (expected.next(), found.next());
        if let Some(line) = wanted.filter(|line| line.starts_with("file ") || line.starts_with("run ")) {
            file = line;
        }
        if wanted != got {
            let [wanted, got] = [wanted, got].map(|line| line.unwrap_or("nothing"));
            bail!("{file}: line {number} of the listing differs\n  Rust: {wanted}\n  C++:  {got}");
        }
        if wanted.is_none() {
            break;
        }
    }
    Ok(())
}

/// The numbers of items in a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    files: u64,
    events: u64,
    damaged: u64,
    torn_tails: u64,
    wrong_indexes: u64,
    unreadable: u64,
    merged: u64,
}

impl Counts {
    pub(super) fn of(listing: &str) -> Self {
        let mut counts = Self::default();
        let mut section = "";
        for line in listing.lines() {
            let word = line.split(' ').next().unwrap_or_default();
            let counter = match word {
                "file" => &mut counts.files,
                "error" => &mut counts.unreadable,
                "merged" => &mut counts.merged,
                "event" if section == "events" => &mut counts.events,
                "finding" if line.contains("kind=damaged") => &mut counts.damaged,
                "finding" if line.contains("kind=torn_tail") => &mut counts.torn_tails,
                // No reader follows such an index, so none of them meets its wrong entries.
                "|" if line.contains("the index does not match") => &mut counts.wrong_indexes,
                _ => {
                    let is_item = matches!(word, "event" | "fragment" | "finding" | "none" | "|");
                    section = if is_item { section } else { word };
                    continue;
                }
            };
            *counter += 1;
        }
        counts
    }

    /// Returns true if the listing has items of every kind.
    pub(super) fn has_all(&self) -> bool {
        let Self { files, events, damaged, torn_tails, wrong_indexes, unreadable, merged } = self;
        [files, events, damaged, torn_tails, wrong_indexes, unreadable, merged]
            .iter()
            .all(|count| **count > 0)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, events, damaged, torn_tails, wrong_indexes, unreadable, merged } = self;
        write!(
            f,
            "{files} files with {events} events, {damaged} damaged, {torn_tails} torn tails, {wrong_indexes} wrong indexes, {unreadable} unreadable; {merged} merged runs"
        )
    }
}

#[cfg(test)]
mod tests;
