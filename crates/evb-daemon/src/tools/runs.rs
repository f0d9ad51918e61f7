//! The arguments that choose one run of several.

use evb_file::{EpochRange, RunChoice, Selection};

/// Arguments of every command that reads event files.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArguments {
    /// Run to take: its number, or at least the first 4 digits of its id. Files of other runs are
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
}

impl RunArguments {
    pub(super) fn selection(&self) -> Selection {
        Selection { run: self.run.clone(), same_run: self.same_run, epochs: self.epoch }
    }
}
