//! Loss at full speed: what it costs lanes over datagrams, beside the same lanes over (simulated) TCP.
//! `cargo test -p evb-sim --test recovery -- --nocapture` prints the tables.

use core::time::Duration;

use evb_core::units::Bytes;
use evb_shaper::Shaping;
use evb_sim::{FragmentSize, NetworkModel, Readout, Scenario, SimReport, Transport};

/// 8 sources with 64 kB each on one builder at 1 Gbit/s.
fn run(transport: Transport, loss: f64, size: u64, events: u64) -> SimReport {
    let network = NetworkModel { loss, spare_supervisor: true, ..NetworkModel::default() };
    let readout = Readout { size: FragmentSize::Fixed(Bytes::new(size)), ..Scenario::default().readout };
    let shaping = Shaping::credit_for(network.port_buffer, &transport.cost(network.mtu));
    let slots = (1_000_000 / size).clamp(16, 400) as u32;
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

#[test]
fn goodput_and_latency_under_loss() {
    for (size, events) in [(64_000, 400), (1455, 8000)] {
        println!("{size} B\n{HEADER}");
        for transport in [Transport::Udp, Transport::Tcp] {
            for loss in [0.0, 0.001, 0.01, 0.05] {
                println!("{}", row(loss, &run(transport, loss, size, events)));
            }
        }
    }
}
