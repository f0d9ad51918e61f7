//! The results, as a table and a figure.

use std::time::Duration;

use evb_core::units::{Bytes, Frequency};
use evb_host::bandwidth::Kernel;
use serde::Serialize;

use crate::{
    figure::{Axis, Chart, Curve, Figure},
    interval::Interval,
    output::columns,
};

/// The loss of bandwidth beside a shaper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryLoss {
    /// Requested frequency of the shaper's wake-ups, in hertz.
    pub asked_wakes_per_s: f64,
    /// Measured frequency of the shaper's wake-ups, in hertz.
    pub wakes_per_s: f64,
    /// Mean bandwidth beside the shaper, in bytes per second.
    pub bytes_per_s: f64,
    /// Loss of bandwidth, as a fraction of that in the idle round of the same pair.
    pub loss: Interval,
}

/// The results for one kernel and one size of the arrays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPoint {
    /// Loop over the arrays.
    pub kernel: Kernel,
    /// Size of each array.
    pub array_bytes: u64,
    /// Bandwidth without a shaper, in bytes per second.
    pub idle_bytes_per_s: Interval,
    /// Losses beside a shaper, one for each frequency.
    pub losses: Vec<MemoryLoss>,
}

impl MemoryPoint {
    pub(super) fn new(kernel: Kernel, size: Bytes, idle: Interval, losses: Vec<MemoryLoss>) -> Self {
        Self { kernel, array_bytes: size.count(), idle_bytes_per_s: idle, losses }
    }
}

/// The results for all kernels and sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryTable {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Description of the settings that all points share.
    pub setting: String,
    /// Results, one for each kernel and size.
    pub points: Vec<MemoryPoint>,
}

impl MemoryTable {
    pub(super) fn new(pairs: u32, round: Duration, confidence: f64, core: usize) -> Self {
        let setting = format!(
            "bytes as STREAM counts them: copy 2 × the array, triad 3 ×; copies and shaper on core {core}; {pairs} pairs of rounds of \
             {round:?}, idle and beside the shaper in alternate order; the loss is the mean over pairs, with its {} % interval",
            confidence * 100.0
        );
        Self { bench: "memory", setting, points: Vec::new() }
    }

    /// Formats the table for people.
    pub fn text(&self) -> String {
        let head =
            ["kernel", "array", "idle MB/s", "wake-ups", "measured", "beside MB/s", "loss", "interval"];
        let mut rows = Vec::new();
        for point in &self.points {
            let idle = &point.idle_bytes_per_s;
            let mut first = vec![
                point.kernel.to_string(),
                Bytes::new(point.array_bytes).to_string(),
                format!("{:.0} ± {:.0}", idle.mean / 1e6, idle.half_width / 1e6),
            ];
            if point.losses.is_empty() {
                rows.push(first.clone());
            }
            for loss in &point.losses {
                let cells = [
                    frequency(loss.asked_wakes_per_s),
                    frequency(loss.wakes_per_s.round()),
                    format!("{:.0}", loss.bytes_per_s / 1e6),
                    format!("{:.2} %", loss.loss.mean * 100.0),
                    format!("± {:.2}", loss.loss.half_width * 100.0),
                ];
                rows.push(first.iter().cloned().chain(cells).collect());
                first[2].clear();
            }
        }
        format!("Memory bandwidth: {}\n\n{}", self.setting, columns(&head, &rows))
    }

    /// Draws the bandwidth over the size of the arrays, and the loss over the frequency of the
    /// wake-ups.
    pub fn figure(&self) -> Figure {
        let mut bandwidth = Vec::new();
        for kernel in [Kernel::Copy, Kernel::Triad] {
            let own = || self.points.iter().filter(|point| point.kernel == kernel);
            let places =
                own().map(|point| (point.array_bytes as f64 / 1e6, point.idle_bytes_per_s.mean / 1e6));
            let errors = own().map(|point| {
                let (low, high) = point.idle_bytes_per_s.ends();
                (low / 1e6, high / 1e6)
            });
            bandwidth.push(Curve::joined(kernel.to_string(), places).with_errors(errors));
        }
        // A shaper that never woke up has no place on a logarithmic axis.
        let woke = |point: &&MemoryPoint| point.losses.iter().any(|loss| loss.wakes_per_s > 0.0);
        let curves: Vec<Curve> = self.points.iter().filter(woke).map(loss_curve).collect();
        let chart = Chart::curves(
            Axis::log("Size of an array (MB)"),
            Axis::linear("Bandwidth (MB/s)").between(0.0, 1.0),
            bandwidth,
        );
        let mut figure = Figure::new("Memory bandwidth").with(chart.titled("Idle"));
        if !curves.is_empty() {
            let chart = Chart::curves(
                Axis::log("Wake-ups of the shaper (1/s)"),
                Axis::linear("Loss of bandwidth (%)"),
                curves,
            );
            figure = figure.with(chart.titled("Beside a shaper"));
        }
        figure.note(format!("{}.", self.setting))
    }
}

fn frequency(hertz: f64) -> String {
    Frequency::from_hertz(hertz).map_or_else(|| "0 Hz".to_owned(), |frequency| frequency.to_string())
}

/// Returns the curve of the losses of a kernel and size. Curves are shifted by their size, so that
/// their error bars do not cover each other.
fn loss_curve(point: &MemoryPoint) -> Curve {
    let kernel = if point.kernel == Kernel::Copy { 1.0 } else { 1.06 };
    let shift = kernel * (point.array_bytes as f64 / 16e6).powf(0.06);
    let places = point.losses.iter().map(|loss| (loss.wakes_per_s * shift, loss.loss.mean * 100.0));
    let errors = point.losses.iter().map(|loss| {
        let (low, high) = loss.loss.ends();
        (low * 100.0, high * 100.0)
    });
    let name = format!("{} of {}", point.kernel, Bytes::new(point.array_bytes));
    Curve::points(name, places).with_errors(errors)
}
