//! [`Source`]: pushes fragments into a source.

use std::{path::PathBuf, time::Duration};

use evb::{
    prelude::*,
    role::RunOutcome,
    security::{PresharedKey, Security},
    source::{ClockWrap, DetectorClock, TryPushError},
};
use pyo3::{exceptions::PyValueError, prelude::*, pybacked::PyBackedBytes};

use crate::{
    errors::{error, not_pushed, not_taken},
    wait::wait,
};

/// Run, epoch, exit code and verdict of a role's run.
pub(crate) type Outcome = (u32, u64, u8, String);

pub(crate) fn outcome(outcome: RunOutcome) -> Outcome {
    (outcome.run.number(), outcome.epoch.number(), outcome.exit_code, outcome.verdict)
}

/// Reads the key with which peers authenticate each other.
pub(crate) fn security(key_file: Option<PathBuf>) -> PyResult<Security> {
    let Some(path) = key_file else { return Ok(Security::None) };
    Ok(Security::Psk(PresharedKey::read(&path).map_err(error)?))
}

/// Returns a time that Python states in seconds.
pub(crate) fn seconds(count: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(count).map_err(|_| {
        let text =
            format!("start_timeout = {count} is not a possible time; give seconds from 0 on, such as 10.0");
        PyValueError::new_err(text)
    })
}

/// A clock as Python states it: rate, bits, wrap, tolerance in seconds, accuracy in ppm.
type GivenClock = (String, Option<u64>, Option<u64>, f64, f64);

/// Returns the clock of a source's timestamps.
fn clock((rate, bits, wrap, tolerance, accuracy): GivenClock) -> PyResult<DetectorClock> {
    let wrong = |text: String| PyValueError::new_err(format!("clock: {text}"));
    let rate: Frequency = rate.parse().map_err(|error| wrong(format!("{error}")))?;
    let wrap = match (bits, wrap) {
        (Some(bits), None) => ClockWrap::Bits(u8::try_from(bits).unwrap_or(u8::MAX)),
        (None, Some(ticks)) => ClockWrap::Ticks(ticks),
        (Some(_), Some(_)) => {
            return Err(wrong("both bits and wrap are given; give bits or wrap, and not both".to_owned()));
        }
        (None, None) => {
            let text = "nothing says when the timestamps start again at zero; give bits or wrap";
            return Err(wrong(text.to_owned()));
        }
    };
    let tolerance = Duration::try_from_secs_f64(tolerance).map_err(|_| {
        wrong(format!(
            "tolerance = {tolerance} is not a possible time; give seconds from 1e-9 to 3600, such as 1e-6"
        ))
    })?;
    let mut clock = DetectorClock::new(rate, wrap);
    (clock.tolerance, clock.accuracy) = (tolerance, accuracy);
    clock.check().map_err(|error| wrong(format!("{error}; give evb.Clock a value in this range")))?;
    Ok(clock)
}

/// A running source.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Source(evb::Source);

impl Source {
    pub(crate) fn new(source: evb::Source) -> Self {
        Self(source)
    }
}

/// Makes a fragment from an object of Python, whose bytes stay where they are.
fn fragment(event: u64, payload: PyBackedBytes, timestamp: u64) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::new(timestamp), bytes::Bytes::from_owner(payload))
}

#[pymethods]
impl Source {
    #[new]
    #[pyo3(signature = (address, id, key_file, max_fragment, backlog, start_timeout, clock))]
    #[allow(clippy::too_many_arguments)] // Python's own class gives them defaults.
    fn connect(
        py: Python<'_>,
        address: String,
        id: u16,
        key_file: Option<PathBuf>,
        max_fragment: Option<u64>,
        backlog: Option<u64>,
        start_timeout: f64,
        clock: Option<GivenClock>,
    ) -> PyResult<Self> {
        let mut config = SourceConfig::new(SourceId::new(id), address);
        config.security = security(key_file)?;
        config.start_timeout = seconds(start_timeout)?;
        config.max_fragment = max_fragment.map_or(config.max_fragment, Bytes::new);
        config.backlog = backlog.map_or(config.backlog, Bytes::new);
        config.clock = clock.map(self::clock).transpose()?;
        wait(py, evb::Source::connect(config))?.map(Self).map_err(error)
    }

    #[getter]
    fn first_event(&self) -> u64 {
        self.0.first_event().number()
    }

    fn push(&self, py: Python<'_>, event: u64, payload: PyBackedBytes, timestamp: u64) -> PyResult<()> {
        match py.detach(|| self.0.try_push(fragment(event, payload, timestamp))) {
            Ok(()) => Ok(()),
            Err(TryPushError::Full(fragment)) => {
                wait(py, self.0.push(fragment))?.map_err(|error| not_pushed(&error))
            }
            Err(error) => Err(not_taken(&error)),
        }
    }

    /// Pushes fragments in their order, and returns the number of pushed ones, and the error that
    /// ended the call if not all were pushed.
    fn push_many(
        &self,
        py: Python<'_>,
        fragments: Vec<(u64, PyBackedBytes, u64)>,
    ) -> PyResult<(usize, Option<PyErr>)> {
        let make =
            || fragments.into_iter().map(|(event, payload, time)| fragment(event, payload, time)).collect();
        let mut left: Vec<Fragment> = py.detach(make);
        let all = left.len();
        let pushed = wait(py, self.0.push_many(&mut left));
        let error = match pushed {
            Ok(result) => result.err().map(|error| not_pushed(&error)),
            Err(signal) => Some(signal),
        };
        Ok((all - left.len(), error))
    }

    fn request_run_end(&self, cause: &str) {
        self.0.request_run_end(cause);
    }

    fn finished(&self, py: Python<'_>) -> PyResult<Outcome> {
        wait(py, self.0.finished())?.map(outcome).map_err(error)
    }

    fn abort(&self) {
        self.0.abort();
    }
}
