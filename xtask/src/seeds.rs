//! `cargo xtask seeds`: simulates whole systems with random faults from seeds. This command builds
//! the example `seeds` of evb-sim with the profile of tests, which optimises the state machines and
//! keeps assertions, and passes its arguments on.

use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{built::built, repo};

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SeedsArgs {
    /// Arguments for the example `seeds`; see `cargo xtask seeds --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the example `seeds`, and returns its exit code.
pub(crate) fn run(args: &SeedsArgs) -> Result<u8> {
    let undoes = args.arguments.iter().any(|argument| argument.starts_with("--undo"));
    let features: &[&str] = if undoes { &["evb-sim/undo"] } else { &[] };
    let seeds = built("--example", "seeds", features)?;
    let status =
        Command::new(seeds).args(&args.arguments).current_dir(repo::root()).status().context("seeds")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}
