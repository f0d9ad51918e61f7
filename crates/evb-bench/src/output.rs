//! The output of a measurement: a table on the terminal, JSON and a figure in files.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use evb_config::{check::BAD_CONFIGURATION, complain, say, say_in_line};
use evb_net::host::write_whole;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{figure::FigureError, machine::Machine};

/// The reason why a measurement has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The operator gave invalid arguments, or asked for a measurement that is impossible on this
    /// host.
    #[error("{0}")]
    Operator(String),
    /// A run of real sources and builders failed.
    #[error(transparent)]
    Run(#[from] crate::run::RunError),
    /// A simulated run failed.
    #[error(transparent)]
    Simulation(#[from] evb_sim::SimError),
    /// The figure cannot be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// The operating system refused a call.
    #[error("{what}: {error}; correct that, and measure again")]
    System {
        /// Description of the failed action.
        what: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

impl BenchError {
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::System { what, error }
    }
}

/// Reports the error of a failed benchmark; the exit code tells whether the operator must change
/// something.
pub(super) fn failed(error: &BenchError, is_operators: bool) -> ExitCode {
    complain!("error: {error}");
    if is_operators { BAD_CONFIGURATION.into() } else { ExitCode::FAILURE }
}

/// Returns the line on the terminal that tells the progress of a long measurement.
pub(super) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A result as JSON: its own keys, and the machine of the measurement.
#[derive(Serialize)]
struct WithMachine<'a, T> {
    machine: Machine,
    #[serde(flatten)]
    result: &'a T,
}

/// Files that a measurement writes.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct OutputArguments {
    /// Write all results as JSON to this file; `-`: print the JSON instead of the table.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw the results into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

impl OutputArguments {
    /// Prints the results of a measurement that used no other host, and writes the requested files.
    pub(super) fn publish(
        &self,
        measurement: &impl Serialize,
        table: &str,
        draw: impl FnOnce() -> Result<String, FigureError>,
    ) -> Result<(), BenchError> {
        self.publish_with(None, measurement, table, draw)
    }

    /// Prints the results of a measurement with `peer` (`None`: with no other host), and writes the
    /// requested files.
    pub(super) fn publish_with(
        &self,
        peer: Option<IpAddr>,
        measurement: &impl Serialize,
        table: &str,
        draw: impl FnOnce() -> Result<String, FigureError>,
    ) -> Result<(), BenchError> {
        let result = WithMachine { machine: Machine::read(peer), result: measurement };
        let json = serde_json::to_string_pretty(&result).map_err(|error| {
            BenchError::Operator(format!(
                "cannot write the result as JSON: {error}; report this fault of evb-bench"
            ))
        })?;
        match &self.json {
            Some(path) if path.as_os_str() == "-" => say!("{json}"),
            Some(path) => {
                write(path, &(json + "\n"))?;
                say_in_line!("{table}");
            }
            None => say_in_line!("{table}"),
        }
        match &self.svg {
            Some(path) => write(path, &draw()?),
            None => Ok(()),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    write_whole(path, text.as_bytes()).map_err(BenchError::system(format!("cannot write {}", path.display())))
}

/// Formats a table with columns as narrow as possible: the first column aligned left, the others
/// aligned right.
pub(super) fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (index, (cell, width)) in cells.zip(&widths).enumerate() {
            line += &if index == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests;
