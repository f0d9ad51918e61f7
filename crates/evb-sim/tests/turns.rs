//! Tests the conclusion of the RCNP event builder (Nomachi et al.): a network whose ports serve the
//! incoming trunks in turn gives trunks equal shares, and not sources, so an event builder needs a
//! control of its own. Eight sources behind two trunks, four on each, and six sources, four and
//! two, send to three destinations of 155 Mbit/s; the trunks have 622 Mbit/s. ATM carries 128 of
//! 155 Mbit/s as payload, which gave 48 Mbit/s to each of eight sources, and 48 and 96 Mbit/s to
//! the six. `cargo test -p evb-sim --test turns -- --nocapture` prints the figures.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    units::{Bytes, Rate},
};
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
};
use evb_sim::{
    Flow, FlowsReport, FragmentSize, NetworkModel, RawFlows, Scenario, Service, SimReport, Transport, Trunk,
};

const LINK: Rate = Rate::from_bits_per_second(155_000_000);
const TRUNK: Rate = Rate::from_bits_per_second(622_000_000);
const DESTINATIONS: u16 = 3;

/// The buffer of each port to a destination. Each of the two trunks, and the hosts of the switch,
/// have a third of it. One trunk's part bears the whole budget of a builder, so that no trunk
/// needs a budget of its own.
const PORT: Bytes = Bytes::kib(384);

fn source(id: u16) -> Peer {
    Peer::Source(SourceId::new(id))
}

fn builder(id: u16) -> Peer {
    Peer::Builder(BuilderId::new(id))
}

/// Returns the network of sources behind two trunks, with `first` sources behind the first trunk.
fn network(sources: u16, first: u16) -> NetworkModel {
    let trunk = |name: &str, ids: core::ops::RangeInclusive<u16>| {
        let members = ids.map(source).collect();
        Trunk { name: name.to_owned(), rate: TRUNK, buffer: Bytes::kib(512), above: None, members }
    };
    NetworkModel {
        link_rate: LINK,
        host_rate: LINK,
        port_buffer: PORT,
        trunks: vec![trunk("first", 1..=first), trunk("second", first + 1..=sources)],
        service: Service::Turns,
        ..NetworkModel::default()
    }
}

fn raw(sources: u16, first: u16) -> (FlowsReport, Vec<f64>) {
    let to_all = |from| (1..=DESTINATIONS).map(move |to| Flow { from: source(from), to: builder(to) });
    let raw = RawFlows {
        network: network(sources, first),
        flows: (1..=sources).flat_map(to_all).collect(),
        warm_up: Duration::from_secs(5),
        span: Duration::from_secs(60),
        seed: 1,
    };
    let report = raw.run().expect("a network");
    let of_source = |rates: &[Rate]| rates.iter().map(|rate| megabits(*rate)).sum();
    let rates = report.rates.chunks(usize::from(DESTINATIONS)).map(of_source).collect();
    (report, rates)
}

fn megabits(rate: Rate) -> f64 {
    rate.bits_per_second() as f64 / 1e6
}

/// Asserts that all rates are within a part `tolerance` of the expected rate.
fn about(what: &str, rates: &[f64], expected: f64, tolerance: f64) {
    println!("{what:<44} {expected:>6.1} Mbit/s each expected, found {rates:.1?}");
    for rate in rates {
        assert!((rate / expected - 1.0).abs() < tolerance, "{what}: {rate} of {expected} Mbit/s");
    }
}

/// Returns the payload rate of each destination's port, where ATM had 128 Mbit/s.
fn full(transport: Transport) -> f64 {
    let cost = PacketCost::of(transport, 1500, CELL);
    megabits(LINK) * cost.packet_payload().count() as f64 / cost.packet_line().count() as f64
}

#[test]
fn raw_flows_share_by_trunk() {
    let full = full(Transport::Tcp);
    let scale = full / 128.0;
    let (balanced, rates) = raw(8, 4);
    about("raw, 4 + 4 sources", &rates, 48.0 * scale, 0.1);
    let (unbalanced, uneven) = raw(6, 4);
    about("raw, 4 + 2 sources: first trunk", &uneven[..4], 48.0 * scale, 0.1);
    about("raw, 4 + 2 sources: second trunk", &uneven[4..], 96.0 * scale, 0.1);
    for (report, rates) in [(&balanced, &rates), (&unbalanced, &uneven)] {
        let sum: f64 = rates.iter().sum();
        about("raw: all destinations together", &[sum], full * f64::from(DESTINATIONS), 0.03);
        println!("retransmits {}, timeouts {}", report.retransmits, report.timeouts);
    }
}

fn evb(transport: Transport, sources: u16, first: u16) -> SimReport {
    let network = network(sources, first);
    let cost = PacketCost::of(transport, network.mtu, CELL);
    let shaping = Shaping::credit_for(PORT / 3, Some(LINK), sources.into(), &cost);
    let mut scenario = Scenario {
        sources,
        builders: DESTINATIONS,
        transport,
        network,
        shaping,
        events: 1500,
        ..Scenario::default()
    };
    scenario.readout.size = FragmentSize::Fixed(Bytes::new(16_000));
    let report = scenario.run().expect("a run that holds");
    assert_eq!(report.run.events.complete, scenario.events, "{report}");
    report
}

#[test]
fn evb_shares_by_source_and_fills_every_destination() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let full = full(transport);
        for (sources, first) in [(8, 4), (6, 4)] {
            let report = evb(transport, sources, first);
            let what = format!("evb {}, {first} + {} sources", transport.word(), sources - first);
            let each = full * f64::from(DESTINATIONS) / f64::from(sources);
            let rates = |rates: &[Rate]| rates.iter().map(|rate| megabits(*rate)).collect::<Vec<_>>();
            about(&what, &rates(&report.source_rates), each, 0.03);
            about(&format!("{what}: destinations"), &rates(&report.builder_rates), full, 0.03);
            let drops = (report.builder_port_drops, report.trunk_drops, report.retransmits);
            assert_eq!(drops, (0, 0, 0), "{report}");
        }
    }
}
