//! `evb-bench fill`: measures the goodput of credit-based shaping as a function of C·R/L, on the
//! simulated switch. C is the rate of the switch port, R the time from a grant to its data, and L
//! the buffer of the port.

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use evb_core::units::{Bytes, Rate};
use evb_sim::{FragmentSize, HostModel, NetworkModel, Readout, Scenario};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{
    modes::as_configured,
    output::{BenchError, OutputArguments, columns, failed},
};
use crate::figure::{Axis, Chart, Curve, Figure};

/// Arguments of `evb-bench fill`.
#[derive(clap::Args, Debug)]
pub struct FillArguments {
    /// Numbers of sources to simulate.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32, 256])]
    sources: Vec<u16>,
    /// Rates of all links, in line bytes; each rate is simulated.
    #[arg(long, value_delimiter = ',', default_values = ["1 Gbit/s", "10 Gbit/s", "25 Gbit/s", "100 Gbit/s"])]
    link_rates: Vec<Rate>,
    /// Buffer sizes of the switch ports, in buffer bytes; each size is simulated.
    #[arg(long, value_delimiter = ',', default_values = ["64 KiB", "128 KiB", "256 KiB", "512 KiB", "2 MiB", "8 MiB"])]
    port_buffers: Vec<Bytes>,
    /// Length of a run: its events keep a port at full rate busy for this many milliseconds.
    #[arg(long, default_value_t = 10)]
    span_ms: u64,
    /// Seed of the simulation's random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArguments,
}

/// The results for one combination of sources, link rate and port buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FillPoint {
    /// Number of sources.
    pub sources: u16,
    /// C, the rate of the links.
    pub link_bits_per_s: u64,
    /// L, the buffer of the port.
    pub port_buffer_bytes: u64,
    /// R, the mean time from a grant to its first data through the idle network.
    pub grant_path_us: f64,
    /// The ratio C·R/L.
    pub need: f64,
    /// Goodput as a part of the payload rate that the port can carry.
    pub part_of_wire: f64,
    /// Number of frames that the switch dropped because the buffer of a port was full.
    pub drops: u64,
    /// The largest number of bytes that were in the builder's port buffer at the same time.
    pub queue_peak_bytes: u64,
}

/// The results for all simulated systems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FillTable {
    /// Description of the settings that all points share.
    pub setting: String,
    /// Results, one for each simulated system.
    pub points: Vec<FillPoint>,
}

