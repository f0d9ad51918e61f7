//! The `evbd` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    evb_daemon::cli::main()
}
