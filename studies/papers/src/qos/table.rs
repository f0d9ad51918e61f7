//! Asked and measured rates of all lanes, as JSON and as a figure.

use std::path::Path;

use anyhow::{Context as _, Result};
use evb_bench::figure::{Axis, Chart, Curve, Figure};
use lab_base::{outcome::median, report::Report};
use serde_json::{Value, json};

use super::mechanism::Mechanism;

/// Asked and measured rate of one lane.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Numbers of sources and builders, such as `1x3`.
    pub(super) system: String,
    pub(super) mechanism: Mechanism,
    /// Number of the builder, or of the source if there is only one builder.
    pub(super) lane: usize,
    /// Rate in bit/s of L2 frames.
    pub(super) asked: u64,
    /// Measured rate of each run in bit/s of L2 frames.
    pub(super) got: Vec<f64>,
}

impl Row {
    pub(super) fn median(&self) -> f64 {
        median(self.got.iter().copied())
    }

    /// Returns the relative error of the median rate.
    pub(super) fn off(&self) -> f64 {
        self.median() / self.asked as f64 - 1.0
    }

    fn json(&self) -> Value {
        json!({
            "system": self.system,
            "means": self.mechanism.name(),
            "lane": self.lane,
            "asked_bit_per_s": self.asked,
            "got_bit_per_s": self.median(),
            "off": self.off(),
            "runs_bit_per_s": self.got,
        })
    }
}

/// Adds the rows to the report, and draws them to `qos.svg`.
pub(super) fn publish(rows: &[Row], folder: &Path, report: &mut Report) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    report.attach("rates", rows.iter().map(Row::json).collect());
    let path = folder.join("qos.svg");
    std::fs::write(&path, figure(rows).svg()?).with_context(|| path.display().to_string())?;
    report.note(format!("figure: {}", path.display()));
    Ok(())
}

fn figure(rows: &[Row]) -> Figure {
    let mut systems: Vec<&str> = rows.iter().map(|row| row.system.as_str()).collect();
    systems.dedup();
    let chart = |system: &&str| {
        let of_system = || rows.iter().filter(|row| row.system == *system);
        let mut mechanisms: Vec<Mechanism> = of_system().map(|row| row.mechanism).collect();
        mechanisms.dedup();
        let curve = |mechanism: Mechanism| {
            let lanes = of_system().filter(|row| row.mechanism == mechanism);
            Curve::points(mechanism.name(), lanes.map(|row| (row.asked as f64 / 1e6, row.median() / 1e6)))
        };
        let asked = || of_system().map(|row| row.asked as f64 / 1e6);
        let ends = [asked().fold(f64::INFINITY, f64::min), asked().fold(0.0, f64::max)];
        let line = ends.map(|rate| (rate, rate));
        let curves =
            std::iter::once(Curve::reference("asked", line)).chain(mechanisms.into_iter().map(curve));
        Chart::curves(Axis::log("Asked (Mbit/s)"), Axis::log("Got (Mbit/s)"), curves.collect())
            .titled(*system)
    };
    let figure = systems.iter().map(chart).fold(Figure::new("Rates of lanes"), Figure::with);
    figure.columns(systems.len()).note(
        "Each point is a lane, to one builder or from one source; rates count L2 frames, by the counters of the network. \
         software: evb's timers; htb and tbf: token buckets of the kernel.",
    )
}

#[cfg(test)]
mod tests;
