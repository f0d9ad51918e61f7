//! `evbd verify`: reads event files and accounts for every event.

use std::{path::PathBuf, process::ExitCode};

use evb_config::complain;
use evb_file::{RunReport, SharedNumber, Unreadable, VerifyOptions, VerifyReport, verify_watched};
use serde::Serialize;

use super::{
    align::{AlignError, AlignReport, align},
    bar, nothing_done, print,
    runs::RunArguments,
};

/// Arguments of `evbd verify`.
#[derive(clap::Args, Debug)]
pub(crate) struct VerifyArguments {
    /// Event files, or directories that contain event files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Number of events that each run must have. Without this option, missing event ids are
    /// reported but do not count as errors, because inhibited triggers leave such gaps, too.
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    #[command(flatten)]
    runs: RunArguments,
    /// Compare the timestamps of each event's fragments, by the clocks (`clock`) that this
    /// configuration gives its sources, and say which source is misaligned since which event.
    #[arg(long, value_name = "CONFIG")]
    align: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `evbd verify`. Returns 0 if every event is complete, present once and undamaged, and each
/// run has a number of its own; 1 if not; 2 if there is nothing that can be verified.
pub(crate) fn main(arguments: &VerifyArguments) -> ExitCode {
    let options = VerifyOptions { selection: arguments.runs.selection(), expected: arguments.events };
    let bar = bar::over(&arguments.paths);
    let report = verify_watched(&arguments.paths, &options, |bytes| bar.inc(bytes.count()));
    bar.finish_and_clear();
    let report = match report {
        Ok(report) => report,
        Err(error) => return nothing_done(&error),
    };
    let aligned = arguments.align.as_deref();
    let aligned = aligned.map(|config| align(&arguments.paths, &options.selection, config)).transpose();
    let aligned = match aligned {
        Ok(aligned) => aligned,
        Err(AlignError::Config(problems)) => {
            complain!("{problems}");
            return super::NOTHING_DONE.into();
        }
        Err(error) => return nothing_done(&error),
    };
    let printed = print(|out| {
        match arguments.json {
            true => {
                serde_json::to_writer(&mut *out, &Json { alignment: aligned.as_ref(), ..Json::of(&report) })?;
                writeln!(out)?;
            }
            false => {
                write!(out, "{report}")?;
                if let Some(aligned) = &aligned {
                    write!(out, "{aligned}")?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    });
    if !arguments.json {
        advice(&report).iter().for_each(|words| complain!("{words}"));
    }
    if report.runs.is_empty() {
        return super::NOTHING_DONE.into();
    }
    // A reader that has closed the pipe still gets the verdict as the exit code.
    let is_aligned = aligned.is_none_or(|aligned| aligned.is_aligned());
    if report.is_clean() && is_aligned { printed } else { ExitCode::FAILURE }
}

/// Returns what an operator can do about each kind of finding in the report.
pub(super) fn advice(report: &VerifyReport) -> Vec<&'static str> {
    let any = |count: fn(&RunReport) -> u64| report.runs.iter().any(|run| count(run) > 0);
    [
        (
            any(|run| run.incomplete.total),
            "incomplete events: their other fragments are intact, and can be used; before the next run, check the process, the front end and the network of the missing sources, whose logs say more",
        ),
        (
            any(|run| run.misaligned),
            "misaligned events: `evbd verify --align CONFIG` says what befell these boards; the files are intact",
        ),
        (
            any(|run| run.lossy),
            "lost packets: the files are intact, and flag these fragments; look for losses at the boards and in the network, and raise `receive_buffer` of the input if evbd said at the end of the run that the kernel dropped packets",
        ),
        (
            any(|run| run.damaged.total),
            "CRC errors: restore these files from a copy; if there is none, `evbd merge` makes files without what is damaged",
        ),
        (
            any(|run| run.torn_tails.total),
            "torn tails: the builder was stopped while it wrote, and the rest of its file is intact; verify all files of the run together to see whether another has the event, and `evbd merge` leaves the tails out",
        ),
        (
            any(|run| run.superseded.total),
            "superseded copies: nothing needs to be done; another builder built these events again, and the newer copy of each counts",
        ),
        (
            any(|run| run.duplicates.total),
            "duplicates: is a file given twice, under two names? `evbd merge` keeps one copy of each event",
        ),
        (
            any(|run| run.foreign.total),
            "foreign: records of another run or builder are left out, and all others are read, so nothing needs to be done; if a line above says that the name of a file is wrong, rename the file",
        ),
        (
            any(|run| run.without_index.total),
            "files without index: nothing needs to be done; `evbd merge` makes files with an index",
        ),
        (
            !report.shared_numbers.is_empty(),
            "several runs with one number: keep their files in separate directories, or choose one with `--run` and the first digits of its id, which stands in brackets above",
        ),
        (
            !report.unreadable.is_empty(),
            "unreadable files: do what their lines say, or restore damaged ones from a copy",
        ),
    ]
    .into_iter()
    .filter_map(|(is_found, words)| is_found.then_some(words))
    .collect()
}

/// The report as JSON, with the verdict on each run and on all runs. It is written piece by piece,
/// because an event may lack thousands of sources.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    clean: bool,
    runs: Vec<JsonRun<'a>>,
    shared_numbers: &'a [SharedNumber],
    unreadable: &'a [Unreadable],
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<&'a AlignReport>,
}

#[derive(Serialize)]
struct JsonRun<'a> {
    clean: bool,
    #[serde(flatten)]
    run: &'a RunReport,
}

impl<'a> Json<'a> {
    pub(super) fn of(report: &'a VerifyReport) -> Self {
        let VerifyReport { runs, shared_numbers, unreadable } = report;
        let runs = runs.iter().map(|run| JsonRun { clean: run.is_clean(), run }).collect();
        Self { clean: report.is_clean(), runs, shared_numbers, unreadable, alignment: None }
    }
}
