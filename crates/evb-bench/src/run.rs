//! Runs of real systems, which this crate describes by configurations and leaves to the daemon.

use std::io;

use evb_config::Config;
use evb_core::ledger::RunReport;

/// Runs all roles of a configuration in this process, and returns the closed ledger.
pub type RunSystem = fn(Config) -> Result<RunReport, RunError>;

/// The reason why a run could not take place or be finished.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The operator must change something; nothing was started.
    #[error("{0}")]
    Operator(String),
    /// The run failed.
    #[error("{0}")]
    Failed(String),
    /// The operating system refused a call.
    #[error("the system refused: {0}")]
    System(#[from] io::Error),
}
