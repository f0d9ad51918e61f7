//! `evbd runs` and `evbd report`: the records of runs, which a supervisor keeps.

mod html;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use evb::supervisor::{NotedProblem, RecordedFile, RunRecord, StateDir};
use evb_core::{
    id::RunNumber,
    quantities::{counted, size},
    units::Bytes,
    wire::control::plain,
};
use evb_file::RunChoice;
use serde_json::Value;

use super::{nothing_done, print};

/// Number of characters of a text that is shown; texts of people may be long.
const SHOWN: usize = 500;

/// Arguments of `evbd runs`.
#[derive(clap::Args, Debug)]
pub(crate) struct RunsArguments {
    /// The state directory of the supervisor.
    #[arg(default_value = "evb-state", value_name = "DIR")]
    dir: PathBuf,
    /// Print the records as JSON, one in each line.
    #[arg(long)]
    json: bool,
}

/// Arguments of `evbd report`.
#[derive(clap::Args, Debug)]
pub(crate) struct ReportArguments {
    /// The run: its number, or at least the first 4 digits of its id.
    #[arg(value_name = "RUN")]
    run: RunChoice,
    /// The state directory of the supervisor.
    #[arg(long, default_value = "evb-state", value_name = "DIR")]
    state: PathBuf,
    /// Print the whole record as JSON.
    #[arg(long)]
    json: bool,
    /// Write one HTML page that prints on A4: to the file, or to standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    #[expect(
        clippy::option_option,
        reason = "the form by which clap reads an option with an optional value"
    )]
    html: Option<Option<PathBuf>>,
}

