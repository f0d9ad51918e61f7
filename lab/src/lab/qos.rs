//! Quality of service as Yasu et al. studied it at KEK: 1×1, 1×3 and 3×1 systems, a rate for every
//! destination, from 10 Mbit/s to 95 % of the link, kept by evb itself and by token buckets that
//! `evbd provision` installs in the kernel. Rates are of L2 frames, as tc counts them, taken from
//! the network's own counters and not from evb's.

use std::time::Instant;

use anyhow::{Context as _, Result};

use super::{
    bench::Bench,
    fleet::Fleet,
    network::{Network, Shape},
    outcome::{Outcome, median},
    provisioned::Provisioned,
    report::{Bound, Report},
    system::{Mode, System, Trigger},
};

const FRAGMENT: u64 = 64_000;
const LINK: u64 = 1_000_000_000;
/// Time that a lane's outstanding data lasts, in seconds, so that it does not run empty while a
/// busy host sleeps.
const AHEAD: f64 = 0.05;
/// Longest time that a lane's data may wait in the kernel, in seconds: less than an event's
/// deadline, with the announcements behind it.
const PATIENCE: f64 = 1.2;
/// Largest share of the link that all rates together may take.
const FULL: f64 = 0.95;
/// Largest relative error of a rate.
const TOLERANCE: f64 = 0.01;
/// Rates for each destination, if the link carries them.
const RATES: [u64; 4] = [10_000_000, 30_000_000, 100_000_000, 300_000_000];
/// Rates that differ: none may take from another.
const UNEQUAL: [u64; 3] = [10_000_000, 100_000_000, 500_000_000];
/// Time that a run needs to fill its queues, and time before its end at which the last sample is
/// taken, in seconds.
const SETTLED: f64 = 1.5;
const BEFORE_END: f64 = 0.3;

fn shape(sources: u16, builders: u16) -> Shape {
    Shape { sources, builders, rate: LINK, port_buffer: 128 * 1024, ..Shape::PLAIN }
}

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("qos");
    for (sources, builders) in [(1, 1), (1, 3), (3, 1)] {
        let shape = shape(sources, builders);
        let network = Network::up(shape)?;
        for offload in ["software", "tbf"] {
            for rates in rates(shape) {
                case(bench, &network, &mut report, offload, &rates)?;
            }
        }
        cpu(bench, &network, &mut report)?;
    }
    Ok(report)
}

/// Returns the sets of rates to test.
fn rates(shape: Shape) -> Vec<Vec<u64>> {
    let lanes = u64::from(shape.sources.max(shape.builders));
    let full = (LINK as f64 * FULL) as u64 / lanes;
    let each = |rate| vec![rate; usize::from(shape.builders)];
    let mut all: Vec<Vec<u64>> = RATES.iter().filter(|rate| **rate < full).map(|rate| each(*rate)).collect();
    all.push(each(full));
    if shape.builders == 3 {
        all.push(UNEQUAL.to_vec());
    }
    all
}

/// Returns the number of slots: few enough that no event waits for its deadline, and enough for the
/// fastest lane.
fn slots(rates: &[u64]) -> u32 {
    let fastest = rates.iter().max().copied().unwrap_or_default() as f64;
    let slowest = rates.iter().min().copied().unwrap_or_default() as f64;
    let fragments = |rate: f64, seconds: f64| (rate * seconds / 8.0 / FRAGMENT as f64) as u32;
    fragments(fastest, AHEAD).min(fragments(slowest, PATIENCE)).clamp(8, 128)
}

fn name(shape: Shape, offload: &str, rates: &[u64]) -> String {
    let mut mbit: Vec<String> = rates.iter().map(|rate| (rate / 1_000_000).to_string()).collect();
    mbit.dedup();
    format!("{}x{} {offload} {}", shape.sources, shape.builders, mbit.join("-"))
}

