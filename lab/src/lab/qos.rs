//! Quality of service as Yasu et al. studied it at KEK: systems of 1×1, 1×3 and 3×1 with a rate
//! limit for every destination, from 10 Mbit/s to 95 % of the link. Either evb itself or token
//! buckets that `evbd provision` installs in the kernel enforce the limits. Rates are measured in
//! L2 frames by the counters of the network, not by those of evb.

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
/// Amount of outstanding data of a lane, as its sending time in seconds, so that the lane does not
/// run empty while a busy host delays the process.
const AHEAD: f64 = 0.05;
/// Longest time that a lane's data may wait in the kernel, in seconds. Announcements wait behind
/// the data, so this time must be less than an event's deadline.
const PATIENCE: f64 = 1.2;
/// Largest sum of all rates, as a share of the link's rate.
const FULL: f64 = 0.95;
/// Largest allowed relative error of a rate.
const TOLERANCE: f64 = 0.01;
/// Rates to test, each applied to all destinations if the link can carry the sum, in bit/s.
const RATES: [u64; 4] = [10_000_000, 30_000_000, 100_000_000, 300_000_000];
/// Different rates of three destinations, in bit/s, to check that lanes do not affect each other.
const UNEQUAL: [u64; 3] = [10_000_000, 100_000_000, 500_000_000];
/// Time from the start of a run to the first sample, in which queues fill up, in seconds;
/// `BEFORE_END` is the time from the last sample to the end.
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

/// Returns the sets of rates to test, with one rate for each builder.
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

/// Returns the number of slots: enough for the fastest lane, but so few that no event of the
/// slowest lane misses its deadline.
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

/// Runs a system with these rates `bench.runs` times, enforced by evb (`software`) or the kernel
/// (`tbf`), and checks the median rate of each lane.
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
        // Drops are only noted, because at 95 % of the port's rate, delayed lanes catch up at the
        // same time and may overflow the port.
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

/// Returns the requested rates of the lanes, by builder, or by source if there is only one builder.
fn asked(shape: Shape, rates: &[u64]) -> Vec<u64> {
    if shape.builders > 1 { rates.to_vec() } else { vec![rates[0]; usize::from(shape.sources)] }
}

/// Runs a system, and returns the rate of every lane in bit/s, from two samples of the network's
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

/// Measures the processor time of pacing: runs the same event rate with and without pacing, and
/// notes both times per event.
fn cpu(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    let shape = network.shape();
    let name = format!("{}x{} cpu", shape.sources, shape.builders);
    if !bench.wants(&name) {
        return Ok(());
    }
    let lanes = u64::from(shape.sources.max(shape.builders));
    let rate = LINK / 2 / lanes;
    let paced = vec![rate; usize::from(shape.builders)];
    // The event rate is slightly below the paced rate, so that both runs build the same number of
    // events per second.
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
    /// Returns the number of L2 bytes that every lane has carried so far: to each builder, or from
    /// each source if there is only one builder.
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
