//! Networks of several switches whose trunks are the bottleneck: 8 sources and 4 builders at ports
//! of 250 Mbit/s and 64 KiB, and a trunk of 500 Mbit/s and 128 KiB between them. evb takes turns
//! with `iperf3`, and runs with and without the trunks in its configuration.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use lab_base::{
    bench::{Bench, since},
    iperf,
    network::{Link, Network, Shape, Tree},
    outcome::{Outcome, median},
    report::{Bound, Report},
    system::{Mode, System, Transport, network_capacity},
};
use papers::twin;
use serde_json::Value;

const FRAGMENT: u64 = 16_000;
/// Buffer of a trunk.
const BUFFER: u64 = 128 * 1024;
/// Least goodput of evb as a share of that of `iperf3`.
const BESIDE_IPERF: f64 = 0.98;
/// Least number of packets that are dropped if the configuration does not describe the trunks.
const CARELESS_DROPS: f64 = 100.0;
/// Largest difference between the goodputs of the lab and the simulator, relative to the latter.
const AGREEMENT: f64 = 0.05;

#[derive(Args)]
pub(crate) struct TrunksArgs {
    /// Rate of every port, in Mbit/s; the trunk that binds has twice this rate. A lower rate shows
    /// the same behaviour of the switches, if two cores cannot carry 500 Mbit/s over a trunk.
    #[arg(long, default_value_t = 250)]
    mbit: u64,
}

