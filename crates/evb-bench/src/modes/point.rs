//! The results of a comparison of shaping modes, as table, JSON and figure. Results from the
//! simulated switch and from real switches have the same form.

use evb_core::units::{Bytes, Rate};
use serde::Serialize;

use crate::{
    figure::{Axis, Bars, Chart, Curve, Figure},
    output::columns,
};

use super::node::{self, NodePoint};

/// The results of one shaping mode with one number of sources.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModePoint {
    /// Value of `shaping.mode`.
    pub mode: String,
    /// Number of sources.
    pub sources: u16,
    /// Number of builders.
    pub builders: u16,
    /// Payload rate at the sinks when events come as fast as possible.
    pub goodput_bits_per_s: u64,
    /// Payload rate that the builders' links can carry.
    pub capacity_bits_per_s: u64,
    /// Number of frames that the switch dropped because the buffer of a port was full.
    pub drops: u64,
    /// Number of retransmitted TCP segments.
    pub retransmits: u64,
    /// Number of complete events.
    pub complete: u64,
    /// Number of incomplete and lost events.
    pub not_complete: u64,
    /// 99th percentile of the build latency when events come as fast as possible; this latency
    /// includes the wait for a free slot.
    pub latency_us_p99: f64,
    /// The largest number of bytes in a builder's port buffer at the same time; `None` on a network
    /// that does not report it.
    pub queue_peak_bytes: Option<u64>,
    /// Number of dropped frames at the reduced load [`ModeTable::load`].
    pub at_load_drops: u64,
    /// Median of the build latency at the reduced load [`ModeTable::load`].
    pub at_load_latency_us_p50: f64,
    /// 99th percentile of the build latency at the reduced load [`ModeTable::load`].
    pub at_load_latency_us_p99: f64,
}

/// The results of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeTable {
    /// Name of the network on which the measurement ran: "simulated switch", or a real switch.
    pub world: String,
    /// Description of the settings that all points share.
    pub setting: String,
    /// Load of the `at_load` measurements, as a part of the links' capacity.
    pub load: f64,
    /// Results, one for each mode and number of sources.
    pub points: Vec<ModePoint>,
    /// The queues of the network in each mode; empty if the network is a single switch whose ports
    /// are all alike.
    pub nodes: Vec<NodePoint>,
}

impl ModeTable {
    /// Formats the table for people.
    pub fn text(&self) -> String {
        let load = format!("p99 at {:.0} %", self.load * 100.0);
        let head = [
            "mode",
            "sources",
            "goodput",
            "of wire",
            "drops",
            "resent",
            "not complete",
            "p99 flat out",
            &load,
            "drops there",
            "queue at most",
        ];
        let row = |point: &ModePoint| {
            vec![
                point.mode.clone(),
                point.sources.to_string(),
                Rate::from_bits_per_second(point.goodput_bits_per_s / 100_000 * 100_000).to_string(),
                format!("{:.1} %", point.part_of_wire() * 100.0),
                point.drops.to_string(),
                point.retransmits.to_string(),
                point.not_complete.to_string(),
                millis(point.latency_us_p99),
                millis(point.at_load_latency_us_p99),
                point.at_load_drops.to_string(),
                point.queue_peak_bytes.map_or_else(|| "?".into(), |peak| Bytes::new(peak).to_string()),
            ]
        };
        let rows: Vec<Vec<String>> = self.points.iter().map(row).collect();
        let table = columns(&head, &rows);
        let mut text = format!("Shaping modes on a {}: {}\n\n{table}", self.world, self.setting);
        if !self.nodes.is_empty() {
            text += &format!("\n{}", node::text(&self.nodes));
        }
        text
    }

    /// Draws goodput, drops and latency over the number of sources.
    pub fn figure(&self) -> Figure {
        let mut groups: Vec<u16> = self.points.iter().map(|point| point.sources).collect();
        groups.sort_unstable();
        groups.dedup();
        let names: Vec<String> = groups.iter().map(u16::to_string).collect();
        let of_mode = |mode: &str, value: &dyn Fn(&ModePoint) -> f64| -> Vec<f64> {
            let at = |sources: &u16| self.points.iter().find(|p| p.mode == mode && p.sources == *sources);
            groups.iter().map(|sources| at(sources).map_or(f64::NAN, value)).collect()
        };
        let bars = |value: &dyn Fn(&ModePoint) -> f64| -> Vec<Bars> {
            self.modes().into_iter().map(|mode| Bars::new(mode, of_mode(mode, value))).collect()
        };
        let curves = |value: &dyn Fn(&ModePoint) -> f64| -> Vec<Curve> {
            let curve = |mode: &str| {
                let values = of_mode(mode, value).into_iter();
                Curve::joined(mode, groups.iter().map(|sources| f64::from(*sources)).zip(values))
            };
            self.modes().into_iter().map(curve).collect()
        };
        let part = Axis::linear("Goodput (% of the wire)").between(0.0, 100.0);
        let goodput =
            Chart::bars("Sources", names.clone(), part, bars(&|point| point.part_of_wire() * 100.0));
        let mut figure = Figure::new(format!("Shaping modes on a {}", self.world))
            .columns(2)
            .with(goodput.titled("Goodput, as fast as possible"));
        if self.points.iter().any(|point| point.drops > 0) {
            let drops = Axis::log("Dropped frames");
            let drops = Chart::bars("Sources", names, drops, bars(&|point| point.drops as f64));
            figure = figure.with(drops.titled("Drops, as fast as possible (0: no bar)"));
        }
        let ends =
            (groups.first().map_or(1.0, |n| f64::from(*n)), groups.last().map_or(2.0, |n| f64::from(*n)));
        let latency = |value: &dyn Fn(&ModePoint) -> f64| {
            Chart::curves(
                Axis::log("Sources").between(ends.0 / 1.4, ends.1 * 1.4),
                Axis::log("Build latency p99 (ms)"),
                curves(&|point| value(point) / 1e3),
            )
        };
        let at_load = format!("p99 build latency at {:.0} % load", self.load * 100.0);
        figure
            .with(latency(&|point| point.at_load_latency_us_p99).titled(at_load))
            .with(latency(&|point| point.latency_us_p99).titled("p99 build latency, as fast as possible"))
            .note(format!("{}.", self.setting))
    }

    /// Returns the modes in the order of their first points.
    fn modes(&self) -> Vec<&str> {
        let mut modes: Vec<&str> = Vec::new();
        for point in &self.points {
            if !modes.contains(&point.mode.as_str()) {
                modes.push(&point.mode);
            }
        }
        modes
    }
}

impl ModePoint {
    /// Returns the goodput as a part of the links' payload capacity.
    pub fn part_of_wire(&self) -> f64 {
        self.goodput_bits_per_s as f64 / self.capacity_bits_per_s.max(1) as f64
    }
}

fn millis(micros: f64) -> String {
    format!("{:.2} ms", micros / 1e3)
}
