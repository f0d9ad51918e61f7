//! The names of event files: `run000001_b01_0000.evb` is run 1, builder 1, first file; a merged run
//! has `all` in place of the builder.

#[cfg(test)]
mod tests;

use std::{
    cmp::Ordering,
    fs, io,
    path::{Path, PathBuf},
};

use evb_core::id::{BuilderId, RunNumber};

use crate::error::FileError;

/// The extension of event files.
pub const EXTENSION: &str = "evb";

/// Returns the name of an event file; `builder` is `None` for a file of a merged run.
pub fn file_name(run: RunNumber, builder: Option<BuilderId>, sequence: u32) -> String {
    let run = run.number();
    match builder {
        Some(builder) => format!("run{run:06}_b{:02}_{sequence:04}.{EXTENSION}", builder.number()),
        None => format!("run{run:06}_all_{sequence:04}.{EXTENSION}"),
    }
}

/// Parses the name of an event file into run, builder (`None`: merged) and sequence number; returns
/// `None` for any other name.
pub fn parse_file_name(name: &str) -> Option<(RunNumber, Option<BuilderId>, u32)> {
    let mut parts = name.strip_prefix("run")?.strip_suffix(".evb")?.split('_');
    let run = parts.next()?.parse().ok()?;
    let builder = match parts.next()? {
        "all" => None,
        builder => Some(builder.strip_prefix('b')?.parse().ok()?),
    };
    let sequence = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((run, builder, sequence))
}

/// Compares two paths by their names, in which numbers count by their values: file 10000 follows
/// file 9999. Requirements: docs/reference/file-format.md FILE-54.
fn compare_names(a: &Path, b: &Path) -> Ordering {
    let [one, other] = [a, b].map(|path| path.file_name().unwrap_or_default().as_encoded_bytes());
    parts(one).cmp(parts(other)).then_with(|| a.cmp(b))
}

/// Returns the parts of a name: numbers and what is between them.
fn parts(name: &[u8]) -> impl Iterator<Item = (bool, usize, &[u8])> {
    name.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).map(part)
}

/// Returns a part of a name so that numbers come before text, and a number with more digits, apart
/// from leading zeros, comes later.
fn part(bytes: &[u8]) -> (bool, usize, &[u8]) {
    if !bytes[0].is_ascii_digit() {
        return (true, 0, bytes);
    }
    let zeros = bytes.iter().take_while(|digit| **digit == b'0').count();
    (false, bytes.len() - zeros, &bytes[zeros..])
}

/// Returns the event files of a run in a directory, sorted by name. If the directory does not
/// exist, the list is empty.
pub fn existing_files(dir: &Path, run: RunNumber) -> Result<Vec<PathBuf>, FileError> {
    let named = named_files(dir)?.into_iter();
    Ok(named.filter(|(of, ..)| *of == run).map(|(.., path)| path).collect())
}

/// Returns the highest run number with event files in `dir`, by their names; `None` if the
/// directory has no event files.
pub fn highest_run(dir: &Path) -> Result<Option<RunNumber>, FileError> {
    Ok(named_files(dir)?.into_iter().map(|(run, ..)| run).max())
}

/// Returns the files that a path stands for: a directory stands for all `*.evb` in it, sorted by
/// name (docs/reference/file-format.md FILE-54), and any other path for itself.
pub fn files_at(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let metadata = fs::metadata(path).map_err(FileError::of("open", path))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = entries(path)?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    Ok(found)
}

/// The run, builder and sequence number in an event file's name, and the file's path.
pub(crate) type NamedFile = (RunNumber, Option<BuilderId>, u32, PathBuf);

/// Returns run, builder, sequence and path of every file in `dir` that has the name of an event
/// file.
pub(crate) fn named_files(dir: &Path) -> Result<Vec<NamedFile>, FileError> {
    let named = entries(dir)?.into_iter().filter_map(|path| {
        let (run, builder, sequence) = parse_file_name(path.file_name()?.to_str()?)?;
        Some((run, builder, sequence, path))
    });
    Ok(named.collect())
}

/// Lists a directory, sorted by name; a directory that does not exist is empty.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let listing = match fs::read_dir(dir) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(FileError::of("list", dir)(error)),
    };
    let mut paths = listing
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(FileError::of("list", dir))?;
    paths.sort_by(|a, b| compare_names(a, b));
    Ok(paths)
}
