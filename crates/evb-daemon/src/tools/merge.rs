//! `evbd merge`: merges a run's files, of all builders, into files in event order.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use evb_config::complain;
use evb_core::{id::Peer, quantities::counted, units::Bytes};
use evb_file::{
    Episode, MergeError, MergeReport, RealignReport, WriterOptions, few_of_each_file, format::FormatVersion,
    merge_realigned, merge_watched,
};

use super::{
    align::{AlignError, align},
    bar, nothing_done, print,
    runs::RunArguments,
};

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
    /// Version of the format of the merged files. Version 1, for older programs, loses the run id,
    /// times in UTC, causes, absent sources, states of alignment, names, kind and comment.
    #[arg(long, value_name = "1|2", default_value_t)]
    format: FormatVersion,
    /// Move the fragments of boards that missed a trigger or had one twice to the events to which
    /// they belong. The files know what happened if evb watched the timestamps in the run.
    #[arg(long)]
    realign: bool,
    /// With --realign: find what happened from the timestamps, too, with the clocks of this
    /// configuration.
    #[arg(long, value_name = "CONFIG", requires = "realign")]
    align: Option<PathBuf>,
    #[command(flatten)]
    runs: RunArguments,
}

/// Runs `evbd merge`. Returns 0 if every event of the files is in the merged ones, 1 if an event
/// was damaged, double, could not be written, or is misaligned and could not be repaired, 2 if
/// there is nothing to merge.
pub(crate) fn main(arguments: &MergeArguments) -> ExitCode {
    let mut options = WriterOptions { format: arguments.format, ..WriterOptions::default() };
    options.rotate_at = arguments.rotate.unwrap_or(options.rotate_at);
    let (paths, out, selection) = (&arguments.paths, &arguments.out, arguments.runs.selection());
    let found = match arguments.align.as_ref().map(|file| align(paths, &selection, file)) {
        None => Vec::new(),
        Some(Ok(report)) => report.into_episodes(),
        // The errors of a configuration begin with their severity.
        Some(Err(AlignError::Config(problems))) => {
            complain!("{problems}");
            return super::NOTHING_DONE.into();
        }
        Some(Err(error)) => return nothing_done(&error),
    };
    let bar = bar::over(paths);
    let watch = |bytes: Bytes| bar.inc(bytes.count());
    let merged = match arguments.realign {
        true => merge_realigned(paths, &selection, out, options, &found, watch),
        false => merge_watched(paths, &selection, out, options, watch),
    };
    bar.finish_and_clear();
    match merged {
        Ok(report) => print(|out| {
            let repaired = !arguments.realign || tell_repair(&report, out)?;
            let code = tell(&report, arguments.format, out)?;
            Ok(if repaired { code } else { ExitCode::FAILURE })
        }),
        Err(error @ (MergeError::Input(_) | MergeError::Runs(_) | MergeError::Create(_))) => {
            nothing_done(&error)
        }
        Err(error) => {
            complain!("error: {error}; nothing was merged");
            ExitCode::FAILURE
        }
    }
}

/// Says what was repaired. Returns false if something could not be.
fn tell_repair(report: &MergeReport, out: &mut dyn Write) -> io::Result<bool> {
    let RealignReport { slips, others, moved, left_out, without } = &report.realigned;
    if slips.is_empty() && others.is_empty() {
        writeln!(
            out,
            "nothing to repair: the files name no source that missed a trigger or had one twice; --align CONFIG looks for such sources by the timestamps"
        )?;
    }
    for (episodes, what) in [
        (slips, "repaired"),
        (others, "NOT repaired, because no number of missed or double triggers explains it"),
    ] {
        for Episode { source, since, text, disputed, .. } in episodes {
            let or = if *disputed { " (or the other sources did the contrary)" } else { "" };
            let named =
                Peer::Source(*source).named(report.source_names.get(source).map_or("", String::as_str));
            writeln!(out, "{what}: since event {since}, {named} {text}{or}")?;
        }
    }
    if !slips.is_empty() {
        writeln!(
            out,
            "{} moved to their events; {} left out, as no event in the files matches; {} marked incomplete, as no fragment matches",
            counted(*moved, "fragment"),
            counted(*left_out, "fragment"),
            counted(*without, "event")
        )?;
    }
    if !others.is_empty() {
        writeln!(
            out,
            "leave the fragments of the sources that are NOT repaired, from the named events on, out of the analysis"
        )?;
    }
    Ok(others.is_empty())
}

/// Tells what was merged and what was left out. The exit code says whether anything was damaged or
/// given twice.
fn tell(report: &MergeReport, format: FormatVersion, out: &mut dyn Write) -> io::Result<ExitCode> {
    let written = &report.written;
    writeln!(out, "{} merged into {}", counted(written.events, "event"), counted(written.files, "file"))?;
    if format == FormatVersion::One {
        writeln!(
            out,
            "format 1 has no run id, UTC, causes, absent sources, names, kind and comment: they are left out; merge without `--format 1` to keep them"
        )?;
    }
    if report.without_states > 0 {
        let events = counted(report.without_states, "event");
        writeln!(
            out,
            "format 1 has no states of alignment and no numbers of lost packets: those of {events} are left out; merge without `--format 1` to keep them"
        )?;
    }
    for (count, [one, many], what) in [
        (report.other_epochs, ["record", "records"], "left out, as --epoch asks"),
        (
            report.superseded,
            ["superseded copy", "superseded copies"],
            "left out, and nothing needs to be done: the newer copy of each such event is kept",
        ),
        (
            report.duplicates,
            ["duplicate", "duplicates"],
            "left out: one copy of each such event is kept; check whether a file was given twice",
        ),
        (
            report.damaged.total,
            ["damaged record or tail", "damaged records or tails"],
            "left out, and all other events are kept (restore these files from a copy, if there is one):",
        ),
    ] {
        if count > 0 {
            writeln!(out, "{count} {} {what}", if count == 1 { one } else { many })?;
        }
    }
    let shown = few_of_each_file(&report.damaged.first);
    for damage in &shown {
        writeln!(out, "  {damage}")?;
    }
    if report.damaged.total > shown.len() as u64 {
        writeln!(out, "  … and {} more of these", report.damaged.total - shown.len() as u64)?;
    }
    let clean = report.duplicates == 0 && report.damaged.total == 0;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
