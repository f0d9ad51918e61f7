//! [`LocalRun`]: a whole system in the Python process.

use std::{path::PathBuf, time::Duration};

use evb::{local::LocalError, prelude::*};
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    errors::error,
    event::Event,
    sink::{Destination, Destinations, Outlet},
    source::Source,
    wait::{wait, wait_apart},
};

/// Time for which a source keeps a fragment whose event is not decided.
const AHEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// The run of a system in this process.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct LocalRun {
    run: evb::local::LocalRun,
    outlet: Outlet,
}

fn trigger(kind: &str, rate: Option<&str>) -> PyResult<TriggerKind> {
    let wrong = |text: String| PyValueError::new_err(text);
    let rate =
        rate.map(str::parse::<Frequency>).transpose().map_err(|error| wrong(format!("rate: {error}")))?;
    match (kind, rate) {
        ("as-fast-as-possible", None) => Ok(TriggerKind::AsFastAsPossible),
        ("external", None) => Ok(TriggerKind::External),
        ("periodic", Some(rate)) => Ok(TriggerKind::Periodic { rate }),
        ("poisson", Some(rate)) => Ok(TriggerKind::Poisson { rate }),
        ("periodic" | "poisson", None) => {
            Err(wrong(format!("the trigger {kind} needs a rate: give one, such as rate=\"2 kHz\"")))
        }
        ("as-fast-as-possible" | "external", Some(_)) => {
            Err(wrong(format!("the trigger {kind} takes no rate: leave the rate out")))
        }
        _ => Err(wrong(format!(
            "there is no trigger {kind:?}: choose as-fast-as-possible, external, periodic or poisson"
        ))),
    }
}

#[pymethods]
impl LocalRun {
    #[new]
    #[pyo3(signature = (sources, builders, run, events, trigger, rate, max_fragment, files, callable))]
    #[allow(clippy::too_many_arguments)] // Python's own class gives them defaults.
    fn start(
        py: Python<'_>,
        sources: u16,
        builders: u16,
        run: u32,
        events: Option<u64>,
        trigger: &str,
        rate: Option<&str>,
        max_fragment: Option<u64>,
        files: Option<PathBuf>,
        callable: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut system =
            LocalSystem::new(sources, builders).trigger(self::trigger(trigger, rate)?).with_plan(|plan| {
                (plan.run, plan.events) = (RunNumber::new(run), events);
                // A program may push many events at once, long before builders ask for them.
                plan.orphan_timeout = AHEAD;
            });
        if let Some(largest) = max_fragment.map(Bytes::new) {
            system = system.fragments_of(largest).with_sources(|config| config.max_fragment = largest);
        }
        let (destinations, outlet) = Destinations::new(files, callable);
        let mut made: Vec<Destination> = (0..builders).map(|_| destinations.for_one_builder(py)).collect();
        drop(destinations);
        let start = move || system.start(move |_| made.remove(0));
        let unwanted = |run: Result<evb::local::LocalRun, LocalError>| {
            if let Ok(run) = run {
                run.abort();
            }
        };
        let run = wait_apart(py, start, unwanted)?.map_err(error)?;
        Ok(Self { run, outlet })
    }

    /// The sources, in the order of their ids from 1.
    /// The sources, in the order of their ids from 1.
    #[getter]
    fn sources(&self) -> Vec<Source> {
        self.run.sources().iter().cloned().map(Source::new).collect()
    }

    fn trigger(&self, py: Python<'_>, count: u64) -> PyResult<()> {
        wait(py, async {
            let mut progress = self.run.supervisor().progress();
            progress.wait_for(|now| now.ready).await;
            self.run.supervisor().trigger(count).await
        })?
        .map_err(error)
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        self.outlet.next(py)
    }

    fn request_run_end(&self, py: Python<'_>, cause: &str) -> PyResult<()> {
        wait(py, self.run.request_run_end(cause))
    }

    /// The closed ledger as JSON.
    fn finished(&self, py: Python<'_>) -> PyResult<String> {
        let report = wait(py, self.run.finished())?;
        self.outlet.raise()?;
        serde_json::to_string(&*report.map_err(error)?).map_err(error)
    }

    fn abort(&self) {
        self.run.abort();
    }
}
