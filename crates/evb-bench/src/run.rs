//! Runs of real systems: all roles of a configuration in this process.

use std::io;

use evb_config::Config;
use evb_core::ledger::RunReport;
use evb_daemon::run;

/// The reason why a run could not start or could not finish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The operator must change the configuration or the host; nothing was started.
    #[error("{0}")]
    Operator(String),
    /// The run failed.
    #[error("{0}")]
    Failed(String),
    /// The operating system refused a call.
    #[error(
        "the operating system refused a port, a thread or an open file: {0}; raise the limits of this process, which `ulimit -a` shows, and measure again"
    )]
    System(#[from] io::Error),
}

/// Runs all roles of a configuration in this process, and returns the report of the finished run.
pub(super) fn run_system(config: Config) -> Result<RunReport, RunError> {
    run::here(config).map_err(|error| match error {
        run::RunError::Operator(reason) => RunError::Operator(reason),
        run::RunError::Unmet { .. } => RunError::Operator(error.to_string()),
        other => RunError::Failed(other.to_string()),
    })
}
