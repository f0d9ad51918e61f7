//! The `evb-bench` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    evb_bench::main()
}
