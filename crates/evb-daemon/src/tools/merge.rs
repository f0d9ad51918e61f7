//! `evbd merge`: merges a run's files, of all builders, into files in event order.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use evb_core::units::Bytes;
use evb_file::{MergeError, MergeReport, WriterOptions, merge_watched};

use super::{bar, nothing_done, print};

/// Arguments of `evbd merge`.
#[derive(clap::Args, Debug)]
pub(crate) struct MergeArguments {
    /// Event files of one run, or directories that contain them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Directory for the merged files; it must not contain files of the same run.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Size at which a new merged file is begun, for example "2 GB".
    #[arg(long, value_name = "SIZE")]
    rotate: Option<Bytes>,
}

/// Runs `evbd merge`. Returns 0 if every event of the files is in the merged ones, 1 if an event
/// was damaged, double or could not be written, 2 if there is nothing to merge.
pub(crate) fn main(arguments: &MergeArguments) -> ExitCode {
    let mut options = WriterOptions::default();
    options.rotate_at = arguments.rotate.unwrap_or(options.rotate_at);
    let bar = bar::over(&arguments.paths);
    let merged = merge_watched(&arguments.paths, &arguments.out, options, |bytes| bar.inc(bytes.count()));
    bar.finish_and_clear();
    match merged {
        Ok(report) => print(|out| tell(&report, out)),
        Err(error @ (MergeError::Input(_) | MergeError::Runs { .. } | MergeError::Create(_))) => {
            nothing_done(&error)
        }
        Err(error) => {
            eprintln!("error: {error}; what was merged so far is readable, but not the whole run");
            ExitCode::FAILURE
        }
    }
}

fn tell(report: &MergeReport, out: &mut dyn Write) -> io::Result<ExitCode> {
    let written = &report.written;
    let files = if written.files == 1 { "file" } else { "files" };
    writeln!(out, "{} events in {} {files}", written.events, written.files)?;
    for (count, what) in [
        (report.superseded, "copies left out: a later epoch built the event again"),
        (report.duplicates, "duplicates left out"),
        (report.damaged.total, "damaged records or tails left out:"),
    ] {
        if count > 0 {
            writeln!(out, "{count} {what}")?;
        }
    }
    for damage in report.damaged.first.iter().take(10) {
        writeln!(out, "  {damage}")?;
    }
    let clean = report.duplicates == 0 && report.damaged.total == 0;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
