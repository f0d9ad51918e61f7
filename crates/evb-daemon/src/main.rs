//! The `evbd` program.

use std::process::ExitCode;

/// Allocator of the static program. With musl's own one, which has one lock for all threads, events
/// of 4 kB are built at three quarters of the rate.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    evb_daemon::cli::main()
}
