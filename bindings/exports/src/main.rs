//! `evb-export`: writes the events of a run into one HDF5 or Parquet file, for programs that read
//! these formats.
//!
//! ```text
//!                 ┌─────── thread ───────┐  blocks   ┌─ main thread ─┐
//! event files ──► │ merge, verify, count │ ════════► │ columns       │ ──► FILE.part ──► FILE
//!                 └──────────────────────┘ ◄──────── └───────────────┘     (when it is whole)
//!                                       empty blocks
//! ```

mod arguments;
mod block;
mod counts;
mod reading;
mod staged;
mod flusher;
mod output;
mod export;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser;
use evb_core::wire::control::plain;
use nix::sys::signal::{SigSet, Signal};

fn main() -> ExitCode {
    // A write beyond the limit of a file's size fails, and does not end the program. The threads
    // that start later have the same mask.
    let of_writes: SigSet = [Signal::SIGPIPE, Signal::SIGXFSZ].into_iter().collect();
    of_writes.thread_block().ok();
    let arguments = arguments::Arguments::parse();
    match export::run(&arguments) {
        Ok(summary) => export::print(&arguments, &summary),
        Err(error) => {
            // A reader that has closed the pipe still gets the exit code.
            let _ = writeln!(io::stderr(), "error: {}", plain(&error.text(&arguments.out), 2000));
            error.code()
        }
    }
}
