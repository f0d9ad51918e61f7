//! Networks of several switches whose trunks are the bottleneck: 8 sources and 4 builders at ports
//! of 250 Mbit/s and 64 KiB, and a trunk of 500 Mbit/s and 128 KiB between them. evb takes turns
//! with `iperf3`, and runs with and without the trunks in its configuration.

use anyhow::Result;

use super::{
    bench::{Bench, since},
    fill::iperf,
    network::{Link, Network, Shape, Tree},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, Transport, network_capacity},
    twin,
};

const FRAGMENT: u64 = 16_000;
/// The trunk that binds, and a trunk that does not.
const NARROW: Link = Link { rate: 500_000_000, buffer: 128 * 1024 };
const WIDE: Link = Link { rate: 1_000_000_000, buffer: 128 * 1024 };
/// Least goodput of evb as a share of that of `iperf3`.
const BESIDE_IPERF: f64 = 0.98;
/// Least number of packets that are dropped if the configuration does not describe the trunks.
const CARELESS_DROPS: f64 = 100.0;
/// Largest difference between the goodputs of the lab and the simulator, relative to the latter.
const AGREEMENT: f64 = 0.05;

const NETWORKS: [(&str, Tree); 3] = [
    ("two switches", Tree::Two(NARROW)),
    ("three switches", Tree::Three { middle: NARROW, far: NARROW }),
    ("row of switches", Tree::Row { middle: NARROW, outer: WIDE }),
];

fn shape(tree: Tree) -> Shape {
    Shape { sources: 8, builders: 4, rate: 250_000_000, port_buffer: 64 * 1024, tree, ..Shape::PLAIN }
}

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("trunks");
    for (name, tree) in NETWORKS {
        if !bench.transports.iter().any(|transport| bench.wants(&Bench::name(name, *transport))) {
            continue;
        }
        let network = Network::up(shape(tree))?;
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
    let outcome = bench.run(network, name, system.clone())?;
    report.add(&outcome);
    report.clean(&outcome);
    report.holds_timed(
        &format!("{name}: share of the goodput of iperf3"),
        beside_iperf(&outcome, beside),
        Bound::AtLeast(BESIDE_IPERF),
    );
    report.note(format!("{name}: {}", busiest(&outcome)));
    let simulated = twin::system(&bench.out.join(Bench::case(name)).join("config.toml"), network.shape())?;
    let expected = simulated.goodput.bits_per_second() as f64;
    report.note(format!(
        "{name}: {:.1} Mbit/s; the simulator has {:.1} Mbit/s, {:.1} % of the trunk, {} drops",
        outcome.goodput() / 1e6,
        expected / 1e6,
        simulated.utilisation() * 100.0,
        simulated.trunk_drops + simulated.builder_port_drops + simulated.other_port_drops
    ));
    report.holds_timed(
        &format!("{name}: difference to the simulator"),
        (outcome.goodput() / expected - 1.0).abs(),
        Bound::AtMost(AGREEMENT),
    );
    let careless = bench.run(network, &format!("{name} unstated"), system.without_trunks())?;
    report.add(&careless);
    report.holds(
        &format!("{name}: packets dropped if the trunks are not stated"),
        careless.drops() as f64,
        Bound::AtLeast(CARELESS_DROPS),
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
