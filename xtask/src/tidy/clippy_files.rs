//! Generates the `clippy.toml` files of the crates. Clippy reads only the nearest of these files,
//! so each must contain all settings.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use super::{
    purity::{NO_TOKIO_SLEEP, PURE},
    violation::Violation,
};
use crate::repo::Repo;

const HEAD: &str =
    "# Written by `cargo xtask tidy --bless`; clippy takes the nearest clippy.toml and merges none.
allow-unwrap-in-tests = true
";

const TYPES: [(&str, &str); 4] = [
    ("std::time::Instant", "time is an argument: evb_core::time::Instant"),
    ("std::time::SystemTime", "time is an argument"),
    ("std::collections::HashMap", "its order differs from run to run: BTreeMap"),
    ("std::collections::HashSet", "its order differs from run to run: BTreeSet"),
];

const METHODS: [(&str, &str); 3] = [
    ("std::time::Instant::now", "time is an argument"),
    ("std::time::SystemTime::now", "time is an argument"),
    ("std::thread::sleep", "a machine is driven, it does not wait"),
];

const SLEEP: (&str, &str) =
    ("tokio::time::sleep", "depart at absolute times: sleep_until, or a kernel timer");

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let wrong =
        files().into_iter().filter(|(path, text)| repo.get(path).is_none_or(|file| file.text != *text));
    wrong
        .map(|(path, _)| Violation::new(&path, 0, "is not as written by `cargo xtask tidy --bless`"))
        .collect()
}

/// Writes all generated `clippy.toml` files below `root`.
pub(crate) fn write(root: &Path) -> Result<()> {
    for (path, text) in files() {
        fs::write(root.join(&path), text).with_context(|| format!("writing {path}"))?;
    }
    Ok(())
}

fn files() -> Vec<(String, String)> {
    let mut files = vec![("clippy.toml".to_owned(), HEAD.to_owned())];
    for krate in ["evb-core", "evb-shaper", "evb-sim", "evb-net"] {
        let pure = PURE.contains(&krate);
        let mut text = HEAD.to_owned();
        if pure {
            text += &list("disallowed-types", &TYPES);
        }
        let mut methods = if pure { METHODS.to_vec() } else { Vec::new() };
        // The entry for tokio is only for crates that depend on tokio, because clippy warns of
        // paths that it cannot resolve.
        if NO_TOKIO_SLEEP.contains(&krate) && !pure {
            methods.push(SLEEP);
        }
        text += &list("disallowed-methods", &methods);
        files.push((format!("crates/{krate}/clippy.toml"), text));
    }
    files
}

fn list(key: &str, entries: &[(&str, &str)]) -> String {
    let lines: Vec<String> = entries
        .iter()
        .map(|(path, reason)| format!("    {{ path = \"{path}\", reason = \"{reason}\" }},\n"))
        .collect();
    format!("{key} = [\n{}]\n", lines.concat())
}

#[cfg(test)]
mod tests;
