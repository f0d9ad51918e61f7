//! Tells the runs of several files apart.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use evb::{
    file::{self, EpochRange, FoundRun, Merge, Selection},
    id::Epoch,
};
use pyo3::prelude::*;

use crate::{
    errors::error,
    event::{Event, digits},
};

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

/// The events of a run in the order of their ids, with the fragments of sources that slipped moved
/// to their events.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Realigned(Mutex<Merge>);

#[pymethods]
impl Realigned {
    /// Opens files that are of one run.
    #[new]
    fn open(py: Python<'_>, paths: Vec<PathBuf>, epochs: Option<(u64, u64)>) -> PyResult<Self> {
        let epochs =
            epochs.map(|(first, last)| EpochRange { first: Epoch::new(first), last: Epoch::new(last) });
        let selection = Selection { same_run: true, epochs, ..Selection::default() };
        let mut merge = py.detach(|| Merge::open(&paths, &selection)).map_err(error)?;
        merge.realign(&[]);
        Ok(Self(Mutex::new(merge)))
    }

    /// The next event; `None` after the last one.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        let next = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next_event());
        Ok(next.map_err(error)?.map(Event::new))
    }

    /// Descriptions of what could not be read so far.
    fn damage(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).report().damaged.first.clone()
    }
}

fn described(run: FoundRun) -> Run {
    let text = run.to_string();
    (run.run.number(), digits(run.run_id), run.begun.as_nanos(), run.files, text)
}
