//! Tests the incast table: goodput, drops and latency of each shaping mode when N sources answer
//! one builder at once. To accept a changed table: `INSTA_UPDATE=always cargo test -p evb-sim
//! --test incast`.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    ByteMeasure, Pace, Shaping,
    cost::{CELL, PacketCost},
};
use evb_sim::{FragmentSize, Scenario, SimReport, Transport};

const PORT: Bytes = Bytes::kib(128);
const LINK: u64 = 1_000_000_000;

fn shaping(transport: Transport, mode: &str, sources: u16) -> Shaping {
    let (sources, cost) = (u64::from(sources), PacketCost::of(transport, 1500, CELL));
    match mode {
        "credit" => Shaping::credit_for(PORT, None, sources, &cost),
        // The windows use nine tenths of the port's buffer, as credit does.
        "window" => Shaping::Window { window: cost.affordable(PORT * 9 / 10 / sources) },
        // Each source has an equal share of the link's rate and may send two packets at once.
        "token-bucket" => Shaping::TokenBucket(Pace {
            rate: Rate::from_bits_per_second(LINK / sources * 95 / 100),
            burst: Bytes::new(2 * 1538),
            measure: ByteMeasure::Line,
        }),
        _ => Shaping::None,
    }
}

fn run(transport: Transport, sources: u16, mode: &str, slots: u32, events: u64) -> SimReport {
    let shaping = shaping(transport, mode, sources);
    let scenario = Scenario { sources, transport, shaping, slots, events, ..Scenario::default() };
    scenario.run().expect("a run that holds")
}

/// Runs all numbers of sources and all modes. Returns the reports, and the table as text.
fn table(transport: Transport, slots: u32, events: u64) -> (Vec<SimReport>, String) {
    let modes = ["credit", "window", "token-bucket", "none"];
    let of_size = |sources: u16| modes.map(|mode| run(transport, sources, mode, slots, events));
    let reports: Vec<_> = [4, 8, 16, 32].into_iter().flat_map(of_size).collect();
    let rows: Vec<_> = reports.iter().map(SimReport::row).collect();
    (reports, format!("{}\n{}", SimReport::HEADER, rows.join("\n")))
}

fn check(reports: &[SimReport]) {
    for report in reports {
        let what = report.row();
        assert_eq!(report.run.events.complete, report.run.events.triggered, "{what}");
        if report.mode == "none" {
            assert!(report.builder_port_drops > 0, "{what}");
            let collapses = report.transport == Transport::Tcp;
            assert!(!collapses || report.sources < 16 || report.utilisation() < 0.5, "no collapse: {what}");
        } else {
            let idle = (report.builder_port_drops, report.retransmits, report.timeouts);
            assert_eq!(idle, (0, 0, 0), "{what}");
        }
        if report.mode == "credit" {
            assert!(report.utilisation() > 0.94, "{what}");
        }
    }
}

/// Tests the table with one event at a time: every event is a separate burst, as with a readout
/// that waits until the event is built.
#[test]
fn one_event_at_a_time() {
    let (reports, text) = table(Transport::Tcp, 1, 200);
    check(&reports);
    insta::assert_snapshot!("one_slot", text);
}

/// Tests the table with one event at a time over datagrams. The goodput is relative to the payload
/// rate of datagrams.
#[test]
fn one_event_at_a_time_by_datagrams() {
    let (reports, text) = table(Transport::Udp, 1, 200);
    check(&reports);
    insta::assert_snapshot!("one_slot_udp", text);
}

#[test]
fn sixteen_events_at_a_time_by_datagrams() {
    let (reports, text) = table(Transport::Udp, 16, 100);
    check(&reports);
    insta::assert_snapshot!("sixteen_slots_udp", text);
}

/// Tests the table with sixteen events at a time: the port is never idle, unless the senders wait
/// for their retransmission timers.
#[test]
fn sixteen_events_at_a_time() {
    let (reports, text) = table(Transport::Tcp, 16, 100);
    check(&reports);
    insta::assert_snapshot!("sixteen_slots", text);
}

/// Tests small fragments with many slots that become free at once: the announcements that sources
/// then send are not charged, and must fit into the port beside the granted bytes.
#[test]
fn announcements_of_many_small_fragments_do_not_flood_the_port() {
    for (transport, mode, sources, size, slots) in [
        (Transport::Tcp, "credit", 32, 1455, 110),
        (Transport::Tcp, "window", 32, 1455, 110),
        (Transport::Udp, "credit", 32, 1455, 110),
        (Transport::Udp, "window", 32, 1455, 256),
        (Transport::Tcp, "credit", 64, 700, 256),
        (Transport::Udp, "credit", 64, 1455, 110),
        // In the following cases, announcements take a tenth to a sixth of the wire.
        (Transport::Udp, "credit", 64, 200, 256),
        (Transport::Tcp, "credit", 64, 200, 256),
        (Transport::Udp, "credit", 32, 100, 256),
        (Transport::Tcp, "credit", 32, 100, 256),
    ] {
        let (shaping, events) = (shaping(transport, mode, sources), (1_500_000 / size).min(4000));
        let mut scenario = Scenario { sources, transport, shaping, slots, events, ..Scenario::default() };
        scenario.readout.size = FragmentSize::Fixed(Bytes::new(size));
        let report = scenario.run().expect("a run that holds");
        let what = report.row();
        assert_eq!((report.run.events.complete, report.builder_port_drops), (events, 0), "{what}");
        // Each fragment also takes a record header (16) and an announcement with its part of the
        // packet headers (26).
        let possible = size as f64 / (size as f64 + 16.0 + 26.0);
        assert!(report.utilisation() > 0.95 * possible, "{what}");
    }
}

