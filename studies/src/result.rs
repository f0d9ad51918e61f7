//! [`Stored`]: the results of studies as the repository keeps them.
//!
//! The JSON of a run has the command as it was run, the version of evbd, the machine, and the
//! result itself: the JSON that the command wrote, or the lines that it printed. It stays in
//! `target/studies`; the repository keeps a part of it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::kept::Kept;

/// Folder of the stored results; beside it is the folder of the pictures.
pub const RESULTS: &str = "docs/studies/results";
pub(super) const FIGURES: &str = "docs/studies/figures";

/// The stored results, by study.
pub struct Stored(BTreeMap<String, Kept>);

impl Stored {
    /// Reads the results from files of the repository, given by path and text.
    ///
    /// # Errors
    /// A file is not the CSV of a result.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut stored = BTreeMap::new();
        for (path, text) in files {
            let name = path.strip_prefix(RESULTS).and_then(|name| name.strip_suffix(".csv"));
            let Some(name) = name.map(|name| name.trim_start_matches('/')) else { continue };
            stored.insert(name.to_owned(), Kept::read(text).with_context(|| path.to_owned())?);
        }
        Ok(Self(stored))
    }

    pub fn get(&self, study: &str) -> Option<&Kept> {
        self.0.get(study)
    }

    /// Returns the names of the studies that have a result.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Returns the JSON of a run: the result, and how it was measured.
pub(super) fn run(study: &str, command: &str, evbd: &str, result: Value) -> Value {
    json!({ "study": study, "command": command, "evbd": evbd, "machine": machine(), "result": result })
}

/// Returns a description of this machine: kernel, processor, cores, load over the last minute.
fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    json!({
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "processor": model.map_or("an unknown processor", |(_, name)| name.trim()),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "load": read("/proc/loadavg").split(' ').next().and_then(|load| load.parse::<f64>().ok()),
    })
}

#[cfg(test)]
mod tests;
