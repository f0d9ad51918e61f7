//! [`Stored`]: the results of studies as the repository keeps them.
//!
//! A result file has the command as it was run, the version of evbd, the machine, and the result
//! itself: the JSON that the command wrote, or the lines that it printed.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::repo::Repo;

/// Folder of the stored results; beside it is the folder of the pictures.
pub(crate) const RESULTS: &str = "docs/studies/results";
pub(super) const FIGURES: &str = "docs/studies/figures";

/// Fields of a run's summary that the repository keeps. A whole summary has lists of all sources,
/// builders and paths.
const KEPT: [&str; 7] =
    ["build_latency_us", "bytes", "dead_time_causes", "dead_time_fraction", "duration_s", "events", "rates"];

/// The stored results, by study.
pub(crate) struct Stored(BTreeMap<String, Value>);

impl Stored {
    /// Reads the results from the files of the repository.
    ///
    /// # Errors
    /// A file is not JSON.
    pub(crate) fn of(repo: &Repo) -> Result<Self> {
        let mut stored = BTreeMap::new();
        for file in repo.files() {
            let name = file.path.strip_prefix(RESULTS).and_then(|name| name.strip_suffix(".json"));
            let Some(name) = name.map(|name| name.trim_start_matches('/')) else { continue };
            stored.insert(
                name.to_owned(),
                serde_json::from_str(&file.text).with_context(|| file.path.clone())?,
            );
        }
        Ok(Self(stored))
    }

    pub(crate) fn get(&self, study: &str) -> Option<Value> {
        self.0.get(study).cloned()
    }

    /// Returns the names of the studies that have a result.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Returns the content of a result file.
pub(super) fn wrapped(study: &str, command: &str, evbd: &str, mut result: Value) -> Value {
    let outcomes = result.get_mut("outcomes").and_then(Value::as_array_mut);
    for outcome in outcomes.into_iter().flatten() {
        if let Some(summary) = outcome.get_mut("summary").and_then(Value::as_object_mut) {
            *summary = kept(summary);
        }
    }
    // The path of the picture is one of this machine.
    if let Some(notes) = result.get_mut("notes").and_then(Value::as_array_mut) {
        notes.retain(|note| !note.as_str().is_some_and(|note| note.starts_with("figure: ")));
    }
    json!({ "study": study, "command": command, "evbd": evbd, "machine": machine(), "result": result })
}

fn kept(summary: &Map<String, Value>) -> Map<String, Value> {
    let field = |name: &&str| Some(((*name).to_owned(), summary.get(*name)?.clone()));
    KEPT.iter().filter_map(field).collect()
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
