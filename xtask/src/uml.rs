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
use crate::built::built;

/// The exit code if there is no such kernel here, with the meaning that automake's tests give it.
pub(crate) const SKIPPED: u8 = 77;

/// The exit code if the command passed, but reported something that could not be judged on this
/// machine.
pub(crate) const IN_PART: u8 = 78;

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
    /// The command to run there, as root, in this folder.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "test")]
    command: Vec<String>,
}

/// Runs the user's command, and returns its exit code, or [`SKIPPED`].
pub(crate) fn run(args: &UmlArgs) -> Result<u8> {
    let mut command = Vec::new();
    if let Some(test) = &args.test {
        command.push(built("--test", test, &[])?.to_string_lossy().into_owned());
    }
    command.extend(args.command.iter().cloned());
    under(&command, Duration::from_secs(args.limit), &args.memory)
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

/// Returns the reason why it cannot run, as far as that is known before trying.
pub(crate) fn lacks() -> Option<String> {
    packages::lacks()
}