/// Runs one set of rates by one means, `runs` times, and judges the median of each destination's
/// rate.
fn case(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    offload: &'static str,
    rates: &[u64],
) -> Result<()> {
    let shape = network.shape();
    let name = name(shape, offload, rates);
    if !bench.wants(&name) {
        return Ok(());
    }
    let system = System::new(Mode::None, FRAGMENT).slots(slots(rates)).rates(rates, offload).warn();
    let provisioned = match offload {
        "tbf" => Some(Provisioned::apply(network, bench, &system)?),
        _ => None,
    };
    let mut measured: Vec<Vec<f64>> = Vec::new();
    let mut drops = 0;
    for run in 1..=bench.runs {
        let (outcome, got) = measure(bench, network, &format!("{name} run {run}"), system.clone())?;
        report.add(&outcome);
        // Rates are judged here. At 95 % of a port late lanes catch up together, and a few packets
        // may be dropped, which is only noted.
        report.yes(&format!("{}: every event complete", outcome.name), outcome.is_complete());
        drops += outcome.drops();
        measured.push(got);
    }
    drop(provisioned);
    report.note(format!("{name}: {drops} packets dropped in all runs"));
    for (place, asked) in asked(shape, rates).into_iter().enumerate() {
        let got = median(measured.iter().map(|run| run.get(place).copied().unwrap_or(f64::NAN)));
        let off = got / asked as f64 - 1.0;
        report.note(format!(
            "{name}, {} {}: asked {:.3}, got {:.3} Mbit/s, {:+.3} %",
            if shape.builders > 1 { "to builder" } else { "from source" },
            place + 1,
            asked as f64 / 1e6,
            got / 1e6,
            off * 100.0,
        ));
        report.holds(&format!("{name}, lane {}: off by", place + 1), off.abs(), Bound::AtMost(TOLERANCE));
    }
    Ok(())
}

/// Returns the lanes' requested rates, by builder, or by source if there is one builder.
fn asked(shape: Shape, rates: &[u64]) -> Vec<u64> {
    if shape.builders > 1 { rates.to_vec() } else { vec![rates[0]; usize::from(shape.sources)] }
}

/// Runs a system, and returns the rate of every lane in bit/s, between two samples of the network's
/// counters.
fn measure(bench: &Bench, network: &Network, name: &str, system: System) -> Result<(Outcome, Vec<f64>)> {
    let mut samples: Vec<(Instant, Vec<u64>)> = Vec::new();
    let due = [SETTLED, bench.seconds - BEFORE_END];
    let look = |fleet: &mut Fleet| -> Result<()> {
        if due.get(samples.len()).is_some_and(|due| fleet.elapsed().as_secs_f64() >= *due) {
            let before = Instant::now();
            let bytes = network.lane_bytes()?;
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

/// Measures the cost of pacing: the same events, paced and not.
fn cpu(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    let shape = network.shape();
    let name = format!("{}x{} cpu", shape.sources, shape.builders);
    if !bench.wants(&name) {
        return Ok(());
    }
    let lanes = u64::from(shape.sources.max(shape.builders));
    let rate = LINK / 2 / lanes;
    let paced = vec![rate; usize::from(shape.builders)];
    // The rate is a little less than the pace carries, so that both build the same events.
    let events = 0.95 * rate as f64 * f64::from(shape.builders)
        / (System::new(Mode::None, FRAGMENT).wire_time(shape) * shape.rate as f64 / f64::from(shape.sources));
    let at = || System::new(Mode::None, FRAGMENT).trigger(Trigger::Periodic(events)).warn();
    let unshaped = bench.run(network, &format!("{name} unshaped"), at())?;
    report.add(&unshaped);
    let shaped = bench.run(network, &format!("{name} software"), at().rates(&paced, "software"))?;
    report.add(&shaped);
    let per_event = |outcome: &Outcome| outcome.cpu_s / outcome.number("events.assigned") * 1e6;
    let (without, with) = (per_event(&unshaped), per_event(&shaped));
    report.note(format!(
        "{name}: {without:.0} µs of CPU per event unshaped, {with:.0} µs paced to {:.0} Mbit/s a lane ({:+.0} %), all roles",
        rate as f64 / 1e6,
        (with / without - 1.0) * 100.0,
    ));
    Ok(())
}

impl Network {
    /// Returns the L2 bytes so far of every lane: towards each builder, or from each source if
    /// there is one builder.
    fn lane_bytes(&self) -> Result<Vec<u64>> {
        let shape = self.shape();
        if shape.builders > 1 {
            let ports = self.ports()?;
            let of = |j: u16| ports.get(&format!("b{j}")).map(|port| port.bytes).context("no such port");
            return (1..=shape.builders).map(of).collect();
        }
        (1..=shape.sources).map(|i| self.sent_bytes(&format!("s{i}"))).collect()
    }
}

#[cfg(test)]
mod tests;
