//! Runs of real systems. This crate only writes the configurations of runs; the daemon executes the
//! runs.

use std::io;

use evb_config::Config;
use evb_core::ledger::RunReport;

/// A function that runs all roles of a configuration in this process, and returns the report of the
/// finished run.
pub type RunSystem = fn(Config) -> Result<RunReport, RunError>;

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
    #[error("the system refused: {0}")]
    System(#[from] io::Error),
}
