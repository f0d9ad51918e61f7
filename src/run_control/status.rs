//! The status of a system, for operators.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use evb_core::{
    id::RunId,
    ledger::{Annotation, DeadTimeCause, EventCounts, fraction},
    run_control::State,
    supervisor::Survey,
    time::{Instant, Utc},
};
use serde::Serialize;

use super::{history::settled, problems::Problem};
use crate::supervisor::LastRun;

/// Everything about a system and its run.
///
/// ```
/// use evb::run_control::{State, Status};
///
/// /// Returns a line for the display in the control room.
/// fn line(status: &Status) -> String {
///     if !status.waiting_for.is_empty() {
///         return format!("waits for {}", status.waiting_for.join(", "));
///     }
///     match status.problems.first() {
///         Some(problem) => format!("{}: {}", problem.subject, problem.text),
///         None => format!("{}, {:.0} events/s", status.state, status.rates.events_per_s),
///     }
/// }
///
/// let mut status = Status { state: State::Running, ..Status::default() };
/// status.rates.events_per_s = 1999.6;
/// assert_eq!(line(&status), "Running, 2000 events/s");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// State of the system.
    pub state: State,
    /// Number of the run that is under way or, between runs, of the next run.
    pub run: Option<u32>,
    /// Id of that run.
    pub run_id: Option<RunId>,
    /// Start of the run that is under way; unknown between runs.
    pub begin: Utc,
    /// True if the next run can begin at once.
    pub ready: bool,
    /// Before a run: sources and builders that are missing.
    pub waiting_for: Vec<String>,
    /// Rates over the last second or so.
    pub rates: LiveRates,
    /// Problems, the worst first.
    pub problems: Vec<Problem>,
    /// The operators' annotation of the run that is under way or, between runs, of the next run.
    pub annotation: Annotation,
    /// State of the sources and builders that take part.
    pub survey: Option<Survey>,
    /// Text of the last error.
    pub last_error: Option<String>,
    /// Summary of the latest run that is over.
    pub last_run: Option<LastRun>,
    /// Runs before [`Self::last_run`], the latest first.
    pub earlier_runs: Vec<LastRun>,
    /// Totals of all runs that this process leads or has led.
    pub totals: Totals,
    /// Number of runs that have ended under this process.
    pub runs: u64,
}

/// Counts over all runs of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Counts of the triggers by outcome.
    pub events: EventCounts,
    /// Inhibited triggers by their cause.
    pub dead_time: BTreeMap<String, u64>,
    /// Payload that sinks accepted.
    pub payload_bytes: u64,
}

/// Limit of the number of causes of dead time that are counted separately.
const CAUSES: usize = 200;

impl Totals {
    /// Adds a run.
    pub(super) fn add(&mut self, events: &EventCounts, dead_time: &[DeadTimeCause], payload_bytes: u64) {
        let sums = &mut self.events;
        sums.triggered += events.triggered;
        sums.inhibited += events.inhibited;
        sums.assigned += events.assigned;
        sums.complete += events.complete;
        sums.incomplete += events.incomplete;
        sums.lost += events.lost;
        sums.rejected += events.rejected;
        sums.written += events.written;
        for DeadTimeCause { cause, inhibited } in dead_time {
            let is_kept = self.dead_time.contains_key(cause) || self.dead_time.len() < CAUSES;
            let cause = if is_kept { cause.as_str() } else { "other causes" };
            *self.dead_time.entry(cause.to_owned()).or_default() += inhibited;
        }
        self.payload_bytes = self.payload_bytes.saturating_add(payload_bytes);
    }
}

/// Current rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LiveRates {
    /// Triggers per second.
    pub triggers_per_s: f64,
    /// Events settled per second.
    pub events_per_s: f64,
    /// Payload that sinks accepted per second, as builders report it.
    pub bytes_per_s: f64,
    /// Fraction of the triggers that were inhibited.
    pub dead_time_fraction: f64,
}

/// Shortest time over which rates are computed.
const WINDOW: Duration = Duration::from_millis(500);

/// Computes rates from counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Speedometer {
    seen: Option<(Instant, EventCounts)>,
    pub(super) rates: LiveRates,
}

impl Speedometer {
    /// Starts with the counters of a new or recovered run.
    pub(super) fn from(now: Instant, counts: EventCounts) -> Self {
        Self { seen: Some((now, counts)), rates: LiveRates::default() }
    }

    /// Updates the rates with the current counters.
    pub(super) fn look(&mut self, now: Instant, counts: EventCounts) {
        let Some((then, before)) = self.seen else { return };
        if now.since(then) < WINDOW {
            return;
        }
        self.seen = Some((now, counts));
        let seconds = now.since(then).as_secs_f64();
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let triggers = counts.triggered.saturating_sub(before.triggered);
        let inhibited = counts.inhibited.saturating_sub(before.inhibited);
        self.rates = LiveRates {
            triggers_per_s: per_second(counts.triggered, before.triggered),
            events_per_s: per_second(settled(&counts), settled(&before)),
            dead_time_fraction: fraction(inhibited as f64, triggers as f64),
            ..self.rates
        };
    }
}
