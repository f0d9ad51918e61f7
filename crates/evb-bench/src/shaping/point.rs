//! Requested and measured rates, as table, JSON and figure.

use std::time::Duration;

use evb_core::units::Rate;
use serde::Serialize;

use super::system::{Keeper, Load, Ran, Shape, buffer_bits};
use crate::{
    figure::{Axis, Chart, Curve, Figure},
    output::columns,
};

/// The results for one system and one executor, with the same rate requested of every lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapingPoint {
    /// The system, as sources × builders.
    pub system: String,
    /// Executor that kept the rate.
    pub executor: String,
    /// Requested rate of each lane, in buffer bytes.
    pub asked_bits_per_s: u64,
    /// Measured rates in bit/s, one for each destination, or one for each source if there is a
    /// single destination.
    pub got_bits_per_s: Vec<f64>,
    /// Largest relative deviation of any lane's measured rate from the requested rate.
    pub off: f64,
    /// Average number of busy cores in the shaped run: processor time of all roles / elapsed time.
    pub cores: Option<f64>,
    /// Average number of busy cores in a run of the same events without shaping.
    pub cores_unshaped: Option<f64>,
    /// Number of complete events.
    pub complete: u64,
    /// Exit code of the shaped run.
    pub exit_code: u8,
}

pub(super) fn point(shape: Shape, keeper: Keeper, rate: Rate, shaped: &Ran, unshaped: &Ran) -> ShapingPoint {
    let report = &shaped.report;
    let payloads: Vec<u64> = if shape.builders > 1 {
        report.builders.iter().map(|builder| builder.payload_bytes).collect()
    } else {
        report.sources.iter().map(|source| source.payload_bytes).collect()
    };
    let asked = rate.bits_per_second() as f64;
    let kept = matches!(shaped.load, Load::Shaped { .. }).then_some((rate, keeper));
    let bits = |payload: &u64| buffer_bits(*payload as f64, shaped.load.fragment(), kept) / report.duration_s;
    let got: Vec<f64> = payloads.iter().map(bits).collect();
    let off = got.iter().map(|got| got / asked - 1.0).max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let cores = |ran: &Ran| ran.cpu.map(|cpu| cpu.as_secs_f64() / ran.report.duration_s);
    ShapingPoint {
        system: shape.to_string(),
        executor: keeper.to_string(),
        asked_bits_per_s: rate.bits_per_second(),
        got_bits_per_s: got,
        off: off.unwrap_or(f64::NAN),
        cores: cores(shaped),
        cores_unshaped: cores(unshaped),
        complete: report.events.complete,
        exit_code: report.exit_code,
    }
}

impl ShapingPoint {
    /// Returns the results of the run with the median deviation, with the worst exit code of all
    /// runs.
    pub(super) fn median(mut runs: Vec<Self>) -> Option<Self> {
        let exit_code = runs.iter().map(|run| run.exit_code).max()?;
        runs.sort_by(|a, b| a.off.total_cmp(&b.off));
        let middle = runs.swap_remove(runs.len() / 2);
        Some(Self { exit_code, ..middle })
    }
}

/// The results of the whole measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapingTable {
    /// Name of the benchmark: `shaping`.
    pub bench: &'static str,
    /// Time for which each point was measured, in seconds.
    pub duration_s: f64,
    /// Number of runs of each measurement; each point shows the run with the median deviation.
    pub runs: usize,
    /// Rates that this host carries without shaping, for each system: buffer bytes, as bit/s.
    pub unshaped_bits_per_s: Vec<(String, f64)>,
    /// Results, one for each combination of system, executor and rate.
    pub points: Vec<ShapingPoint>,
    /// Remarks, for example on executors that could not be measured.
    pub remarks: Vec<String>,
}

impl ShapingTable {
    pub(super) fn new(duration: Duration, runs: usize) -> Self {
        Self {
            bench: "shaping",
            duration_s: duration.as_secs_f64(),
            runs,
            unshaped_bits_per_s: Vec::new(),
            points: Vec::new(),
            remarks: Vec::new(),
        }
    }

    pub(super) fn note_most(&mut self, shape: Shape, bits_per_s: f64) {
        self.unshaped_bits_per_s.push((shape.to_string(), bits_per_s));
    }

