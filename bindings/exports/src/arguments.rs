//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use evb_file::{EpochRange, RunChoice, Selection};

/// Write the events of a run, in the order of their ids, into one HDF5 or Parquet file.
///
/// The exit code is 0 if the output has every event of the run; 1 if event ids are absent, if
/// something was damaged or double, or if the output could not be written; 2 if an argument is
/// wrong or there is nothing to export.
#[derive(Parser, Debug)]
#[command(name = "evb-export", version)]
pub(crate) struct Arguments {
    /// Event files of one run, or directories that contain them.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Run to export: its number, or at least the first 4 digits of its id. Files of other runs are
    /// left out.
    #[arg(long, value_name = "RUN")]
    run: Option<RunChoice>,
    /// Take all files with one run number and without a run id, as evb wrote them until format 2,
    /// for one run.
    #[arg(long)]
    same_run: bool,
    /// Take only the records of these epochs (A..B, both included; A.. or ..B), from files as for
    /// --same-run.
    #[arg(long, value_name = "A..B")]
    epoch: Option<EpochRange>,
    /// Format of the output.
    #[arg(long, value_enum)]
    pub(crate) to: Format,
    /// The file to write. Until it is whole, it has the name FILE.part.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Replace FILE if it exists.
    #[arg(long)]
    pub(crate) force: bool,
    /// Exit with 0 even if event ids between 1 and the highest one are in no file, because
    /// inhibited and rejected triggers leave such gaps, too.
    #[arg(long)]
    pub(crate) allow_gaps: bool,
    /// Store the text of this file, the configuration of the run, in the output.
    #[arg(long, value_name = "FILE")]
    pub(crate) configuration: Option<PathBuf>,
    /// Store the text of this file, the summary of the run by `evbd run --summary`, in the output.
    #[arg(long, value_name = "FILE")]
    pub(crate) run_summary: Option<PathBuf>,
    /// Print the summary of the export as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    /// Returns the choice of the run.
    pub(crate) fn selection(&self) -> Selection {
        Selection { run: self.run.clone(), same_run: self.same_run, epochs: self.epoch }
    }
}

/// A format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns of events and fragments, and one array with the bytes of all payloads.
    Hdf5,
    /// A row for each fragment, with the payload as a binary column.
    Parquet,
}

impl Format {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hdf5 => "hdf5",
            Self::Parquet => "parquet",
        }
    }
}
