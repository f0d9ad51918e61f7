//! The file of episodes beside a builder's event files. It has what the header of an open file does
//! not have yet, and it is what remains when a builder is killed.

#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use evb_core::{
    alignment::Episode,
    id::{BuilderId, RunId, RunNumber},
};
use serde_json::json;

use crate::{error::FileError, format::FileHeader};

/// The largest size of such a file that is read, in bytes.
const MOST: u64 = 1 << 20;

/// Returns the path of the file beside the event files in `dir`.
fn path(dir: &Path, run: RunNumber, builder: BuilderId) -> PathBuf {
    dir.join(format!("run{:06}_b{:02}.alignment.json", run.number(), builder.number()))
}

/// Writes the episodes of a run as a whole, so that a reader never sees a part of them.
pub(crate) fn write(
    dir: &Path,
    (run, run_id, builder): (RunNumber, RunId, BuilderId),
    episodes: &[Episode],
) -> Result<(), FileError> {
    let path = path(dir, run, builder);
    let part = path.with_extension("json.part");
    let told = json!({ "run": run, "run_id": run_id, "builder": builder, "episodes": episodes });
    fs::write(&part, format!("{told:#}\n")).map_err(FileError::of("write to", &part))?;
    fs::rename(&part, &path).map_err(FileError::of("rename to", &path))
}

/// Returns the episodes beside an event file with that header. There are none if the file beside is
/// of another run, or cannot be read.
pub(crate) fn read(event_file: &Path, header: &FileHeader) -> Vec<Episode> {
    let (Some(dir), Some(builder)) = (event_file.parent(), header.builder) else { return Vec::new() };
    let read = || -> io::Result<Vec<Episode>> {
        let path = path(dir, header.run, builder);
        if fs::metadata(&path)?.len() > MOST {
            return Ok(Vec::new());
        }
        let mut told: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
        let mut part = |key| told.get_mut(key).map(serde_json::Value::take).unwrap_or_default();
        let of: RunId = serde_json::from_value(part("run_id"))?;
        if of != header.run_id {
            return Ok(Vec::new());
        }
        Ok(serde_json::from_value(part("episodes"))?)
    };
    read().unwrap_or_default()
}