/// Tests a slow port, in which packets wait for a long time: announcements wait longer too, and
/// must not be repeated only because the port is full.
#[test]
fn announcements_do_not_flood_a_slow_port() {
    for (transport, mode, (sources, builders), mbit, kib, slots) in [
        (Transport::Udp, "credit", (32, 1), 100, 128, 113),
        (Transport::Tcp, "credit", (32, 1), 100, 128, 113),
        (Transport::Udp, "window", (32, 1), 10, 128, 64),
        (Transport::Udp, "credit", (22, 5), 25, 160, 64),
        (Transport::Udp, "window", (22, 5), 25, 160, 64),
        (Transport::Tcp, "window", (22, 5), 25, 160, 64),
    ] {
        let (port, link) = (Bytes::kib(kib), Rate::from_bits_per_second(mbit * 1_000_000));
        let cost = PacketCost::of(transport, 1500, CELL);
        let shaping = match mode {
            "credit" => Shaping::credit_for(port, None, u64::from(sources), &cost),
            _ => Shaping::Window { window: cost.window(port * 9 / 10 / u64::from(sources)) },
        };
        let events = 4 * u64::from(slots) * u64::from(builders);
        let mut scenario =
            Scenario { sources, builders, transport, shaping, slots, events, ..Scenario::default() };
        (scenario.network.port_buffer, scenario.network.link_rate) = (port, link);
        scenario.readout.size = FragmentSize::Fixed(Bytes::new(1455));
        let report = scenario.run().expect("a run that holds");
        let what = report.row();
        let dropped = report.builder_port_drops + report.retransmits;
        assert_eq!((report.run.events.complete, dropped), (events, 0), "{what}");
        assert!(report.utilisation() > 0.85, "{what}");
    }
}

/// Checks that all assigned events are announced before their deadline, although the wire needs
/// twice this time to carry all events that are assigned at once.
fn no_announcement_of_many_misses_the_deadline(transport: Transport) {
    let (shaping, events) = (shaping(transport, "credit", 32), 1500);
    let deadline = Duration::from_millis(250);
    let mut scenario =
        Scenario { sources: 32, transport, shaping, slots: 1500, events, deadline, ..Scenario::default() };
    scenario.readout.size = FragmentSize::Fixed(Bytes::new(1455));
    let report = scenario.run().expect("a run that holds");
    assert_eq!(report.run.events.complete, events, "{report}");
}

#[test]
fn however_many_slots_there_are_no_announcement_misses_the_deadline() {
    no_announcement_of_many_misses_the_deadline(Transport::Tcp);
}

#[test]
fn however_many_slots_there_are_no_announcement_by_datagrams_misses_the_deadline() {
    no_announcement_of_many_misses_the_deadline(Transport::Udp);
}

/// Checks that equal seeds give equal reports, which do not depend on addresses, threads or the
/// time of day.
#[test]
fn a_run_is_repeatable() {
    for transport in [Transport::Tcp, Transport::Udp] {
        for mode in ["credit", "none"] {
            let run = || run(transport, 8, mode, 4, 50);
            assert_eq!(run(), run());
        }
    }
}

/// Checks that at 75 % load with credit, building an event takes hardly longer than its bytes take
/// on the wire.
#[test]
fn below_capacity_an_event_takes_its_time_on_the_wire() {
    let mut scenario =
        Scenario { shaping: shaping(Transport::Tcp, "credit", 8), events: 500, ..Scenario::default() };
    scenario.trigger = scenario.periodic_at_load(0.75).unwrap();
    let report = scenario.run().unwrap();
    let on_the_wire = Bytes::new(8 * 64_000) / scenario.capacity();
    assert_eq!((report.builder_port_drops, report.run.events.complete), (0, 500));
    assert!(report.latency_p50 < on_the_wire.mul_f64(1.1), "{report}\n{on_the_wire:?}");
    assert!(report.latency_p99 < on_the_wire.mul_f64(1.5), "{report}\n{on_the_wire:?}");
}

/// Checks that the budget counts whole frames. The port's buffer is larger than the budget only by
/// the size of acknowledgements and announcements. The port must never overflow, although sources
/// are ten times as fast as the port and deliver all granted bytes at once.
#[test]
fn the_budget_counts_headers() {
    let budget = Bytes::new(100_000);
    for sources in [8, 32] {
        let mut scenario = Scenario { sources, events: 50, ..Scenario::default() };
        scenario.shaping =
            Shaping::Credit { budget, groups: Vec::new(), chunk: Bytes::new(8192), sources_at_once: None };
        scenario.network.host_rate = Rate::from_bits_per_second(10 * LINK);
        scenario.network.port_buffer = budget + Bytes::new(2500);
        let report = scenario.run().unwrap();
        assert_eq!((report.builder_port_drops, report.retransmits), (0, 0), "{report}");
        assert!(report.builder_port_peak > Bytes::new(90_000), "the port was hardly used: {report}");
    }
}
