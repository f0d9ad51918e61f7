//! `cargo xtask lab`, `eco` and `uml`: these commands build the separate program `lab`, which
//! depends on evb's crates, and pass their arguments to it.

use std::{convert::Infallible, os::unix::process::CommandExt as _, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::built::built;

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// Arguments for the program `lab`; see `cargo xtask lab --help` and `cargo xtask eco --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct UmlArgs {
    /// Time limit in seconds, after which User-Mode Linux is killed.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Memory of User-Mode Linux, in the notation of the kernel parameter `mem`.
    #[arg(long, default_value = "512M")]
    memory: String,
    /// Build this integration test of evb-net and run it under User-Mode Linux, with COMMAND as its
    /// arguments.
    #[arg(long)]
    test: Option<String>,
    /// Path of the program `lab`; by default it is built.
    #[arg(long, hide = true)]
    lab: Option<PathBuf>,
    /// Command to run under User-Mode Linux, as root, in the current folder.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "test")]
    command: Vec<String>,
}

/// Replaces this process by the program `lab`, with the given task.
pub(crate) fn run(task: &str, args: &LabArgs) -> Result<Infallible> {
    // The WebDriver client depends on fifty crates, so the feature `browser` is enabled only for
    // the part that needs it.
    let drives_browser = task == "eco" && args.arguments.iter().any(|argument| argument == "page");
    become_lab(checkout::lab(None, drives_browser).arg(task).args(&args.arguments))
}

/// Replaces this process by the program `lab`, which runs the command under User-Mode Linux.
pub(crate) fn uml(args: &UmlArgs) -> Result<Infallible> {
    let test = args.test.as_ref().map(|test| built("--test", test)).transpose()?;
    let mut lab = checkout::lab(args.lab.as_deref(), false);
    lab.args(["uml", "--limit", &args.limit.to_string(), "--memory", &args.memory, "--"]);
    become_lab(lab.args(test).args(&args.command))
}

/// Executes `lab` in place of this process, so that signals reach it directly and the caller gets
/// its exit code.
fn become_lab(lab: &mut Command) -> Result<Infallible> {
    Err(lab.exec()).with_context(|| format!("{lab:?} does not start"))
}