    /// Adds a remark unless the table has it already.
    pub(super) fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Formats the table for people.
    pub fn text(&self) -> String {
        let head =
            ["system", "kept by", "asked of each", "got (worst lane)", "off", "cores", "unshaped", "ratio"];
        let number = |value: Option<f64>| value.map_or_else(|| "?".into(), |value| format!("{value:.3}"));
        let row = |point: &ShapingPoint| {
            let asked = Rate::from_bits_per_second(point.asked_bits_per_s);
            let ratio = point.cores.zip(point.cores_unshaped).filter(|(_, unshaped)| *unshaped > 0.0);
            vec![
                point.system.clone(),
                point.executor.clone(),
                asked.to_string(),
                format!("{:.3} Mbit/s", asked.bits_per_second() as f64 * (1.0 + point.off) / 1e6),
                format!("{:+.2} %", point.off * 100.0),
                number(point.cores),
                number(point.cores_unshaped),
                ratio.map_or_else(|| "?".into(), |(shaped, unshaped)| format!("{:.2}", shaped / unshaped)),
            ]
        };
        let mut text = format!("Rates of destinations over loopback: {}\n\n", self.setting());
        text += &columns(&head, &self.points.iter().map(row).collect::<Vec<_>>());
        for remark in &self.remarks {
            text += &format!("note: {remark}\n");
        }
        text
    }

    fn setting(&self) -> String {
        let most: Vec<String> = self
            .unshaped_bits_per_s
            .iter()
            .map(|(system, bits)| format!("{system} {:.1} Gbit/s", bits / 1e9))
            .collect();
        format!(
            "{:.1} s a point, median of {}; rates count buffer bytes (L2 frames of an MTU of 1500, as the shaper reckons them: loopback \
             cuts no such packets); each role on a thread of its own; spinning takes cores from the others; unshaped this host carries {}; `cores` is processor time over time, \
             `unshaped` the same with the same events and no rate",
            self.duration_s,
            self.runs,
            most.join(", "),
        )
    }

    /// Draws the deviation from each requested rate, by system, and the processor time.
    pub fn figure(&self) -> Figure {
        let mut figure = Figure::new("Rates of destinations, asked and got, over loopback").columns(2);
        let systems: Vec<String> = unique(self.points.iter().map(|point| point.system.clone()));
        for system in &systems {
            let curve = |executor: String| {
                let points =
                    self.points.iter().filter(|point| point.system == *system && point.executor == executor);
                let places: Vec<(f64, f64)> =
                    points.map(|point| (point.asked_bits_per_s as f64 / 1e6, point.off * 100.0)).collect();
                Curve::joined(executor, places)
            };
            let curves = self.executors(system).into_iter().map(curve).collect();
            let off = Axis::linear("Off, worst lane (%)").between(-2.0, 2.0);
            let chart = Chart::curves(Axis::log("Asked of each lane (Mbit/s)"), off, curves);
            figure = figure.with(chart.titled(format!("{system}: sources × builders")));
        }
        if let Some(system) = systems.first() {
            figure = figure.with(self.cost(system));
        }
        self.remarks
            .iter()
            .fold(figure.note(format!("{}.", self.setting())), |figure, remark| figure.note(remark.as_str()))
    }

    fn cost(&self, system: &str) -> Chart {
        let of = |executor: &str, value: &dyn Fn(&ShapingPoint) -> Option<f64>| -> Vec<(f64, f64)> {
            let points =
                self.points.iter().filter(|point| point.system == system && point.executor == executor);
            points.filter_map(|point| Some((point.asked_bits_per_s as f64 / 1e6, value(point)?))).collect()
        };
        let executors = self.executors(system);
        let mut curves: Vec<Curve> = executors
            .iter()
            .map(|executor| Curve::joined(executor, of(executor, &|point| point.cores)))
            .collect();
        if let Some(first) = executors.first() {
            curves.push(Curve::reference("unshaped", of(first, &|point| point.cores_unshaped)));
        }
        Chart::curves(Axis::log("Asked of each lane (Mbit/s)"), Axis::log("Cores, all roles"), curves)
            .titled(format!("{system}: processor time"))
    }

    fn executors(&self, system: &str) -> Vec<String> {
        unique(self.points.iter().filter(|point| point.system == system).map(|point| point.executor.clone()))
    }
}

/// Returns each word once, in the order of first occurrence.
fn unique(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}
