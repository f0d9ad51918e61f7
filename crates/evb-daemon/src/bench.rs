//! `evbd bench`: measurements that a paper would show.

mod builder;

use std::process::ExitCode;

use clap::Subcommand;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The event rate of a 4 × 4 event builder that asks its sources one after the other, over event sizes and slots: the
    /// measurement of the RCNP event builder (Nomachi et al.).
    Builder(builder::BuilderArguments),
}

/// Runs the command.
pub fn main(command: &BenchCommand) -> ExitCode {
    match command {
        BenchCommand::Builder(arguments) => builder::main(arguments),
    }
}
