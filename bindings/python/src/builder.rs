//! [`Builder`]: builds events for Python.

use std::path::PathBuf;

use evb::prelude::*;
use pyo3::prelude::*;

use crate::{
    errors::error,
    event::Event,
    sink::{Destinations, Outlet},
    source::{Outcome, outcome, seconds, security},
    wait::wait,
};

/// A running builder.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Builder {
    builder: evb::Builder,
    outlet: Outlet,
}

#[pymethods]
impl Builder {
    #[new]
    #[pyo3(signature = (address, id, listen, files, callable, key_file, start_timeout))]
    #[allow(clippy::too_many_arguments)] // Python's own class gives them defaults.
    fn connect(
        py: Python<'_>,
        address: String,
        id: u16,
        listen: String,
        files: Option<PathBuf>,
        callable: Option<Py<PyAny>>,
        key_file: Option<PathBuf>,
        start_timeout: f64,
    ) -> PyResult<Self> {
        let mut config = BuilderConfig::new(BuilderId::new(id), address);
        config.listen = listen;
        config.security = security(key_file)?;
        config.start_timeout = seconds(start_timeout)?;
        let (destinations, outlet) = Destinations::new(files, callable);
        let builder =
            wait(py, evb::Builder::connect(config, destinations.for_one_builder(py)))?.map_err(error)?;
        Ok(Self { builder, outlet })
    }

    #[getter]
    fn address(&self) -> String {
        self.builder.address().to_string()
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        self.outlet.next(py)
    }

    fn request_run_end(&self, cause: &str) {
        self.builder.request_run_end(cause);
    }

    fn finished(&self, py: Python<'_>) -> PyResult<Outcome> {
        let ended = wait(py, self.builder.finished())?;
        self.outlet.raise()?;
        ended.map(outcome).map_err(error)
    }

    fn abort(&self) {
        self.builder.abort();
    }
}