/// Returns the networks, by name, in which a trunk of twice the ports' rate is the bottleneck.
fn networks(port_rate: u64) -> [(&'static str, Tree); 3] {
    let narrow = Link { rate: 2 * port_rate, buffer: BUFFER };
    let outer = Link { rate: 4 * port_rate, buffer: BUFFER };
    [
        ("two switches", Tree::Two(narrow)),
        ("three switches", Tree::Three { middle: narrow, far: narrow }),
        ("row of switches", Tree::Row { middle: narrow, outer }),
    ]
}

fn shape(rate: u64, tree: Tree) -> Shape {
    Shape { sources: 8, builders: 4, rate, port_buffer: 64 * 1024, tree, ..Shape::PLAIN }
}

pub(crate) fn run(bench: &Bench, args: &TrunksArgs) -> Result<Report> {
    let mut report = Report::new("trunks");
    let rate = args.mbit * 1_000_000;
    for (name, tree) in networks(rate) {
        if !bench.transports.iter().any(|transport| bench.wants(&Bench::name(name, *transport))) {
            continue;
        }
        let network = Network::up(shape(rate, tree))?;
        let beside = reference(bench, &network, &mut report, name)?;
        for transport in bench.transports {
            let name = Bench::name(name, *transport);
            if bench.wants(&name) {
                case(bench, &network, &mut report, &name, *transport, beside)?;
            }
        }
    }
    Ok(report)
}

/// Measures `iperf3` with a stream from each source to each builder, and returns the L2 rate that
/// the ports to the builders carried, as a share of what the network can carry.
fn reference(bench: &Bench, network: &Network, report: &mut Report, name: &str) -> Result<f64> {
    let shape = network.shape();
    let before = network.ports()?;
    let carried = iperf::streams(network, &twin::pairs(shape), 1, bench.seconds)?.carried;
    let drops: u64 = since(&before, network.ports()?).values().map(|port| port.drops).sum();
    let share = carried / shape.carries();
    report.note(format!(
        "{name}: iperf3 fills {:.1} % of the trunk, {:.1} Mbit/s of payload, {drops} packets dropped",
        share * 100.0,
        share * network_capacity(shape, Transport::Tcp, u64::MAX) / 1e6,
    ));
    Ok(share)
}

/// Runs evb with and without the trunks in its configuration. `beside` is the share that `iperf3`
/// reached.
fn case(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    name: &str,
    transport: Transport,
    beside: f64,
) -> Result<()> {
    let system = System::new(Mode::Credit, FRAGMENT).over(transport);
    let mut outcomes: Vec<Outcome> = Vec::new();
    for _ in 0..bench.runs.max(1) {
        let outcome = bench.run(network, name, system.clone())?;
        report.add(&outcome);
        report.clean(&outcome);
        report.note(format!("{name}: {}", busiest(&outcome)));
        outcomes.push(outcome);
    }
    report.noisy(
        &format!("{name}: median share of the goodput of iperf3"),
        median(outcomes.iter().map(|outcome| beside_iperf(outcome, beside))),
        Bound::AtLeast(BESIDE_IPERF),
    );
    let config = bench.out.join(Bench::case(name)).join("config.toml");
    beside_twin(&config, network.shape(), report, name, &outcomes)?;
    let careless = bench.run(network, &format!("{name} unstated"), system.without_trunks())?;
    report.add(&careless);
    report.note(format!("{name} unstated: {}", worst_paths(&careless)));
    let (what, drops) =
        (format!("{name}: packets dropped if the trunks are not stated"), careless.drops() as f64);
    report.holds(&what, drops, Bound::AtLeast(1.0));
    let named = careless.summary["paths"].as_array().map_or(0, Vec::len);
    let is_named = named <= 10 && (named > 0) == (careless.repeated() > 0.0);
    report.yes(&format!("{name}: the worst paths are named, at most ten"), is_named);
    report.noisy(&what, drops, Bound::AtLeast(CARELESS_DROPS));
    Ok(())
}

/// Compares the median goodput with that of the simulator.
fn beside_twin(
    config: &Path,
    shape: Shape,
    report: &mut Report,
    name: &str,
    outcomes: &[Outcome],
) -> Result<()> {
    let simulated = twin::system(config, shape)?;
    let expected = simulated.goodput.bits_per_second() as f64;
    let goodput = median(outcomes.iter().map(Outcome::goodput));
    report.note(format!(
        "{name}: {:.1} Mbit/s; the simulator has {:.1} Mbit/s, {:.1} % of the trunk, {} drops",
        goodput / 1e6,
        expected / 1e6,
        simulated.utilisation() * 100.0,
        simulated.trunk_drops + simulated.builder_port_drops + simulated.other_port_drops
    ));
    report.noisy(
        &format!("{name}: difference to the simulator"),
        (goodput / expected - 1.0).abs(),
        Bound::AtMost(AGREEMENT),
    );
    Ok(())
}

/// Returns evb's goodput as a share of that of `iperf3`, whose packets are full. Over UDP a packet
/// contains 16 bytes less payload than over TCP, so shares of what fits into full packets are
/// compared.
fn beside_iperf(outcome: &Outcome, beside: f64) -> f64 {
    let Outcome { shape, system, .. } = outcome;
    let fits = match system.transport {
        Transport::Tcp => u64::MAX,
        Transport::Udp => system.fragment,
    };
    outcome.goodput() / network_capacity(*shape, system.transport, fits) / beside
}

/// Describes the paths on which most data were sent again, by evb's report.
fn worst_paths(outcome: &Outcome) -> String {
    let paths = outcome.summary["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
    let count = |path: &Value, key: &str| path[key].as_u64().unwrap_or_default();
    let again = |path: &Value| count(path, "tcp_retransmits") + count(path, "resends");
    let path = |path: &Value| format!("s{} to b{} {}", path["source"], path["builder"], again(path));
    let named: Vec<String> = paths.iter().map(path).collect();
    if named.is_empty() {
        "no path is named on which data were sent again".to_owned()
    } else {
        format!("most was sent again on the paths {}", named.join(", "))
    }
}

/// Describes the traffic on the trunks.
fn busiest(outcome: &Outcome) -> String {
    let trunks = outcome.ports.iter().filter(|(port, _)| port.starts_with("trunk "));
    let parts: Vec<String> = trunks
        .map(|(port, count)| format!("{port} {:.1} MB, {} drops", count.bytes as f64 / 1e6, count.drops))
        .collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests;
