//! `evb-bench memory`: measures the memory bandwidth of this host, and the part of it that is lost
//! beside a shaper that wakes up many times a second.
//!
//! The benchmark follows two studies of Yasu et al.: the KEK study of quality of service measured
//! copies, because an event builder copies every byte several times, and the study for ATLAS
//! measured the bandwidth that 1500 instead of 100 timer interrupts per second take from copies.

mod shaper;
mod point;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, thread, time::Duration};

use evb_core::units::{Bytes, Frequency, parse_duration};
use evb_host::{
    bandwidth::{Arrays, Kernel},
    cores,
};
use evb_net::host;

pub use point::{MemoryLoss, MemoryPoint, MemoryTable};

use crate::{
    interval::Interval,
    output::{self, BenchError, OutputArguments, failed},
};

/// Arguments of `evb-bench memory`.
#[derive(clap::Args, Clone, Debug)]
pub struct MemoryArguments {
    /// Sizes of each array: a copy has two arrays, a triad three.
    #[arg(long, value_delimiter = ',', default_value = "4 MB,8 MB,16 MB,32 MB")]
    sizes: Vec<Bytes>,
    /// Frequencies at which the shaper wakes up.
    #[arg(long, value_delimiter = ',', default_value = "100 Hz,1500 Hz,10 kHz")]
    wakes: Vec<Frequency>,
    /// Number of pairs of rounds, of which one is idle and one beside the shaper.
    #[arg(long, default_value_t = 30)]
    pairs: u32,
    /// Duration of a round.
    #[arg(long, default_value = "100 ms", value_parser = parse_duration)]
    round: Duration,
    /// Probability that a stated interval contains the mean (Student's t).
    #[arg(long, default_value_t = 0.95)]
    confidence: f64,
    /// Core that the copies and the shaper share; by default, the first that this process may use.
    #[arg(long)]
    core: Option<usize>,
    #[command(flatten)]
    output: OutputArguments,
}

/// Largest array.
const LARGEST: Bytes = Bytes::mib(1024);
/// Smallest array: smaller ones stay in the caches of every processor.
const SMALLEST: Bytes = Bytes::kib(64);
/// Largest frequency of wake-ups, in hertz.
const MOST_WAKES: f64 = 100_000.0;

/// Runs the benchmark and publishes its results.
pub(super) fn main(arguments: &MemoryArguments) -> ExitCode {
    let published = measure(arguments)
        .and_then(|table| arguments.output.publish(&table, &table.text(), || table.figure().svg()));
    match published {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

/// Measures in a thread of its own, because the thread is pinned to a core.
fn measure(arguments: &MemoryArguments) -> Result<MemoryTable, BenchError> {
    check(arguments)?;
    let allowed = || cores::cores().allowed.ok()?.into_iter().next();
    let core = arguments.core.or_else(allowed).unwrap_or(0);
    thread::scope(|scope| scope.spawn(|| course(arguments, core)).join()).unwrap_or_else(|_| {
        Err(BenchError::Operator(
            "the measuring thread crashed: report this fault of evb-bench with the lines above".to_owned(),
        ))
    })
}

fn course(arguments: &MemoryArguments, core: usize) -> Result<MemoryTable, BenchError> {
    host::pin_to_core(core).map_err(|error| {
        BenchError::Operator(format!("cannot run on core {core}: {error}; choose another --core"))
    })?;
    let bar = output::spinner();
    let mut table = MemoryTable::new(arguments.pairs, arguments.round, arguments.confidence, core);
    for size in &arguments.sizes {
        let mut arrays = Arrays::new(*size);
        for kernel in [Kernel::Copy, Kernel::Triad] {
            let mut idle = Vec::new();
            let mut losses = Vec::new();
            for rate in &arguments.wakes {
                bar.set_message(format!("{kernel} of {size} beside a shaper that wakes up at {rate}"));
                losses.push(beside(arguments, core, (kernel, &mut arrays), *rate, &mut idle)?);
            }
            if arguments.wakes.is_empty() {
                idle.extend((0..arguments.pairs).map(|_| arrays.bandwidth(kernel, arguments.round)));
            }
            let idle = Interval::of(&idle, arguments.confidence);
            table.points.push(MemoryPoint::new(kernel, *size, idle, losses));
        }
    }
    bar.finish_and_clear();
    Ok(table)
}

/// Measures pairs of rounds, idle and beside a shaper. The order within a pair alternates, so that
/// a slow change of the machine's speed does not count as a loss.
fn beside(
    arguments: &MemoryArguments,
    core: usize,
    (kernel, arrays): (Kernel, &mut Arrays),
    rate: Frequency,
    idle: &mut Vec<f64>,
) -> Result<MemoryLoss, BenchError> {
    let mut losses = Vec::new();
    let (mut wakes, mut time, mut bandwidth) = (0, Duration::ZERO, 0.0);
    for pair in 0..arguments.pairs {
        let mut alone = None;
        if pair % 2 == 0 {
            alone = Some(arrays.bandwidth(kernel, arguments.round));
        }
        let shaped = shaper::beside(rate, core, || arrays.bandwidth(kernel, arguments.round))
            .map_err(BenchError::system("the shaper's thread"))?;
        let alone = alone.unwrap_or_else(|| arrays.bandwidth(kernel, arguments.round));
        losses.push(1.0 - shaped.result / alone);
        idle.push(alone);
        (wakes, time) = (wakes + shaped.wakes, time + shaped.time);
        bandwidth += shaped.result;
    }
    Ok(MemoryLoss {
        asked_wakes_per_s: rate.hertz(),
        wakes_per_s: wakes as f64 / time.as_secs_f64(),
        bytes_per_s: bandwidth / f64::from(arguments.pairs),
        loss: Interval::of(&losses, arguments.confidence),
    })
}

fn check(arguments: &MemoryArguments) -> Result<(), BenchError> {
    let refuse = |reason: String| Err(BenchError::Operator(reason));
    if let Some(size) = arguments.sizes.iter().find(|size| !(SMALLEST..=LARGEST).contains(*size)) {
        return refuse(format!("--sizes are {SMALLEST} to {LARGEST}, not {size}"));
    }
    if let Some(rate) = arguments.wakes.iter().find(|rate| !(1.0..=MOST_WAKES).contains(&rate.hertz())) {
        return refuse(format!("--wakes are 1 Hz to {} kHz, not {rate}", MOST_WAKES / 1e3));
    }
    if !(2..=10_000).contains(&arguments.pairs) {
        return refuse(format!("--pairs is 2 to 10000, not {}", arguments.pairs));
    }
    if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&arguments.round) {
        return refuse(format!("--round is 1 ms to 1 min, not {:?}", arguments.round));
    }
    if !(arguments.confidence > 0.0 && arguments.confidence < 1.0) {
        return refuse(format!("--confidence is above 0 and below 1, not {}", arguments.confidence));
    }
    Ok(())
}
