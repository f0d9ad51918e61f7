//! `evbd verify`, `evbd dump`, `evbd merge`: tools for event files; `evbd frames`: for captures;
//! `evbd tap`: for the events of a run that goes on;
//! `evbd runs`, `evbd report`: for the records of runs.

mod bar;
mod runs;
mod align;
pub(crate) mod verify;
pub(crate) mod dump;
pub(crate) mod frames;
pub(crate) mod merge;
pub(crate) mod records;
pub(crate) mod tap;
#[cfg(test)]
mod tests;

use std::{
    io::{self, BufWriter, Write},
    process::ExitCode,
};

use evb_config::{Plain, complain};

/// Exit code if there were no files to process, or an argument was invalid.
const NOTHING_DONE: u8 = 2;

/// Reports the reason for which a tool could not do anything. The errors of a configuration name
/// themselves so.
fn nothing_done(error: &dyn std::fmt::Display) -> ExitCode {
    let text = error.to_string();
    complain!("error: {}", text.strip_prefix("error: ").unwrap_or(&text));
    NOTHING_DONE.into()
}

/// Writes to standard output and turns the outcome into an exit code. A reader that closes the pipe
/// causes no error.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<ExitCode>) -> ExitCode {
    let mut out = Plain(BufWriter::new(io::stdout().lock()));
    match write(&mut out).and_then(|code| out.flush().map(|()| code)) {
        Ok(code) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain!(
                "error: cannot write the results to standard output: {error}; make room on that disk, or write them to another file"
            );
            ExitCode::FAILURE
        }
    }
}
