//! Tests the cost of random losses at full speed for lanes over datagrams, in comparison with lanes
//! over (simulated) TCP. `cargo test -p evb-sim --test recovery -- --nocapture` prints the tables.

use core::time::Duration;

use evb_core::units::Bytes;
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
};
use evb_sim::{FragmentSize, NetworkModel, Readout, Scenario, SimReport, Transport};

/// Runs 8 sources that send fragments of `size` to one builder at 1 Gbit/s.
fn run(transport: Transport, loss: f64, size: u64, events: u64) -> SimReport {
    let network = NetworkModel { loss, spare_supervisor: true, ..NetworkModel::default() };
    let readout = Readout { size: FragmentSize::Fixed(Bytes::new(size)), ..Scenario::default().readout };
    let shaping =
        Shaping::credit_for(network.port_buffer, None, 8, &PacketCost::of(transport, network.mtu, CELL));
    let slots = (150_000 / size).clamp(16, 400) as u32;
    let scenario = Scenario { transport, network, readout, shaping, events, slots, ..Scenario::default() };
    let report = scenario.run().expect("a run that holds");
    assert_eq!(report.run.events.complete, events, "{report}");
    report
}

fn row(loss: f64, report: &SimReport) -> String {
    let (events, datagrams) = (&report.run.events, &report.datagrams);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!(
        "{:<4} {:>5.1} {:>15.1} {:>9.3} {:>9.3} {:>9.3} {:>6} {:>6} {:>8} {:>9} {:>9.3} {:>9.3} {:>9.3}  {} of {}",
        report.transport.word(),
        loss * 100.0,
        report.goodput.bits_per_second() as f64 / 1e6,
        ms(report.latency_p50),
        ms(report.latency_p99),
        ms(report.latency_max),
        report.lost_frames,
        report.retransmits,
        report.timeouts,
        datagrams.recovery.late_after_loss,
        ms(datagrams.recovery_p50),
        ms(datagrams.recovery_p99),
        ms(datagrams.recovery_max),
        events.complete,
        events.triggered,
    )
}

const HEADER: &str = "      loss  goodput Mbit/s    p50 ms    p99 ms    max ms   lost resent timeouts too early  healed50  healed99   max ms  complete";

/// Returns the round-trip time through the idle network, with full packets and the longest wake-up
/// delays.
fn round_trip() -> Duration {
    let NetworkModel { hosts, latency, link_rate, .. } = NetworkModel::default();
    (latency * 2 + Bytes::new(1538) / link_rate * 2 + hosts.source.wake_up.most()) * 2
}

/// Returns the goodput under 0.1, 1 and 5 % of loss, as fractions of the goodput without loss.
fn shares(transport: Transport, size: u64, events: u64) -> Vec<(f64, SimReport)> {
    let reports = [0.0, 0.001, 0.01, 0.05].map(|loss| {
        let report = run(transport, loss, size, events);
        println!("{}", row(loss, &report));
        report
    });
    let goodput = |report: &SimReport| report.goodput.bits_per_second() as f64;
    let whole = goodput(&reports[0]);
    reports.into_iter().map(|report| (goodput(&report) / whole, report)).collect()
}

fn check(size: u64, events: u64) {
    println!("{size} B, round trip {:?}\n{HEADER}", round_trip());
    let datagrams = shares(Transport::Udp, size, events);
    let streams = shares(Transport::Tcp, size, events);
    let calm = &datagrams[0].1;
    assert_eq!((calm.builder_port_drops, calm.retransmits, calm.timeouts), (0, 0, 0), "{calm}");
    for ((kept, report), (kept_by_streams, _)) in datagrams.iter().zip(&streams).skip(1) {
        assert!(
            *kept >= 0.8 && kept > kept_by_streams,
            "share of goodput kept: {kept} by datagrams, {kept_by_streams} by streams"
        );
        assert!(report.datagrams.recovered > 50, "{report}");
        let bound = round_trip() * 3 + Duration::from_millis(2);
        assert!(report.datagrams.recovery_p50 < bound, "{report}\n{bound:?}");
        assert!(report.datagrams.recovery_p99 < Duration::from_millis(10), "{report}");
        // Of the ranges that were requested again, less than one in two hundred was declared lost
        // by mistake.
        let counters = report.datagrams.recovery;
        assert!(counters.late_after_loss * 200 <= counters.resends, "{report}");
    }
}

#[test]
fn loss_at_full_speed() {
    check(64_000, 400);
}

#[test]
fn loss_of_small_fragments() {
    check(1455, 8000);
}
