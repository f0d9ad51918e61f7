//! Another kernel for the tests: User-Mode Linux as Debian packages it, which has `fq`, `etf` and
//! `netem` if the host's kernel may not. It needs no virtualisation and sees this host's files; its
//! network, processes and settings are its own.
//!
//! It has one virtual core at native speed, with high-resolution timers: it answers whether a
//! kernel keeps a departure time, not how fast it is.

mod packages;
mod job;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use self::job::Job;
use crate::SKIPPED;

/// The exit code if the command passed, but reported something that could not be judged on this
/// machine.
const IN_PART: u8 = 78;

#[derive(Args)]
pub(crate) struct UmlArgs {
    /// Seconds after which the kernel is ended.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// The kernel's memory, in the kernel's notation.
    #[arg(long, default_value = "512M")]
    memory: String,
    /// The command to run there, as root, in this folder.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// Runs the user's command, and returns its exit code, or [`SKIPPED`].
pub(crate) fn run(args: &UmlArgs) -> Result<u8> {
    under(&args.command, Duration::from_secs(args.limit), &args.memory)
}

/// Runs a command under that kernel, and returns its exit code, or [`SKIPPED`].
pub(crate) fn under(command: &[String], limit: Duration, memory: &str) -> Result<u8> {
    let kernel = match packages::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            eprintln!("SKIP: no User-Mode Linux here: {reason:#}");
            return Ok(SKIPPED);
        }
    };
    Job::new(&kernel, command)?.run(limit, memory)
}
