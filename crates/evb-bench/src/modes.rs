//! `evb-bench modes`: compares the shaping modes on the simulated switch.

mod configured;
mod node;
mod point;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use evb_core::{
    trigger::TriggerKind,
    units::{Bytes, Rate},
};
use evb_sim::{FragmentSize, NetworkModel, Readout, Scenario, SimReport};
use indicatif::ProgressBar;

use self::configured::Configured;
pub use self::{
    node::NodePoint,
    point::{ModePoint, ModeTable},
};

use super::output::{BenchError, OutputArguments, failed};

/// Arguments of `evb-bench modes`.
#[derive(clap::Args, Debug)]
pub struct ModesArguments {
    /// Simulate the network of this configuration: its trunks, links and buffers, its sources with
    /// the sizes of their fragments, and its builders.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["sources", "builders", "fragment", "link_rate", "port_buffer", "slots"]
    )]
    config: Option<PathBuf>,
    /// Numbers of sources to simulate.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8, 16, 32])]
    sources: Vec<u16>,
    /// Number of builders, each behind a switch port of its own.
    #[arg(long, default_value_t = 1)]
    builders: u16,
    /// The shaping modes to compare.
    #[arg(long, value_delimiter = ',', default_values_t = ["credit", "window", "token-bucket", "none"].map(str::to_owned))]
    modes: Vec<String>,
    /// Payload of each source's fragment of an event.
    #[arg(long, default_value = "64 kB")]
    fragment: Bytes,
    /// The rate of every link, in line bytes.
    #[arg(long, default_value = "1 Gbit/s")]
    link_rate: Rate,
    /// Buffer of each switch port, in buffer bytes.
    #[arg(long, default_value = "128 KiB")]
    port_buffer: Bytes,
    /// Slots per builder: the number of events that a builder may have under construction at the
    /// same time.
    #[arg(long, default_value_t = 4)]
    slots: u32,
    /// Number of events of each run.
    #[arg(long, default_value_t = 200)]
    events: u64,
    /// Load for the measurement of latency, as a part of the links' capacity. Goodput is measured
    /// with events as fast as possible.
    #[arg(long, default_value_t = 0.8)]
    load: f64,
    /// Seed of the simulation's random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArguments,
}

/// Returns the simulation of the network that a configuration file describes, in the shaping mode
/// of the configuration, with triggers as fast as possible.
///
/// # Errors
/// Returns the problems of the file, or the properties of the network that it does not state.
pub fn configured_scenario(file: &Path, events: u64, seed: u64) -> Result<Scenario, BenchError> {
    let configured = Configured::read(file)?;
    configured.scenario(configured.mode(), events, seed)
}

