//! Runs tests under Debian's User-Mode Linux, a Linux kernel that runs as an ordinary process. The
//! kernel of User-Mode Linux has `fq`, `etf` and `netem`, which the host's kernel may lack.
//! User-Mode Linux needs no virtualisation and sees the files of this host, but has its own
//! network, processes and kernel settings.
//!
//! User-Mode Linux has one virtual core and high-resolution timers. A test under User-Mode Linux
//! can show that a kernel sends packets at their departure times, but not how fast a kernel is.

mod packages;
mod job;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Result;
use checkout::SKIPPED;
use clap::Args;

use self::job::Job;

#[derive(Args)]
pub(crate) struct UmlArgs {
    /// Time limit in seconds, after which User-Mode Linux is killed.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Memory of User-Mode Linux, in the notation of the kernel parameter `mem`.
    #[arg(long, default_value = "512M")]
    memory: String,
    /// Command to run under User-Mode Linux, as root, in the current folder.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// Runs the user's command under User-Mode Linux, and returns its exit code, or [`SKIPPED`].
pub(crate) fn run(args: &UmlArgs) -> Result<u8> {
    under(&args.command, Duration::from_secs(args.limit), &args.memory)
}

/// Runs a command under User-Mode Linux, and returns its exit code, or [`SKIPPED`] if User-Mode
/// Linux is not available.
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
