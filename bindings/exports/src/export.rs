//! The whole export: what it needs is checked first, then blocks go from the reader to the output.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use evb_core::id::RunId;
use evb_file::{MergeError, files_at};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::{
    arguments::Arguments,
    counts::Counts,
    flusher::Flusher,
    output::{self, About, OutputError},
    reading::Reading,
    staged::{Staged, StagedError},
};

/// Longest text that is stored, in bytes: a file with more is hardly the one that was meant.
const TEXT: u64 = 4_000_000;
/// Size of the input below which an export is over before a user would notice a progress bar.
const SHORT: u64 = 256 << 20;

/// The reason why there is no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The events cannot be read.
    #[error(transparent)]
    Input(#[from] MergeError),
    /// A file whose text is to be stored cannot be read.
    #[error("cannot read {}, given with --configuration or --run-summary: {source}; give a file that this user can read", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file is too long to be stored beside the events.
    #[error("{} has {length} bytes, but the files of --configuration and --run-summary may have at most {TEXT}: give a shorter one", path.display())]
    LongText {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: u64,
    },
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl From<StagedError> for ExportError {
    fn from(error: StagedError) -> Self {
        Self::Output(error.into())
    }
}

impl ExportError {
    /// Returns the text of the error, with the file that it concerns.
    pub(crate) fn text(&self, out: &Path) -> String {
        match self {
            Self::Output(OutputError::File(_)) => self.to_string(),
            Self::Output(error) => format!("{} {error}", out.display()),
            _ => self.to_string(),
        }
    }

    /// Returns the exit code: 2 if an argument is wrong or there is nothing to export, else 1.
    pub(crate) fn code(&self) -> ExitCode {
        use StagedError::{Busy, Exists, NoFile};
        let is_usage = matches!(
            self,
            Self::Input(MergeError::Input(_) | MergeError::Runs(_))
                | Self::Text { .. }
                | Self::LongText { .. }
                | Self::Output(OutputError::File(Busy(_) | Exists(_) | NoFile(_)))
        );
        ExitCode::from(if is_usage { 2 } else { 1 })
    }
}

/// The result of an export.
#[derive(Debug)]
pub(crate) struct Summary {
    run: u32,
    /// The identity of the run.
    run_id: RunId,
    counts: Counts,
    /// Size of the output, in bytes.
    size: u64,
}

/// Performs an export. If it fails, nothing is under the final name that was not there before.
pub(crate) fn run(arguments: &Arguments) -> Result<Summary, ExportError> {
    let texts = [("configuration", &arguments.configuration), ("run_summary", &arguments.run_summary)];
    let given = texts.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
    let read = |(name, path): (&'static str, &PathBuf)| text(path).map(|text| (name, text));
    let mut texts = given.map(read).collect::<Result<Vec<_>, _>>()?;
    // Opens the inputs before the output, so that nothing is created if there is nothing to export.
    let reading = Reading::begin(&arguments.paths, &arguments.selection())?;
    let staged = Staged::create(&arguments.out, arguments.force)?;
    let identity = reading.identity.clone();
    let sources: Vec<u16> = identity.sources.iter().map(|source| source.number()).collect();
    texts.push(("sources", json!(sources).to_string()));
    if identity.run_id.is_known() {
        texts.push(("run_id", identity.run_id.to_string()));
    }
    for (name, text) in [("kind", &identity.kind), ("comment", &identity.comment)] {
        if !text.is_empty() {
            texts.push((name, text.clone()));
        }
    }
    if !identity.source_names.is_empty() {
        let names = identity.source_names.iter().map(|(id, name)| (id.to_string(), json!(name)));
        texts.push(("source_names", Value::Object(names.collect()).to_string()));
    }

    keep_memory();
    let length = length(&arguments.paths);
    let bar = bar(length);
    let mut output = output::begin(arguments.to, &staged, length)?;
    let mut flusher = Flusher::begin(&staged)?;
    while let Some(mut block) = reading.next() {
        let bytes = block.memory.len() as u64;
        output.write(&mut block)?;
        reading.recycle(block);
        flusher.wrote(bytes);
        bar.inc(bytes);
    }
    flusher.finish().map_err(StagedError::of("write", staged.part()))?;
    bar.finish_and_clear();
    let counts = reading.finish()?;
    texts.push(("findings", counts.findings().to_string()));
    output.finish(&About { identity: identity.clone(), texts }, &counts)?;
    Ok(Summary { run: identity.run.number(), run_id: identity.run_id, counts, size: staged.finish()? })
}

/// Lets glibc keep freed memory: once it has freed a block of almost 32 MiB, it returns less than
/// 64 MiB to the kernel no more. Otherwise each piece of an HDF5 file is assembled in memory that
/// the kernel has to clear first.
fn keep_memory() {
    const ALMOST: usize = (32 << 20) - (64 << 10);
    drop(std::hint::black_box(Vec::<u8>::with_capacity(ALMOST)));
}

/// Reads a text that is to be stored.
fn text(path: &Path) -> Result<String, ExportError> {
    let failed = |source| ExportError::Text { path: path.to_owned(), source };
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > TEXT {
        return Err(ExportError::LongText { path: path.to_owned(), length });
    }
    fs::read_to_string(path).map_err(failed)
}

/// Returns the length of all input files, in bytes.
fn length(paths: &[PathBuf]) -> u64 {
    let files = paths.iter().filter_map(|path| files_at(path).ok()).flatten();
    files.filter_map(|file| fs::metadata(file).ok()).map(|metadata| metadata.len()).sum()
}

/// Returns a progress bar, which is hidden if the files are short or standard error is no terminal.
fn bar(total: u64) -> ProgressBar {
    if total < SHORT {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

/// Prints the summary, and returns the exit code.
pub(crate) fn print(arguments: &Arguments, summary: &Summary) -> ExitCode {
    let clean = summary.counts.is_clean(arguments.allow_gaps);
    let said = if arguments.json {
        format!("{:#}\n", as_json(arguments, summary, clean))
    } else {
        let Counts { events, fragments, payload_bytes, .. } = summary.counts;
        let (run, size, out) = (summary.run, summary.size, arguments.out.display());
        let id = summary.run_id;
        let id = if id.is_known() { format!(" ({})", id.short()) } else { String::new() };
        let mut lines = vec![format!(
            "run {run}{id}: {events} events with {fragments} fragments, {payload_bytes} B of payload, in {out} ({size} B)"
        )];
        lines.extend(summary.counts.sentences());
        lines.join("\n") + "\n"
    };
    // A reader that has closed the pipe still gets the verdict as the exit code.
    let _ = io::Write::write_all(&mut io::stdout(), said.as_bytes());
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn as_json(arguments: &Arguments, summary: &Summary, clean: bool) -> Value {
    let mut value = summary.counts.findings();
    value["format"] = arguments.to.name().into();
    value["out"] = arguments.out.to_string_lossy().into();
    value["size"] = summary.size.into();
    value["run"] = summary.run.into();
    value["run_id"] = summary.run_id.is_known().then(|| summary.run_id.to_string()).into();
    value["clean"] = clean.into();
    for (name, count) in summary.counts.named() {
        value[name] = count.into();
    }
    value
}
