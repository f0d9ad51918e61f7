//! `evb-bench pipe`: one bulk flow over a long fat path, on the simulated network: the study of
//! Hiraki et al.
//!
//! A host whose link is faster than the path sends its whole window at the beginning of each round
//! trip, and overflows the router in front of the slowest link. The benchmark compares it with a
//! host whose link is that slowest link, and with remedies: longer gaps between packets, clustered
//! packet spacing, and evb's paces.

mod cases;
mod outcome;
mod judged;
mod course;
mod text;
mod draw;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, time::Duration};

use evb_core::units::{Bytes, Rate, parse_duration};
use evb_sim::LongPipe;

pub use outcome::{PipePoint, PipeSeries, PipeStudy, Verdict};

use self::cases::Keeper;
use super::output::{BenchError, OutputArguments, failed};

/// Arguments of `evb-bench pipe`.
#[derive(clap::Args, Clone, Debug)]
pub struct PipeArguments {
    /// X, the rate of the path's slowest link, in line bytes.
    #[arg(long, default_value = "599 Mbit/s")]
    bottleneck: Rate,
    /// The time of a round trip through empty queues.
    #[arg(long, default_value = "198 ms", value_parser = parse_duration)]
    rtt: Duration,
    /// The router's buffer in front of the slowest link, in buffer bytes.
    #[arg(long, default_value = "512 KiB")]
    router_buffer: Bytes,
    /// Y, the rate of the fast host's link, above the bottleneck.
    #[arg(long, default_value = "1 Gbit/s")]
    fast_rate: Rate,
    /// The rate of the other host's link, which is itself the bottleneck.
    #[arg(long, default_value = "100 Mbit/s")]
    equal_rate: Rate,
    /// Lengths of the hosts' transmit queues, in packets; 256 packets more wait in the driver.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 25_000])]
    transmit_queues: Vec<usize>,
    /// Gaps that the fast host's interface leaves after each packet beyond the usual one, in bytes.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 128, 256, 512, 768, 1023])]
    gaps: Vec<u64>,
    /// Timer precisions for clustered packet spacing.
    #[arg(long, value_delimiter = ',', default_values = ["1 ms", "10 ms"], value_parser = parse_duration)]
    clusters: Vec<Duration>,
    /// Executors that keep a pace of 95 % of the rate that other traffic leaves free.
    #[arg(long, value_delimiter = ',', default_value = "timerfd,spin,txtime")]
    executors: Vec<Keeper>,
    /// Mean load of the path by bursts of other traffic, in both directions, as a part of X.
    #[arg(long, default_value_t = 0.1)]
    cross_load: f64,
    /// Simulated duration of each run, in seconds; by default 60, and 20 with --quick.
    #[arg(long)]
    seconds: Option<f64>,
    /// Number of runs of each case, with different seeds; by default 15, and 5 with --quick.
    #[arg(long)]
    runs: Option<u64>,
    /// Simulate fewer and shorter runs.
    #[arg(long)]
    quick: bool,
    /// Seed of the first run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArguments,
}

/// Size of the largest IP packet.
const MTU: u32 = 1500;
/// Most memory of a run: the simulated hosts keep all bytes that are under way.
const LARGEST_WINDOW: Bytes = Bytes::mib(256);
/// Range of `--bottleneck`.
const RATES: (Rate, Rate) =
    (Rate::from_bits_per_second(1_000_000), Rate::from_bits_per_second(100_000_000_000));

/// Runs the simulations and publishes their results and verdicts.
pub(super) fn main(arguments: &PipeArguments) -> ExitCode {
    let published = measure(arguments).and_then(|study| {
        arguments.output.publish(&study, &text::text(&study), || draw::figure(&study).svg()).map(|()| study)
    });
    match published {
        Ok(study) if study.verdicts.iter().all(|verdict| verdict.holds) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

fn measure(arguments: &PipeArguments) -> Result<PipeStudy, BenchError> {
    check(arguments).map_err(BenchError::Operator)?;
    Ok(course::study(arguments))
}

impl PipeArguments {
    fn span(&self) -> Duration {
        let usual = if self.quick { 20.0 } else { 60.0 };
        Duration::try_from_secs_f64(self.seconds.unwrap_or(usual)).unwrap_or_default()
    }

    fn runs(&self) -> u64 {
        self.runs.unwrap_or(if self.quick { 5 } else { 15 })
    }

    fn window(&self) -> Bytes {
        LongPipe::full_window(self.bottleneck, self.rtt, MTU)
    }
}

fn check(arguments: &PipeArguments) -> Result<(), String> {
    let PipeArguments { bottleneck, rtt, fast_rate, equal_rate, router_buffer, .. } = arguments;
    if !(RATES.0..=RATES.1).contains(bottleneck) {
        return Err(format!("--bottleneck is {} to {}, not {bottleneck}", RATES.0, RATES.1));
    }
    if rtt.is_zero() || *rtt > Duration::from_secs(10) {
        return Err(format!("--rtt is above 0 and at most 10 s, not {rtt:?}: a long path takes time"));
    }
    if *bottleneck * *rtt > LARGEST_WINDOW {
        return Err(format!(
            "{bottleneck} carry {} in {rtt:?}, and the simulation keeps at most {LARGEST_WINDOW}: lower --bottleneck or --rtt",
            *bottleneck * *rtt
        ));
    }
    if fast_rate <= bottleneck {
        return Err(format!("--fast-rate {fast_rate} is not above the bottleneck of {bottleneck}"));
    }
    if equal_rate > bottleneck || *equal_rate < RATES.0 {
        return Err(format!("--equal-rate is {} to {bottleneck}, the bottleneck, not {equal_rate}", RATES.0));
    }
    if *router_buffer < Bytes::new(2 * u64::from(MTU)) || *router_buffer > Bytes::mib(1024) {
        return Err(format!("--router-buffer holds 2 packets to 1 GiB, not {router_buffer}"));
    }
    check_lists(arguments)?;
    let (span, runs) = (arguments.span(), arguments.runs());
    if span < (*rtt * 10).max(Duration::from_secs(2)) || span > Duration::from_secs(3600) {
        return Err("--seconds is at least 2, at least ten round trips, and at most 3600".to_owned());
    }
    if !(1..=1000).contains(&runs) {
        return Err(format!("--runs is 1 to 1000, not {runs}"));
    }
    if !(0.0..=0.5).contains(&arguments.cross_load) {
        return Err(format!(
            "--cross-load is a part of the bottleneck: 0 to 0.5, not {}",
            arguments.cross_load
        ));
    }
    Ok(())
}

fn check_lists(arguments: &PipeArguments) -> Result<(), String> {
    let queues = &arguments.transmit_queues;
    if queues.is_empty() || queues.iter().any(|packets| !(1..=1_000_000).contains(packets)) {
        return Err("--transmit-queues holds 1 to 1 000 000 packets each".to_owned());
    }
    if let Some(gap) = arguments.gaps.iter().find(|gap| **gap > 65_535) {
        return Err(format!("--gaps are 0 to 65 535 bytes, not {gap}"));
    }
    let coarse =
        |precision: &&Duration| **precision < Duration::from_micros(10) || **precision >= arguments.rtt;
    if let Some(precision) = arguments.clusters.iter().find(coarse) {
        return Err(format!("--clusters are 10 µs to below a round trip, not {precision:?}"));
    }
    Ok(())
}
