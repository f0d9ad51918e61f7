//! `cargo xtask lab`, `eco` and `uml`: they run in a program of their own, `lab`, which is built
//! with evb's crates. These commands only build it and pass the arguments on.

use std::{
    convert::Infallible,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{built::built, repo};

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// The arguments; see `cargo xtask lab --help` and `cargo xtask eco --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct UmlArgs {
    /// Seconds after which the kernel is ended.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// The kernel's memory, in the kernel's notation.
    #[arg(long, default_value = "512M")]
    memory: String,
    /// Build this integration test of evb-net and run it there; COMMAND is then its arguments.
    #[arg(long)]
    test: Option<String>,
    /// The lab's program; by default it is built.
    #[arg(long, hide = true)]
    lab: Option<PathBuf>,
    /// The command to run there, as root, in this folder.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "test")]
    command: Vec<String>,
}

/// Becomes the lab's program, for the task of that name.
pub(crate) fn run(task: &str, args: &LabArgs) -> Result<Infallible> {
    // The browser's client has fifty crates below it, so it is built for its part alone.
    let drives_browser = task == "eco" && args.arguments.iter().any(|argument| argument == "page");
    become_lab(program(None, drives_browser).arg(task).args(&args.arguments))
}

/// Becomes the lab's program, which runs the command under the other kernel.
pub(crate) fn uml(args: &UmlArgs) -> Result<Infallible> {
    let test = args.test.as_ref().map(|test| built("--test", test, &[])).transpose()?;
    let mut lab = program(args.lab.as_deref(), false);
    lab.args(["uml", "--limit", &args.limit.to_string(), "--memory", &args.memory, "--"]);
    become_lab(lab.args(test).args(&args.command))
}

/// Returns a command that runs the lab's program, the given one or one that cargo builds first.
fn program(lab: Option<&Path>, drives_browser: bool) -> Command {
    if let Some(lab) = lab {
        return Command::new(lab);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "--quiet", "--package", "lab", "--manifest-path"])
        .arg(repo::root().join("Cargo.toml"));
    if drives_browser {
        cargo.args(["--features", "browser"]);
    }
    cargo.arg("--");
    cargo
}

/// Replaces this program, so that signals reach the lab, and its exit code the caller.
fn become_lab(lab: &mut Command) -> Result<Infallible> {
    Err(lab.exec()).with_context(|| format!("{lab:?} does not start"))
}
