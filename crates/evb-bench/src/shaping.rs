//! `evb-bench shaping`: compares the requested with the measured rate of each destination, with
//! real sources and builders over loopback.
//!
//! The benchmark repeats the KEK study of quality of service (Yasu et al.) at a small scale: 1×1,
//! 1×3 and 3×1 systems, with rates over several decades. Loopback has no switch and no link rate,
//! so that this benchmark shows only the pacing and its processor time; `cargo xtask lab qos`
//! measures rates on a network, by the counters of its devices.

mod system;
mod point;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, time::Duration};

use evb_core::units::{Rate, parse_duration};
use indicatif::ProgressBar;

pub use point::{ShapingPoint, ShapingTable};

use self::{
    point::point,
    system::{Keeper, Load, Shape, run},
};
use super::output::{self, BenchError, OutputArguments, failed};
use crate::run::RunError;

/// Arguments of `evb-bench shaping`.
#[derive(clap::Args, Clone, Debug)]
pub struct ShapingArguments {
    /// Systems to measure, as sources × builders.
    #[arg(long, value_delimiter = ',', default_value = "1x1,1x3,3x1")]
    shapes: Vec<Shape>,
    /// The rates to request for each destination (and source), in buffer bytes; rates that this
    /// host cannot carry are left out.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10 Mbit/s,30 Mbit/s,100 Mbit/s,300 Mbit/s,1 Gbit/s,3 Gbit/s"
    )]
    rates: Vec<Rate>,
    /// Executors that keep the rates. Executors that do not work on this host are left out, and the
    /// result says why.
    #[arg(long, value_delimiter = ',', default_value = "timerfd,spin,pacing-rate,tbf")]
    executors: Vec<Keeper>,
    /// Duration of each measurement.
    #[arg(long, default_value = "1500 ms", value_parser = parse_duration)]
    duration: Duration,
    /// Number of runs of each measurement; the run with the median deviation counts.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    #[command(flatten)]
    output: OutputArguments,
}

/// Largest requested rate, as a part of the rate that this host carries without shaping.
const ASKED_AT_MOST: f64 = 0.5;

/// Runs the benchmark and publishes its results.
pub(super) fn main(arguments: &ShapingArguments) -> ExitCode {
    let published = measure(arguments).and_then(|table| {
        arguments.output.publish(&table, &table.text(), || table.figure().svg()).map(|()| table)
    });
    match published {
        Ok(table) if table.points.iter().all(|point| point.exit_code == 0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

fn measure(arguments: &ShapingArguments) -> Result<ShapingTable, BenchError> {
    if arguments.runs == 0 || arguments.duration < Duration::from_millis(100) {
        return Err(BenchError::Operator(
            "a point is measured at least once, for at least 100 ms: raise --runs or --duration".into(),
        ));
    }
    let table = ShapingTable::new(arguments.duration, arguments.runs);
    let mut course = Course { arguments, table, working: None, bar: output::spinner() };
    for shape in &arguments.shapes {
        course.shape(*shape)?;
    }
    course.bar.finish_and_clear();
    Ok(course.table)
}

struct Course<'a> {
    arguments: &'a ShapingArguments,
    table: ShapingTable,
    working: Option<Vec<Keeper>>,
    bar: ProgressBar,
}

impl Course<'_> {
    fn shape(&mut self, shape: Shape) -> Result<(), BenchError> {
        self.bar.set_message(format!("{shape}, unshaped"));
        let most = self.most(shape)?;
        self.table.note_most(shape, most);
        let (carried, beyond): (Vec<Rate>, Vec<Rate>) =
            self.arguments.rates.iter().copied().partition(|rate| {
                rate.bits_per_second() as f64 * f64::from(shape.lanes()) <= most * ASKED_AT_MOST
            });
        for rate in beyond {
            self.table.remark(format!(
                "{shape} at {rate} is left out: together more than half of the {:.1} Gbit/s that this host carries unshaped",
                most / 1e9
            ));
        }
        let working = self.working(shape)?;
        for rate in carried {
            for keeper in &working {
                self.bar.set_message(format!("{shape}, {keeper}, {rate}"));
                let of_runs: Result<Vec<ShapingPoint>, BenchError> =
                    (0..self.arguments.runs).map(|_| self.point(shape, *keeper, rate)).collect();
                self.table.points.extend(ShapingPoint::median(of_runs?));
            }
        }
        Ok(())
    }

    /// Returns the executors that work on this host; each executor is tested only the first time.
    fn working(&mut self, shape: Shape) -> Result<Vec<Keeper>, BenchError> {
        if let Some(working) = &self.working {
            return Ok(working.clone());
        }
        let mut working = Vec::new();
        for keeper in &self.arguments.executors {
            match self.works(shape, *keeper) {
                Ok(()) => working.push(*keeper),
                Err(RunError::Operator(why)) => self.table.remark(format!("{keeper} is left out: {why}")),
                Err(error) => return Err(error.into()),
            }
        }
        self.working = Some(working.clone());
        Ok(working)
    }

    /// Returns the rate that this host carries without shaping, in bit/s. Each packet counts with
    /// the bytes that it takes in a switch port's buffer.
    fn most(&self, shape: Shape) -> Result<f64, BenchError> {
        let load = Load::Unshaped { fragment: system::LARGEST, events_per_s: None };
        let ran = run(shape, load, self.arguments.duration.min(Duration::from_secs(1)))?;
        Ok(system::buffer_bits(ran.report.bytes.payload as f64, system::LARGEST, None)
            / ran.report.duration_s)
    }

    /// Measures one combination of system, executor and rate: first shaped, then without shaping at
    /// the same event rate.
    fn point(&self, shape: Shape, keeper: Keeper, rate: Rate) -> Result<ShapingPoint, BenchError> {
        let fragment = system::fragment(rate);
        let shaped = run(shape, Load::Shaped { fragment, keeper, rate }, self.arguments.duration)?;
        let events_per_s = Some(shaped.report.rates.events_per_s);
        let unshaped = run(shape, Load::Unshaped { fragment, events_per_s }, self.arguments.duration)?;
        Ok(point(shape, keeper, rate, &shaped, &unshaped))
    }

    /// Tests that a run with this executor can start on this host; the start of the run tests the
    /// kernel's offloads too.
    fn works(&self, shape: Shape, keeper: Keeper) -> Result<(), RunError> {
        let rate = Rate::from_bits_per_second(50_000_000);
        let load = Load::Shaped { fragment: system::fragment(rate), keeper, rate };
        run(shape, load, Duration::from_millis(100)).map(|_| ())
    }
}
