use evb_core::{
    id::RunId,
    ledger::{Annotation, EventCounts, RunReport},
    time::{ClockState, Utc},
};
use serde::{Deserialize, Serialize};

/// Summary of a run that is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    /// Number of the run.
    pub run: u32,
    /// Id of the run.
    pub run_id: RunId,
    /// Exit code; 0 means that every event is accounted for and complete.
    pub exit_code: u8,
    /// Description of the outcome in one sentence.
    pub verdict: String,
    /// Counts of the run's triggers by outcome.
    pub events: EventCounts,
    /// Duration of the run, s.
    pub duration_s: f64,
    /// Problems of the run, in words.
    pub problems: Vec<String>,
    /// Incidents that cost no data.
    pub remarks: Vec<String>,
    /// The operators' annotation of the run.
    pub annotation: Annotation,
    /// Start of the run; unknown if it never started.
    pub begin: Utc,
    /// End of the run, on the scale that began with [`Self::begin`].
    pub end: Utc,
    /// State of the supervisor's wall clock at the start of the run.
    pub wall_clock: ClockState,
}

impl From<&RunReport> for LastRun {
    fn from(report: &RunReport) -> Self {
        Self {
            run: report.run,
            run_id: report.run_id,
            exit_code: report.exit_code,
            verdict: report.verdict.clone(),
            events: report.events,
            duration_s: report.duration_s,
            problems: report.problems.clone(),
            remarks: report.remarks.clone(),
            annotation: report.annotation.clone(),
            begin: report.begin,
            end: report.end,
            wall_clock: report.wall_clock,
        }
    }
}
