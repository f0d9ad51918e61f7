//! Tests networks of two and three switches that are joined by trunks: with budgets that the
//! trunk's buffer bears, no frame is dropped and the trunk is full; with budgets that only the
//! ports bear, the trunk drops frames. `cargo test -p evb-sim --test trunks -- --nocapture` prints
//! the figures.

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    units::{Bytes, Rate},
};
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
};
use evb_sim::{FragmentSize, NetworkModel, NodeReport, Scenario, SimReport, Transport, Trunk};

const SOURCES: u16 = 8;
const BUILDERS: u16 = 4;

fn megabits(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

fn sources() -> Vec<Peer> {
    (1..=SOURCES).map(|id| Peer::Source(SourceId::new(id))).collect()
}

fn builders() -> Vec<Peer> {
    (1..=BUILDERS).map(|id| Peer::Builder(BuilderId::new(id))).collect()
}

fn trunk(name: &str, rate: Rate, above: Option<usize>, members: Vec<Peer>) -> Trunk {
    Trunk { name: name.to_owned(), rate, buffer: Bytes::kib(128), above, members }
}

/// Returns the run of eight sources and four builders with ports of 250 Mbit/s and 64 KiB.
fn scenario(transport: Transport, trunks: Vec<Trunk>, budget: Bytes) -> Scenario {
    let network = NetworkModel {
        link_rate: megabits(250),
        host_rate: megabits(250),
        port_buffer: Bytes::kib(64),
        trunks,
        ..NetworkModel::default()
    };
    let cost = PacketCost::of(transport, network.mtu, CELL);
    // The default leaves a tenth of a buffer free, so it is told a buffer of ten ninths of the
    // budget.
    let shaping = Shaping::credit_for(budget * 10 / 9, Some(network.link_rate), SOURCES.into(), &cost);
    let (sources, builders) = (SOURCES, BUILDERS);
    let mut scenario =
        Scenario { sources, builders, transport, network, shaping, events: 400, ..Scenario::default() };
    scenario.readout.size = FragmentSize::Fixed(Bytes::new(16_000));
    scenario
}

fn run(what: &str, scenario: &Scenario) -> SimReport {
    let report = scenario.run().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(report.run.events.complete, scenario.events, "{what}: {report}");
    println!(
        "{what:<34} {:<4} {:>8.1} Mbit/s, {:>5.1} % of the trunk; {} drops at the trunk, {} at ports",
        report.transport.word(),
        report.goodput.bits_per_second() as f64 / 1e6,
        report.utilisation() * 100.0,
        report.trunk_drops,
        report.builder_port_drops + report.other_port_drops,
    );
    report
}

fn node<'a>(report: &'a SimReport, name: &str) -> &'a NodeReport {
    report.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// Checks that a run dropped nothing, and that it filled the direction `binding` of a trunk.
fn check(report: &SimReport, binding: &str) {
    let clean = (report.trunk_drops, report.builder_port_drops, report.other_port_drops, report.retransmits);
    assert_eq!(clean, (0, 0, 0, 0), "{report}");
    assert!(report.utilisation() > 0.98, "{report}");
    assert!(report.nodes.iter().all(|node| node.peak <= node.buffer), "{report}");
    let carried = node(report, binding);
    assert!(carried.bytes.count() > 400 * 8 * 16_000, "{report}");
    assert!(carried.peak > Bytes::kib(32), "the trunk was hardly used: {report}");
}

/// The budget of each builder: its part of nine tenths of the trunk's buffer.
const OF_THE_TRUNK: Bytes = Bytes::new(128 * 1024 * 9 / 10 / BUILDERS as u64);
/// The budget of each builder if only its port is known.
const OF_THE_PORT: Bytes = Bytes::new(64 * 1024 * 9 / 10);

#[test]
fn a_trunk_between_two_switches_is_full_and_drops_nothing() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let trunks = || vec![trunk("core", megabits(500), None, builders())];
        let report = run("two switches", &scenario(transport, trunks(), OF_THE_TRUNK));
        check(&report, "core down");
        assert_eq!(
            report.capacity,
            Rate::from_bits_per_second(
                scenario(transport, Vec::new(), OF_THE_TRUNK).capacity().bits_per_second() / 2
            )
        );
        let careless = run("two switches, budgets of the ports", &scenario(transport, trunks(), OF_THE_PORT));
        assert!(careless.trunk_drops > 100 && node(&careless, "core down").drops == careless.trunk_drops);
        assert_eq!(careless.builder_port_drops, 0, "{careless}");
    }
}

/// Sources and builders are each behind a trunk of their own, and the trunk in the middle binds.
#[test]
fn the_trunk_in_the_middle_of_three_switches_binds() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let trunks = || {
            vec![
                trunk("middle", megabits(500), None, Vec::new()),
                trunk("builders", megabits(1000), Some(0), builders()),
                trunk("sources", megabits(1000), None, sources()),
            ]
        };
        let report = run("three switches", &scenario(transport, trunks(), OF_THE_TRUNK));
        check(&report, "middle down");
        assert!(node(&report, "sources up").peak < Bytes::kib(32), "{report}");
        let careless =
            run("three switches, budgets of the ports", &scenario(transport, trunks(), OF_THE_PORT));
        assert!(node(&careless, "middle down").drops > 100, "{careless}");
    }
}

#[test]
fn contradictory_trunks_are_refused() {
    let trunks =
        vec![trunk("a", megabits(500), None, builders()), trunk("b", megabits(500), None, builders())];
    let error = scenario(Transport::Tcp, trunks, OF_THE_PORT).run().expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the simulated network contradicts itself: trunk `b`: builder 1 is a member twice; correct its trunks"
    );
}
