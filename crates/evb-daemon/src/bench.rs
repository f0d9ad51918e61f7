//! `evbd bench`: the measurements of crate evb-bench, with event builders that run in this process.

use std::process::ExitCode;

use evb_bench::BenchCommand;
use evb_config::Config;
use evb_core::ledger::RunReport;

use crate::run::{self, RunError};

/// Runs `evbd bench`.
pub(crate) fn main(command: &BenchCommand) -> ExitCode {
    evb_bench::main(command, run_system)
}

fn run_system(config: Config) -> Result<RunReport, evb_bench::RunError> {
    run::here(config).map_err(|error| match error {
        RunError::Operator(reason) => evb_bench::RunError::Operator(reason),
        RunError::Unmet { .. } => evb_bench::RunError::Operator(error.to_string()),
        other => evb_bench::RunError::Failed(other.to_string()),
    })
}
