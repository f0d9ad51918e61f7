//! Tests a path with a long delay: a round trip of 198 ms, as from Tokyo to Maryland and back, at
//! 20 Mbit/s, with a credit budget of the bytes that are then under way. `cargo test -p evb-sim
//! --test pipe -- --nocapture` prints the table.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
};
use evb_sim::{NetworkModel, Scenario, SimReport, Transport};

const ROUND_TRIP: Duration = Duration::from_millis(198);
const RATE: Rate = Rate::from_bits_per_second(20_000_000);

fn run(transport: Transport, weather: NetworkModel) -> SimReport {
    let budget = Bytes::new((RATE.bytes_per_second() * ROUND_TRIP.as_secs_f64()) as u64);
    let network = NetworkModel {
        link_rate: RATE,
        latency: ROUND_TRIP / 4,
        port_buffer: budget * 10 / 9,
        spare_supervisor: true,
        ..weather
    };
    let shaping =
        Shaping::credit_for(network.port_buffer, None, 8, &PacketCost::of(transport, network.mtu, CELL));
    let scenario = Scenario { transport, network, shaping, events: 80, ..Scenario::default() };
    let report = scenario.run().expect("a run that holds");
    assert_eq!(report.run.events.complete, 80, "{report}");
    report
}

/// Prints a row of the table, and returns the goodput as a fraction of the capacity.
fn utilisation(what: &str, report: &SimReport) -> f64 {
    let recovery = &report.datagrams;
    println!(
        "{what:<28} {:<4} {:>10.2} {:>7.1}% {:>7} {:>6} {:>8} {:>9} {:>10.1} {:>10.1} {:>10.1}",
        report.transport.word(),
        report.goodput.bits_per_second() as f64 / 1e6,
        report.utilisation() * 100.0,
        report.lost_frames,
        report.retransmits,
        report.timeouts,
        recovery.recovery.late_after_loss,
        recovery.recovery_p50.as_secs_f64() * 1e3,
        recovery.recovery_p99.as_secs_f64() * 1e3,
        report.latency_p99.as_secs_f64() * 1e3,
    );
    report.utilisation()
}

#[test]
fn the_pipe_is_full_and_everything_arrives() {
    println!(
        "network                           Mbit/s  of wire    lost resent timeouts too early  healed50   healed99  event p99"
    );
    let calm = NetworkModel::default();
    let lossy = NetworkModel { loss: 0.01, ..calm.clone() };
    let jittery = NetworkModel {
        loss: 0.001,
        duplication: 0.01,
        reordering: 0.05,
        reordering_delay: Duration::from_millis(20),
        corruption: 0.001,
        ..calm.clone()
    };
    for (what, weather, least) in
        [("calm", calm, 0.9), ("1 % loss", lossy, 0.7), ("loss, copies, 20 ms, damage", jittery, 0.7)]
    {
        let report = run(Transport::Udp, weather.clone());
        let used = utilisation(what, &report);
        assert!(used > least, "{report}");
        if weather == NetworkModel::default() {
            let again = (report.builder_port_drops, report.retransmits, report.timeouts);
            assert_eq!(again, (0, 0, 0), "{report}");
        }
        utilisation(what, &run(Transport::Tcp, weather));
    }
}
