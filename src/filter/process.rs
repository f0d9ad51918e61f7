//! [`ProcessFilter`]: programs in any language that judge events.
//!
//! ```text
//!   sink's thread ── record ──► memory of worker 1 ──► program        several events at a time
//!    (verdicts)   ── announcement ──►          ──► verdict ──┐        for each worker
//!        ▲─────────────────────────────────────────────────◄─┘
//! ```

#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod messages;
#[cfg(target_os = "linux")]
mod given;
#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
mod troubles;
#[cfg(target_os = "linux")]
mod worker;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(all(target_os = "linux", feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests;

/// Workers, where the operating system has no memory that a process can share in this way.
#[cfg(not(target_os = "linux"))]
mod pool {
    use std::{io, sync::atomic::AtomicBool};

    use evb_core::event::Event;
    use evb_file::FileIdentity;

    use super::{FilterReport, FilterVerdict, ProcessOptions};

    #[derive(Debug)]
    pub(super) struct WorkerPool {
        pub(super) report: FilterReport,
    }

    impl WorkerPool {
        pub(super) fn start(_: ProcessOptions) -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "filters as processes need Linux"))
        }

        pub(super) fn verdicts(&mut self, _: &[Event], _: &AtomicBool) -> Vec<FilterVerdict> {
            Vec::new()
        }

        pub(super) fn begin(&mut self, _: &FileIdentity) {}

        pub(super) fn look(&mut self) {}

        pub(super) fn end(&mut self) {}
    }
}

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evb_core::{event::Event, units::Bytes};
use evb_file::FileIdentity;

use super::{Filter, FilterReport, FilterVerdict};
use pool::WorkerPool;

/// Limit of the size of an event's record, and the length of the memory that evb shares with a
/// worker. Pages of it exist only where something was written.
pub const RECORD_LIMIT: Bytes = Bytes::mib(1024);

/// The fate of an event on which no worker gives a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The event is kept, as if the filter had accepted it.
    #[default]
    Keep,
    /// The event is dropped, and counted as rejected.
    Drop,
}

impl OnFailure {
    const fn in_words(self) -> &'static str {
        match self {
            Self::Keep => "kept: look at these events with `evbd dump`, and correct the program",
            Self::Drop => "dropped, so no file has them: correct the program, whose output is in this log",
        }
    }
}

/// The program of a filter, and how it is run.
///
/// ```
/// use evb::filter::{OnFailure, ProcessOptions};
///
/// let mut options = ProcessOptions::new(["python3", "/opt/daq/l1.py"]);
/// options.workers = 4;
/// options.on_failure = OnFailure::Drop;
/// assert_eq!(options.command[0], "python3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOptions {
    /// The program, which is searched in `PATH` if it is a bare name, and its arguments.
    pub command: Vec<String>,
    /// Number of processes of the program, at least 1.
    pub workers: u16,
    /// Time in which a worker must judge an event.
    pub timeout: Duration,
    /// The fate of an event on which no worker gives a verdict.
    pub on_failure: OnFailure,
}

impl ProcessOptions {
    /// Creates options with defaults: one worker, 2 s for each event, and events without a verdict
    /// are kept.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            workers: 1,
            timeout: Duration::from_secs(2),
            on_failure: OnFailure::Keep,
        }
    }
}

/// The reason why the filter has no worker at all.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot start `{program}`: {reason}; give a program that this user can execute, with its path or from PATH"
)]
pub struct ProcessError {
    program: String,
    reason: io::Error,
}

/// Judges events by processes of a program, which speaks the
/// [protocol of filters](https://github.com/evb-daq/evb/blob/main/docs/reference/filter.md): the
/// modules `evb_filter.py` and `evb_filter.hpp` do that. The processes live as long as the filter,
/// run after run; a copy is the same filter.
///
/// A process that ends, takes too long or answers wrongly is replaced, and its events get another
/// one. An event at which two have failed gets no verdict, and [`ProcessOptions::on_failure`]
/// decides.
///
/// ```
/// use evb::{
///     filter::{Filter, FilterVerdict, OnFailure, ProcessFilter, ProcessOptions},
///     prelude::*,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // This program ends without a verdict.
/// let mut options = ProcessOptions::new(["true"]);
/// options.timeout = std::time::Duration::from_millis(100);
/// options.on_failure = OnFailure::Drop;
/// let mut filter = ProcessFilter::start(options)?;
/// assert_eq!(filter.verdict(&Event::default()), FilterVerdict::Reject);
/// assert_eq!(filter.report().map(|report| report.failed), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ProcessFilter {
    pool: Arc<Mutex<WorkerPool>>,
    is_ending: Arc<AtomicBool>,
}

impl ProcessFilter {
    /// Starts the processes, each in a process group of its own.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(options: ProcessOptions) -> Result<Self, ProcessError> {
        let program = options.command.first().cloned().unwrap_or_default();
        let pool = WorkerPool::start(options).map_err(|reason| ProcessError { program, reason })?;
        Ok(Self { pool: Arc::new(Mutex::new(pool)), is_ending: Arc::default() })
    }

    /// Ends all processes. Events that wait for a verdict, and later ones, get none.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.lock().end();
    }

    fn lock(&self) -> MutexGuard<'_, WorkerPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filter for ProcessFilter {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        self.verdicts(std::slice::from_ref(event)).pop().unwrap_or(FilterVerdict::Accept)
    }

    fn verdicts(&mut self, events: &[Event]) -> Vec<FilterVerdict> {
        self.lock().verdicts(events, &self.is_ending)
    }

    fn begin(&mut self, run: &FileIdentity) {
        self.lock().begin(run);
    }

    fn report(&mut self) -> Option<FilterReport> {
        let mut pool = self.lock();
        if !self.is_ending.load(Ordering::Relaxed) {
            pool.look();
        }
        Some(pool.report.clone())
    }
}