/// Runs the simulations and publishes their results.
pub(super) fn main(arguments: &FillArguments) -> ExitCode {
    let published = measure(arguments)
        .and_then(|table| arguments.output.publish(&table, &table.text(), || table.figure().svg()));
    match published {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

fn measure(arguments: &FillArguments) -> Result<FillTable, BenchError> {
    let (rates, buffers) = (&arguments.link_rates, &arguments.port_buffers);
    let bar = ProgressBar::new((arguments.sources.len() * rates.len() * buffers.len()) as u64);
    let mut points = Vec::new();
    for sources in &arguments.sources {
        for rate in rates {
            for buffer in buffers {
                bar.set_message(format!("{sources} sources, {rate}, {buffer}"));
                points.push(point(&scenario(arguments, *sources, *rate, *buffer)?)?);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let setting = format!(
        "one builder, credit as evbd chooses it, TCP, MTU 1500, events worth {} ms of the port, seed {}; half of the recorded time from \
         a grant to its last byte (of 1, 8 or 32 sources at 10 Gbit/s) for each wake-up, no processor time, cores to spare",
        arguments.span_ms, arguments.seed,
    );
    Ok(FillTable { setting, points })
}

fn scenario(
    arguments: &FillArguments,
    sources: u16,
    link_rate: Rate,
    port_buffer: Bytes,
) -> Result<Scenario, BenchError> {
    let hosts = HostModel::recorded(sources);
    let network =
        NetworkModel { link_rate, host_rate: link_rate, port_buffer, hosts, ..NetworkModel::default() };
    let lane = (link_rate.bytes_per_second() * arguments.span_ms as f64 / 1e3) as u64 / u64::from(sources);
    let fragment = (lane / 8).clamp(1455, 64_000);
    let mut scenario = Scenario {
        sources,
        network,
        readout: Readout { size: FragmentSize::Fixed(Bytes::new(fragment)), ..Scenario::default().readout },
        events: (lane / fragment).max(8),
        seed: arguments.seed,
        ..Scenario::default()
    };
    // The slots hold four times the events that can be under way, so that the number of slots does
    // not limit the goodput.
    let under_way =
        port_buffer.count() + (link_rate.bytes_per_second() * scenario.grant_path().as_secs_f64()) as u64;
    let slots = (4 * under_way).div_ceil(fragment * u64::from(sources)).clamp(16, 1024);
    scenario.slots = slots as u32;
    as_configured(scenario, "credit")
}

fn point(scenario: &Scenario) -> Result<FillPoint, BenchError> {
    let report = scenario.run()?;
    let (path, rate) = (scenario.grant_path().as_secs_f64(), scenario.network.link_rate);
    let buffer = scenario.network.port_buffer.count();
    Ok(FillPoint {
        sources: scenario.sources,
        link_bits_per_s: rate.bits_per_second(),
        port_buffer_bytes: buffer,
        grant_path_us: path * 1e6,
        need: rate.bytes_per_second() * path / buffer as f64,
        part_of_wire: report.utilisation(),
        drops: report.builder_port_drops + report.other_port_drops,
        queue_peak_bytes: report.builder_port_peak.count(),
    })
}

impl FillTable {
    /// Formats the table for people.
    pub fn text(&self) -> String {
        let head = ["sources", "rate C", "buffer L", "path R", "C·R/L", "of wire", "drops", "queue at most"];
        let row = |point: &FillPoint| {
            vec![
                point.sources.to_string(),
                Rate::from_bits_per_second(point.link_bits_per_s).to_string(),
                Bytes::new(point.port_buffer_bytes).to_string(),
                format!("{:.0} µs", point.grant_path_us),
                format!("{:.3}", point.need),
                format!("{:.1} %", point.part_of_wire * 100.0),
                point.drops.to_string(),
                Bytes::new(point.queue_peak_bytes).to_string(),
            ]
        };
        let rows: Vec<Vec<String>> = self.points.iter().map(row).collect();
        format!("What fills a port, on a simulated switch: {}\n\n{}", self.setting, columns(&head, &rows))
    }

    /// Draws goodput over C·R/L.
    pub fn figure(&self) -> Figure {
        let mut groups: Vec<u16> = self.points.iter().map(|point| point.sources).collect();
        groups.sort_unstable();
        groups.dedup();
        let of_group = |sources: &u16| {
            let own = self.points.iter().filter(|point| point.sources == *sources);
            let name = format!("{sources} source{}", if *sources == 1 { "" } else { "s" });
            Curve::points(name, own.map(|point| (point.need, point.part_of_wire * 100.0)))
        };
        let needs = || self.points.iter().map(|point| point.need);
        let (low, high) = (needs().fold(f64::MAX, f64::min), needs().fold(0.0, f64::max));
        let steps = (0..=100).map(|step| low * (high / low).powf(f64::from(step) / 100.0));
        let sum = steps.map(|need| (need, 100.0 / need.max(1.0)));
        let mut curves: Vec<Curve> = groups.iter().map(of_group).collect();
        curves.push(Curve::reference("L each R", sum));
        let chart = Chart::curves(
            Axis::log("C·R/L (what the port carries from a grant to its data, in buffers)"),
            Axis::linear("Goodput (% of the wire)").between(0.0, 100.0),
            curves,
        );
        let drops: u64 = self.points.iter().map(|point| point.drops).sum();
        Figure::new("What fills a port: credit on a simulated switch").with(chart).note(format!(
            "{drops} frames dropped in {} runs: {}.",
            self.points.len(),
            self.setting
        ))
    }
}
