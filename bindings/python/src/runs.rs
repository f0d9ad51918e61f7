//! Tells the runs of several files apart.

use std::path::PathBuf;

use evb::file::{self, FoundRun, Selection};
use pyo3::prelude::*;

use crate::{errors::error, event::digits};

/// Number, id, begin in ns, files, and description of a run.
type Run = (u32, String, u64, Vec<PathBuf>, String);

/// Returns the runs of these files, and why other files cannot be read. Files without a run id and
/// with one run number are of one run if `same_run` is true.
#[pyfunction]
pub(crate) fn find_runs(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    same_run: bool,
) -> PyResult<(Vec<Run>, Vec<String>)> {
    let selection = Selection { same_run, ..Selection::default() };
    let (found, unopened) = py.detach(|| file::find_runs(&paths, &selection)).map_err(error)?;
    let unopened = unopened.iter().map(ToString::to_string);
    Ok((found.into_iter().map(described).collect(), unopened.collect()))
}

fn described(run: FoundRun) -> Run {
    let text = run.to_string();
    (run.run.number(), digits(run.run_id), run.begun.as_nanos(), run.files, text)
}