/// Runs `evbd runs`. Returns 0, or 2 if there are no records.
pub(crate) fn list(arguments: &RunsArguments) -> ExitCode {
    let records = match read(&arguments.dir) {
        Ok(records) => records,
        Err(reason) => return nothing_done(&reason),
    };
    print(|out| {
        if !arguments.json {
            writeln!(out, "{:>6}  {:8}  {:20}  {:>12}  outcome", "run", "id", "begin", "events")?;
        }
        for record in records {
            match arguments.json {
                true => writeln!(out, "{}", serde_json::to_string(&record)?)?,
                false => writeln!(out, "{}", row(&record))?,
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs `evbd report`. Returns 0, or 2 if there is no such record.
pub(crate) fn report(arguments: &ReportArguments) -> ExitCode {
    let mut records = match read(&arguments.state) {
        Ok(records) => records,
        Err(reason) => return nothing_done(&reason),
    };
    records.retain(|record| arguments.run.fits(RunNumber::new(record.run.run), record.run.run_id));
    match &records[..] {
        [] => nothing_done(&format!(
            "{} has no record of that run; `evbd runs {0}` lists those that it has",
            arguments.state.display()
        )),
        [record] if let Some(Some(path)) = &arguments.html => {
            match std::fs::write(path, html::page(record)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => nothing_done(&format!(
                    "cannot write {}: {error}; name a file that this user may write",
                    path.display()
                )),
            }
        }
        [record] => print(|out| {
            match arguments.json {
                true => writeln!(out, "{}", serde_json::to_string_pretty(record)?)?,
                false if arguments.html.is_some() => write!(out, "{}", html::page(record))?,
                false => describe(record, out)?,
            }
            Ok(ExitCode::SUCCESS)
        }),
        several => nothing_done(&format!(
            "{} runs have that number: name one by its id, such as `evbd report {}`",
            several.len(),
            several[0].run.run_id.short()
        )),
    }
}

/// Reads the records in a state directory, of which there must be at least one.
fn read(dir: &Path) -> Result<Vec<RunRecord>, String> {
    let path = dir.display();
    let records = StateDir::new(dir).records().map_err(|error| {
        format!("cannot read the state directory {path}: {error}; see that this user may read it")
    })?;
    if records.is_empty() {
        return Err(format!(
            "{path} has no records of runs; name the state directory of the supervisor, `supervisor.state` in its configuration"
        ));
    }
    Ok(records)
}

/// Returns a row of the list.
fn row(record: &RunRecord) -> String {
    let run = &record.run;
    let events = run.events.complete + run.events.incomplete;
    let outcome = if is_open(record) { "its end is not recorded" } else { &run.verdict };
    let begin = run.begin.to_string();
    let comment = match run.annotation.comment.is_empty() {
        true => String::new(),
        false => format!(" ({})", plain(&run.annotation.comment, SHOWN)),
    };
    let seconds = begin.get(..19).unwrap_or("unknown");
    let outcome = plain(outcome, SHOWN);
    format!(
        "{:>6}  {:8}  {seconds:20}  {events:>12}  {outcome}{comment}",
        run.run,
        run.run_id.short().to_string()
    )
}

/// Returns true if the end of the run is not recorded. Records of version 0 do not say so.
fn is_open(record: &RunRecord) -> bool {
    record.version > 0 && !record.closed
}

/// Describes a run for people.
fn describe(record: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let run = &record.run;
    writeln!(out, "Run {} ({})", run.run, run.run_id)?;
    let mut line = |key: &str, text: &str| match text.is_empty() {
        true => Ok(()),
        false => writeln!(out, "  {key:14} {}", plain(text, SHOWN)),
    };
    line("kind", &run.annotation.kind)?;
    line("comment", &run.annotation.comment)?;
    line("begin", &run.begin.to_string())?;
    match is_open(record) {
        true => line("latest update", &record.updated.to_string())?,
        false => line("end", &format!("{}, after {:.1} s", run.end, run.duration_s))?,
    }
    line("verdict", &run.verdict)?;
    line("exit code", &run.exit_code.to_string())?;
    let events = run.events;
    line(
        "triggers",
        &format!(
            "{} = {} inhibited + {} complete + {} incomplete + {} rejected + {} lost",
            events.triggered,
            events.inhibited,
            events.complete,
            events.incomplete,
            events.rejected,
            events.lost
        ),
    )?;
    line("sources", &names(&record.source_names))?;
    line("builders", &names(&record.builder_names))?;
    line("evb", &record.supervisor_version)?;
    if let Some(configuration) = &record.configuration {
        let (bytes, sum) = (configuration.text.len() as u64, &configuration.crc64_nvme);
        line("configuration", &format!("{}, CRC-64/NVME {sum}; --json has it", counted(bytes, "byte")))?;
    }
    line("software", &versions(record))?;
    line("files", &files(record))?;
    match record.noted_problems.is_empty() {
        true => list_of(out, "Problems", run.problems.iter().cloned())?,
        false => list_of(out, "Problems", record.noted_problems.iter().map(problem))?,
    }
    list_of(out, "Remarks", run.remarks.iter().cloned())?;
    let of =
        |key: &'static str| record.report.iter().filter_map(move |report| report[key].as_array()).flatten();
    let texts = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    list_of(
        out,
        "Dead time by cause",
        of("dead_time_causes")
            .map(|cause| format!("{} inhibited: {}", cause["inhibited"], texts(cause, "cause"))),
    )?;
    list_of(
        out,
        "Exclusions and inclusions",
        of("changes").map(|change| {
            let what = if change["excluded"] == true { "excluded" } else { "included" };
            let (source, from) = (&change["source"], &change["from"]);
            format!("source {source} {what} from event {from}: {}", texts(change, "why"))
        }),
    )?;
    let episodes = record.episodes.iter().map(|episode| {
        let until = episode.until.map_or_else(|| "the end".to_owned(), |event| event.to_string());
        format!("source {}, event {} to {until}: it {}", episode.source, episode.since, episode.text)
    });
    list_of(out, "Disagreeing timestamps", episodes)?;
    let calls = record.hooks.calls.iter().map(|call| {
        let text = if call.text.is_empty() { String::new() } else { format!(": {}", call.text) };
        format!("{}  {} {}{text}", call.at, call.hook, call.outcome)
    });
    list_of(out, "Hooks", calls)
}

fn problem(noted: &NotedProblem) -> String {
    let again = if noted.count > 1 { format!(" ({} times)", noted.count) } else { String::new() };
    format!("{}  {}: {}{again}", noted.first, noted.subject, noted.text)
}

/// Returns the number of the files that builders have closed, with their events and bytes.
fn files(record: &RunRecord) -> String {
    let sum = |of: fn(&RecordedFile) -> u64| record.files.iter().map(of).fold(0, u64::saturating_add);
    let (events, bytes) = (sum(|file| file.events), size(Bytes::new(sum(|file| file.size))));
    let more = match record.files_left_out {
        0 => String::new(),
        more => format!(", and {} not listed", counted(more, "more file")),
    };
    match record.files.len() as u64 + record.files_left_out {
        0 => String::new(),
        _ => format!("{}, {}, {bytes}{more}", counted(record.files.len(), "file"), counted(events, "event")),
    }
}

/// Returns the versions of the software of sources and builders, with the number of their users.
fn versions(record: &RunRecord) -> String {
    let mut users: BTreeMap<&str, u64> = BTreeMap::new();
    for version in record.source_software.values().chain(record.builder_software.values()) {
        *users.entry(version).or_default() += 1;
    }
    let users = users.iter().map(|(version, users)| format!("{version} ({})", counted(*users, "role")));
    users.collect::<Vec<_>>().join(", ")
}

fn names(names: &BTreeMap<u32, String>) -> String {
    names.iter().map(|(id, name)| format!("{id} {name}")).collect::<Vec<_>>().join(", ")
}

fn list_of(out: &mut dyn Write, title: &str, entries: impl Iterator<Item = String>) -> io::Result<()> {
    let mut entries = entries.peekable();
    if entries.peek().is_some() {
        writeln!(out, "{title}")?;
    }
    entries.try_for_each(|entry| writeln!(out, "  {}", plain(&entry, SHOWN)))
}