/// Runs the simulations and publishes their results.
pub(super) fn main(arguments: &ModesArguments) -> ExitCode {
    let published = measure(arguments)
        .and_then(|table| arguments.output.publish(&table, &table.text(), || table.figure().svg()));
    match published {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

fn measure(arguments: &ModesArguments) -> Result<ModeTable, BenchError> {
    if !(arguments.load > 0.0 && arguments.load <= 1.0) {
        return Err(BenchError::Operator(format!(
            "--load is a part of the links' capacity: above 0, at most 1, not {}",
            arguments.load
        )));
    }
    match &arguments.config {
        Some(file) => measure_configured(arguments, &Configured::read(file)?),
        None => measure_alike(arguments),
    }
}

/// Simulates the network of a configuration in each mode.
fn measure_configured(arguments: &ModesArguments, configured: &Configured) -> Result<ModeTable, BenchError> {
    let bar = ProgressBar::new(arguments.modes.len() as u64);
    let (mut points, mut nodes) = (Vec::new(), Vec::new());
    for mode in &arguments.modes {
        bar.set_message(mode.clone());
        let scenario = configured.scenario(mode, arguments.events, arguments.seed)?;
        let none = || {
            BenchError::Operator("the sources of the configuration send empty fragments: give their generator a fragment size above zero".to_owned())
        };
        let (flat_out, loaded) = both_loads(scenario, arguments.load, none)?;
        nodes.extend(node::of_report(mode, &flat_out, |position| configured.builder(position)));
        points.push(of_reports(&flat_out, &loaded));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let setting =
        format!("{}; {} events a run, seed {}", configured.describe(), arguments.events, arguments.seed);
    Ok(ModeTable { world: "simulated network".to_owned(), setting, load: arguments.load, points, nodes })
}

/// Simulates one switch whose ports are all alike.
fn measure_alike(arguments: &ModesArguments) -> Result<ModeTable, BenchError> {
    let bar = ProgressBar::new((arguments.sources.len() * arguments.modes.len()) as u64);
    let mut points = Vec::new();
    for sources in &arguments.sources {
        for mode in &arguments.modes {
            bar.set_message(format!("{mode}, {sources} sources"));
            let scenario = scenario(arguments, *sources, mode)?;
            let none = || BenchError::Operator("--fragment is 0 B: give a size above zero".into());
            let (flat_out, loaded) = both_loads(scenario, arguments.load, none)?;
            points.push(of_reports(&flat_out, &loaded));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let NetworkModel { hosts, latency, .. } = NetworkModel::default();
    let wake_up = &hosts.source.wake_up;
    let setting = format!(
        "{} builder(s), {} fragments, {} links, port buffer {}, {} slots, {} events a run, seed {}; programs run {:?} to {:?} after \
         their data, links take {latency:?}",
        arguments.builders,
        arguments.fragment,
        arguments.link_rate,
        arguments.port_buffer,
        arguments.slots,
        arguments.events,
        arguments.seed,
        wake_up.least(),
        wake_up.most(),
    );
    Ok(ModeTable {
        world: "simulated switch".to_owned(),
        setting,
        load: arguments.load,
        points,
        nodes: Vec::new(),
    })
}

/// Simulates a scenario with triggers as fast as possible, and at the given load. `none` is the
/// error if an event has no bytes.
fn both_loads(
    mut scenario: Scenario,
    load: f64,
    none: impl Fn() -> BenchError,
) -> Result<(SimReport, SimReport), BenchError> {
    let flat_out = scenario.run()?;
    scenario.trigger = scenario.periodic_at_load(load).ok_or_else(none)?;
    Ok((flat_out, scenario.run()?))
}

fn of_reports(flat_out: &SimReport, loaded: &SimReport) -> ModePoint {
    ModePoint {
        mode: flat_out.mode.to_owned(),
        sources: flat_out.sources,
        builders: flat_out.builders,
        goodput_bits_per_s: flat_out.goodput.bits_per_second(),
        capacity_bits_per_s: flat_out.capacity.bits_per_second(),
        drops: drops(flat_out),
        retransmits: flat_out.retransmits,
        complete: flat_out.run.events.complete,
        not_complete: flat_out.run.events.incomplete + flat_out.run.events.lost,
        latency_us_p99: micros(flat_out.latency_p99),
        queue_peak_bytes: Some(flat_out.builder_port_peak.count()),
        at_load_drops: drops(loaded),
        at_load_latency_us_p50: micros(loaded.latency_p50),
        at_load_latency_us_p99: micros(loaded.latency_p99),
    }
}

fn drops(report: &SimReport) -> u64 {
    report.builder_port_drops + report.other_port_drops + report.trunk_drops
}

fn micros(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn scenario(arguments: &ModesArguments, sources: u16, mode: &str) -> Result<Scenario, BenchError> {
    let network = NetworkModel {
        link_rate: arguments.link_rate,
        host_rate: arguments.link_rate,
        port_buffer: arguments.port_buffer,
        ..NetworkModel::default()
    };
    let scenario = Scenario {
        sources,
        builders: arguments.builders,
        network,
        readout: Readout {
            size: FragmentSize::Fixed(arguments.fragment),
            delay: std::time::Duration::ZERO,
            silence: 0.0,
        },
        trigger: TriggerKind::AsFastAsPossible,
        slots: arguments.slots,
        events: arguments.events,
        seed: arguments.seed,
        ..Scenario::default()
    };
    as_configured(scenario, mode)
}

/// Returns the scenario with the shaping parameters that `evbd` would choose for a real system of
/// this size.
pub(super) fn as_configured(scenario: Scenario, mode: &str) -> Result<Scenario, BenchError> {
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = \"as-fast-as-possible\"\n\
         [network]\nlink_rate = \"{} bit/s\"\nport_buffer = \"{} B\"\nadmission = \"warn\"\n[shaping]\nmode = \"{mode}\"\n\
         [[source]]\nids = \"1-{}\"\ninput = {{ kind = \"generator\", size = \"{} B\" }}\n\
         [[builder]]\nids = \"1-{}\"\nlisten = \"127.0.0.1:{{7100+id}}\"\nport = \"{{id}}\"\nsink = \"null\"\n",
        scenario.network.link_rate.bits_per_second(),
        scenario.network.port_buffer.count(),
        scenario.sources,
        scenario.readout.size.largest().count(),
        scenario.builders,
    );
    let loaded =
        evb_config::read(&text, "bench").map_err(|problems| BenchError::Operator(problems.to_string()))?;
    let config = &loaded.config;
    let budget = config.builders.first().map_or(config.shaping.budget, |builder| builder.budget);
    Ok(Scenario { shaping: config.shaping(budget), ..scenario })
}
