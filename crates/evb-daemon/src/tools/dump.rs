//! `evbd dump`: lists event files, or shows one event.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use evb_core::{id::EventId, quantities::counted};
use evb_file::{
    EventFile, EventStream, ReadError, VerifyError,
    dump::{ListOptions, hex, list, list_stream, summary},
    files_at, files_of_run,
};

use super::{nothing_done, print, runs::RunArguments};

/// Arguments of `evbd dump`.
#[derive(clap::Args, Debug)]
pub(crate) struct DumpArguments {
    /// Event files, or directories that contain event files; `-` alone: the stream on standard
    /// input, for example of `evbd tap`.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print a line for each fragment, too.
    #[arg(long, conflicts_with = "event")]
    fragments: bool,
    /// Print only the event with this id, and its fragments.
    #[arg(long, value_name = "N")]
    event: Option<EventId>,
    /// Print the payloads of the event given by `--event` in hexadecimal.
    #[arg(long, requires = "event")]
    hex: bool,
    #[command(flatten)]
    runs: RunArguments,
}

/// Runs `evbd dump`. Returns 0 if everything was shown, 1 if the event was not found or a file
/// cannot be read, 2 if there are no files.
pub(crate) fn main(arguments: &DumpArguments) -> ExitCode {
    let selection = arguments.runs.selection();
    if arguments.paths == [Path::new("-")] {
        return stream(arguments, ListOptions { fragments: arguments.fragments, epochs: selection.epochs });
    }
    let files = match selection.run {
        None => files(&arguments.paths),
        Some(_) => files_of_run(&arguments.paths, &selection),
    };
    let files = match files {
        Ok(files) if !files.is_empty() => files,
        Ok(_) => return nothing_done(&VerifyError::NoFiles { paths: arguments.paths.clone() }),
        Err(error) => return nothing_done(&error),
    };
    let options = ListOptions { fragments: arguments.fragments, epochs: selection.epochs };
    print(|out| match arguments.event {
        Some(event) => one(&files, event, arguments.hex, out),
        None => all(&files, options, out),
    })
}

/// Shows a stream of which nothing is known before it comes.
fn stream(arguments: &DumpArguments, options: ListOptions) -> ExitCode {
    let mut stream = match EventStream::new(io::stdin().lock(), "standard input") {
        Ok(stream) => stream,
        Err(error) => return nothing_done(&error),
    };
    print(|out| {
        let Some(event) = arguments.event else {
            return match list_stream(&mut stream, options, out) {
                Err(error) if error.kind() == io::ErrorKind::Other => {
                    writeln!(out, "! {error}")?;
                    Ok(ExitCode::FAILURE)
                }
                listed => listed.map(|()| ExitCode::SUCCESS),
            };
        };
        let found = stream.find(|record| record.as_ref().map_or(true, |record| record.event == event));
        match found.map(|record| record.and_then(|_| stream.event())) {
            Some(Ok(event)) => {
                if arguments.hex {
                    hex(&event, out)?
                } else {
                    summary(&event, out)?
                }
                Ok(ExitCode::SUCCESS)
            }
            Some(Err(error)) => told(&error, out),
            None => {
                writeln!(
                    out,
                    "event {event} is not in this stream: give another event id, or a stream of all events"
                )?;
                Ok(ExitCode::FAILURE)
            }
        }
    })
}

fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, VerifyError> {
    let mut files = Vec::new();
    for path in paths {
        files.append(&mut files_at(path)?);
    }
    Ok(files)
}

/// Lists the events of all files. The exit code says whether a file is damaged.
fn all(files: &[PathBuf], options: ListOptions, out: &mut dyn Write) -> io::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for path in files {
        match EventFile::open(path) {
            Ok(file) => {
                code = if file.recovery().is_some() { ExitCode::FAILURE } else { code };
                match list(&file, options, out) {
                    // The file cannot be read to its end, which costs no other file.
                    Err(error) if error.kind() == io::ErrorKind::Other => {
                        writeln!(out, "! {error}")?;
                        code = ExitCode::FAILURE;
                    }
                    listed => listed?,
                }
            }
            Err(error) => code = told(&error, out)?,
        }
    }
    Ok(code)
}

/// Shows one event from each file that has it.
fn one(files: &[PathBuf], event: EventId, payloads: bool, out: &mut dyn Write) -> io::Result<ExitCode> {
    let (mut found, mut code) = (false, ExitCode::SUCCESS);
    for path in files {
        match EventFile::open(path).and_then(|file| file.event(event)) {
            Ok(None) => {}
            Ok(Some(event)) => {
                found = true;
                writeln!(out, "{}", path.display())?;
                if payloads { hex(&event, out)? } else { summary(&event, out)? }
            }
            Err(error) => code = told(&error, out)?,
        }
    }
    if found {
        return Ok(code);
    }
    writeln!(
        out,
        "event {event} is in no file of those given ({}): give all files of the run, or another event id; `evbd verify` lists the ids that are in no file",
        counted(files.len(), "file")
    )?;
    Ok(ExitCode::FAILURE)
}

/// Reports a damaged file in the middle of the output for intact files.
fn told(error: &ReadError, out: &mut dyn Write) -> io::Result<ExitCode> {
    writeln!(out, "! {error}")?;
    Ok(ExitCode::FAILURE)
}
