//! Single packet losses at full speed over UDP: measures the time until the lost bytes have arrived
//! after all.

use anyhow::Result;
use lab_base::{
    bench::Bench,
    network::Network,
    report::{Bound, Report},
    system::{Mode, Transport},
};

use super::incast::{self, FRAGMENT};

/// Share of the packets that are lost, in percent: about forty losses a second, five on each lane,
/// so few that losses do not overlap.
const LOST: f64 = 0.05;
/// Least number of losses that makes a 99th percentile meaningful.
const LOSSES: f64 = 300.0;
/// Largest allowed 99th percentile of the recovery time, in ms.
const P99_MS: f64 = 10.0;

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("recovery");
    let network = Network::up(incast::shape(8))?;
    let name = "8x1 single losses udp";
    network.loss("b1", LOST)?;
    let system = incast::full_speed(Mode::Credit, Transport::Udp, FRAGMENT).checked();
    let outcome = bench.run(&network, name, system)?;
    report.add(&outcome);
    report.clean(&outcome);
    let recovery = |key: &str| outcome.number(&format!("network.datagrams.recovery_us.{key}"));
    let round_trip = outcome.number("network.datagrams.round_trip_us.p50");
    let (p50, p99) = (recovery("p50") / 1e3, recovery("p99") / 1e3);
    report.holds(&format!("{name}: losses measured"), recovery("count"), Bound::AtLeast(LOSSES));
    let limit = 3.0 * round_trip / 1e3 + 2.0;
    report.noisy(&format!("{name}: median, ms, within 3 round trips + 2 ms"), p50, Bound::AtMost(limit));
    report.noisy(&format!("{name}: 99th percentile, ms"), p99, Bound::AtMost(P99_MS));
    report.note(format!(
        "{name}: {:.0} losses, recovered after p50 {p50:.2}, p99 {p99:.2}, at most {:.2} ms; round trip of lanes {:.2} ms",
        recovery("count"),
        recovery("max") / 1e3,
        round_trip / 1e3,
    ));
    Ok(report)
}
