//! Quality of service as Yasu et al. studied it at KEK: systems of 1×1, 1×3 and 3×1 with a rate
//! limit for every destination, from 10 Mbit/s to 95 % of the link. Either evb itself or token
//! buckets that `evbd provision` installs in the kernel enforce the limits: the ceilings of HTB
//! classes (`htb`), or `tbf` within such classes, as in the study. Rates are measured in L2 frames
//! by the counters of the network, not by those of evb.

mod lanes;
mod mechanism;
mod table;
mod unshaped;

use anyhow::Result;
use clap::Args;
use lab_base::{
    bench::Bench,
    network::{Network, Shape},
    report::{Bound, Report},
    system::{Mode, System},
};

use self::{lanes::measure, mechanism::Mechanism, table::Row};
use super::provisioned::{Bucket, Provisioned};

const FRAGMENT: u64 = 64_000;
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
/// Rates to test, each applied to all destinations if the link can carry the sum, in Mbit/s: those
/// of the study.
const RATES: [u64; 4] = [10, 30, 100, 300];
/// Different rates of three destinations, in thousandths of the link's rate but at least the
/// smallest of `RATES`, to check that lanes do not affect each other.
const UNEQUAL: [u64; 3] = [10, 100, 500];

#[derive(Args)]
pub struct QosArgs {
    /// Token buckets of the kernel to test, besides evb's own timers.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Bucket::Htb, Bucket::Tbf])]
    bucket: Vec<Bucket>,
    /// Rate of every port, in Mbit/s. A lower rate shows the same behaviour, if two cores cannot
    /// carry 1000 Mbit/s.
    #[arg(long, default_value_t = 1000)]
    mbit: u64,
    /// Test only the highest rate of each system, and unequal rates.
    #[arg(long)]
    short: bool,
}

fn shape(sources: u16, builders: u16, mbit: u64) -> Shape {
    Shape { sources, builders, rate: mbit * 1_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN }
}

pub fn run(bench: &Bench, args: &QosArgs) -> Result<Report> {
    let mut report = Report::new("qos");
    let mechanisms = Mechanism::with(&args.bucket);
    let (mut rows, mut baselines, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for (sources, builders) in [(1, 1), (1, 3), (3, 1)] {
        let network = Network::up(shape(sources, builders, args.mbit))?;
        baselines.extend(unshaped::baseline(bench, &network, &mut report)?);
        for mechanism in &mechanisms {
            for rates in rates(network.shape(), args.short) {
                rows.extend(case(bench, &network, &mut report, *mechanism, &rates)?);
            }
        }
        costs.extend(unshaped::cost(bench, &network, &mut report, &mechanisms)?);
    }
    report.attach("unshaped", baselines.into());
    report.attach("processor", costs.into());
    table::publish(&rows, &bench.out, &mut report)?;
    Ok(report)
}

/// Returns the sets of rates to test, with one rate for each builder.
fn rates(shape: Shape, is_short: bool) -> Vec<Vec<u64>> {
    let lanes = u64::from(shape.sources.max(shape.builders));
    let full = (shape.rate as f64 * FULL) as u64 / lanes;
    let part = |thousandths: &u64| (shape.rate / 1000 * thousandths).max(RATES[0] * 1_000_000);
    let each = |rate| vec![rate; usize::from(shape.builders)];
    let lower = RATES.iter().map(|mbit| mbit * 1_000_000).filter(|rate| *rate < full && !is_short);
    let mut all: Vec<Vec<u64>> = lower.map(each).collect();
    all.push(each(full));
    if shape.builders == 3 {
        all.push(UNEQUAL.iter().map(part).collect());
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

fn name(shape: Shape, mechanism: Mechanism, rates: &[u64]) -> String {
    let mut mbit: Vec<String> = rates.iter().map(|rate| (rate / 1_000_000).to_string()).collect();
    mbit.dedup();
    format!("{}x{} {} {}", shape.sources, shape.builders, mechanism.name(), mbit.join("-"))
}

/// Runs a system with these rates `bench.runs` times, and checks the median rate of each lane.
/// Returns a row of the table for each lane.
fn case(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    mechanism: Mechanism,
    rates: &[u64],
) -> Result<Vec<Row>> {
    let shape = network.shape();
    let name = name(shape, mechanism, rates);
    if !bench.wants(&name) {
        return Ok(Vec::new());
    }
    let system =
        System::new(Mode::None, FRAGMENT).slots(slots(rates)).rates(rates, mechanism.offload()).warn();
    let provisioned = match mechanism {
        Mechanism::Kernel(bucket) => Some(Provisioned::apply(network, bench, &system, bucket)?),
        Mechanism::Software => None,
    };
    let mut measured: Vec<Vec<f64>> = Vec::new();
    let mut drops = 0;
    for run in 1..=bench.runs.max(1) {
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
    let row = |(place, asked)| Row {
        system: format!("{}x{}", shape.sources, shape.builders),
        mechanism,
        lane: place + 1,
        asked,
        got: measured.iter().map(|run| run.get(place).copied().unwrap_or(f64::NAN)).collect(),
    };
    let rows: Vec<Row> = asked(shape, rates).into_iter().enumerate().map(row).collect();
    for row in &rows {
        report.note(format!(
            "{name}, {} {}: asked {:.3}, got {:.3} Mbit/s, {:+.3} %",
            if shape.builders > 1 { "to builder" } else { "from source" },
            row.lane,
            row.asked as f64 / 1e6,
            row.median() / 1e6,
            row.off() * 100.0,
        ));
        report.noisy(
            &format!("{name}, lane {}: off by", row.lane),
            row.off().abs(),
            Bound::AtMost(TOLERANCE),
        );
    }
    Ok(rows)
}

/// Returns the requested rates of the lanes, by builder, or by source if there is only one builder.
fn asked(shape: Shape, rates: &[u64]) -> Vec<u64> {
    if shape.builders > 1 { rates.to_vec() } else { vec![rates[0]; usize::from(shape.sources)] }
}

#[cfg(test)]
mod tests;
