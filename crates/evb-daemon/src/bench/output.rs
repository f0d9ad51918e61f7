//! Where a measurement goes: a table on the terminal, JSON and a figure into files.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;

use crate::{check::BAD_CONFIGURATION, figure::FigureError};

/// Why a measurement has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The operator's: what was asked makes no sense, or cannot be done here.
    #[error("{0}")]
    Operator(String),
    /// A run of real roles did not take place.
    #[error(transparent)]
    Run(#[from] crate::run::RunError),
    /// A simulated run broke.
    #[error(transparent)]
    Simulation(#[from] evb_sim::SimError),
    /// The figure cannot be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        error: std::io::Error,
    },
}

impl BenchError {
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::System { what, error }
    }
}

/// Tells why there is no result; the exit code says whether that is the operator's fault.
pub(super) fn failed(error: &BenchError, is_operators: bool) -> ExitCode {
    eprintln!("error: {error}");
    if is_operators { BAD_CONFIGURATION.into() } else { ExitCode::FAILURE }
}

/// Files that a measurement writes.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct OutputArguments {
    /// Write all figures as JSON to this file; `-`: print them instead of the table.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw the result into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

impl OutputArguments {
    /// Prints and writes what was measured.
    pub(super) fn publish(
        &self,
        measurement: &impl Serialize,
        table: &str,
        draw: impl FnOnce() -> Result<String, FigureError>,
    ) -> Result<(), BenchError> {
        let json = serde_json::to_string_pretty(measurement)
            .map_err(|error| BenchError::Operator(format!("no JSON: {error}")))?;
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
    std::fs::write(path, text).map_err(BenchError::system(format!("cannot write {}", path.display())))
}

/// Columns as wide as they must be: the first to the left, the others to the right.
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
