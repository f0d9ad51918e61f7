//! Rates of lanes, by the counters of the network.

use std::time::Instant;

use anyhow::{Context as _, Result};
use lab_base::{bench::Bench, fleet::Fleet, network::Network, outcome::Outcome, system::System};

/// Time from the start of a run to the first sample, in which queues fill up, in seconds;
/// `BEFORE_END` is the time from the last sample to the end.
const SETTLED: f64 = 1.5;
const BEFORE_END: f64 = 0.3;

/// Runs a system, and returns the rate of every lane in bit/s, from two samples of the network's
/// counters.
pub(super) fn measure(
    bench: &Bench,
    network: &Network,
    name: &str,
    system: System,
) -> Result<(Outcome, Vec<f64>)> {
    let mut samples: Vec<(Instant, Vec<u64>)> = Vec::new();
    let due = [SETTLED, bench.seconds - BEFORE_END];
    let look = |fleet: &mut Fleet| -> Result<()> {
        if due.get(samples.len()).is_some_and(|due| fleet.elapsed().as_secs_f64() >= *due) {
            let before = Instant::now();
            let bytes = lane_bytes(network)?;
            samples.push((before + before.elapsed() / 2, bytes));
        }
        Ok(())
    };
    let outcome = bench.run_with(network, name, system, look)?;
    let [(begin, before), (end, after)] = &samples[..] else {
        anyhow::bail!("{name}: the run was too short to be measured; give more --seconds");
    };
    let seconds = end.duration_since(*begin).as_secs_f64();
    let rate = |(before, after): (&u64, &u64)| (after - before) as f64 * 8.0 / seconds;
    Ok((outcome, before.iter().zip(after).map(rate).collect()))
}

/// Returns the number of L2 bytes that every lane has carried so far: to each builder, or from each
/// source if there is only one builder.
fn lane_bytes(network: &Network) -> Result<Vec<u64>> {
    let shape = network.shape();
    if shape.builders > 1 {
        let ports = network.ports()?;
        let of = |j: u16| ports.get(&format!("b{j}")).map(|port| port.bytes).context("no such port");
        return (1..=shape.builders).map(of).collect();
    }
    (1..=shape.sources).map(|i| network.sent_bytes(&format!("s{i}"))).collect()
}
