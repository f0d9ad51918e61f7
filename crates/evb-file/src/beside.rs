//! The file beside a builder's event files, with episodes, and the changes by which sources were
//! excluded or included. It has what the header of an open file does not have yet, and it is what
//! remains when a builder is killed.

#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use evb_core::{
    alignment::Episode,
    id::{BuilderId, RunId, RunNumber},
    ledger::OwingChange,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{error::FileError, format::FileHeader};

/// The largest size of such a file that is read, in bytes.
const MOST: u64 = 2 << 20;

/// Returns the path of the file beside the event files in `dir`.
fn path(dir: &Path, run: RunNumber, builder: BuilderId) -> PathBuf {
    dir.join(format!("run{:06}_b{:02}.alignment.json", run.number(), builder.number()))
}

/// Writes the lists of a run as a whole, so that a reader never sees a part of them.
pub(crate) fn write(
    dir: &Path,
    (run, run_id, builder): (RunNumber, RunId, BuilderId),
    (episodes, changes): (&[Episode], &[OwingChange]),
) -> Result<(), FileError> {
    let path = path(dir, run, builder);
    let part = path.with_extension("json.part");
    let told = json!({
        "run": run, "run_id": run_id, "builder": builder, "episodes": episodes, "changes": changes,
    });
    fs::write(&part, format!("{told:#}\n")).map_err(FileError::of("write to", &part))?;
    fs::rename(&part, &path).map_err(FileError::of("rename to", &path))
}

/// Returns the list with that name beside an event file with that header. It is empty if the file
/// beside is of another run, or cannot be read.
pub(crate) fn read<T: DeserializeOwned>(event_file: &Path, header: &FileHeader, name: &str) -> Vec<T> {
    let (Some(dir), Some(builder)) = (event_file.parent(), header.builder) else { return Vec::new() };
    let read = || -> io::Result<Vec<T>> {
        let path = path(dir, header.run, builder);
        if fs::metadata(&path)?.len() > MOST {
            return Ok(Vec::new());
        }
        let mut content: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
        let mut part = |key| content.get_mut(key).map(serde_json::Value::take).unwrap_or_default();
        let run_id: RunId = serde_json::from_value(part("run_id"))?;
        if run_id != header.run_id {
            return Ok(Vec::new());
        }
        Ok(serde_json::from_value(part(name))?)
    };
    read().unwrap_or_default()
}
