//! `cargo xtask seeds`: whole systems with faults, from seeds, by the simulator. What runs them is an example of evb-sim, as tests build
//! it: the machines with optimisation, and with assertions. This only passes on what is asked for.

use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{built::built, repo};

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SeedsArgs {
    /// As `cargo xtask seeds --help` says.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs them. True: nothing was found.
pub(crate) fn run(args: &SeedsArgs) -> Result<u8> {
    let undoes = args.arguments.iter().any(|argument| argument.starts_with("--undo"));
    let features: &[&str] = if undoes { &["evb-sim/undo"] } else { &[] };
    let seeds = built("--example", "seeds", features)?;
    let status =
        Command::new(seeds).args(&args.arguments).current_dir(repo::root()).status().context("seeds")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}
