//! `evbd bench regularity`: measures the regularity of randomly triggered messages after shaping,
//! at the receiver.
//!
//! The benchmark repeats the study of Yasu et al. for the ATLAS trigger: messages of 1 kB, with
//! Gaussian and Poisson triggers around 1 kHz, pass through a token bucket. When triggers offer
//! more than the assigned rate (overload), all gaps between messages must equal the nominal gap of
//! the rate. When triggers offer less than the assigned rate (underload), the gaps must be
//! distributed as those of departures from an M/D/1 queue.

mod message;
mod receiver;
mod sender;
mod outcome;
mod judged;
mod text;
mod draw;
mod course;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use evb_config::say;
use evb_core::units::{Bytes, Frequency, Rate, parse_duration};

pub use judged::{OverloadVerdict, Study, UnderloadVerdict};
pub use outcome::{RunOutcome, Spread};

use self::{
    course::Course,
    message::MessageSize,
    receiver::{MOST_MESSAGES, Receiver},
};
use super::output::{BenchError, OutputArguments, failed};

/// Arguments of `evbd bench regularity`.
#[derive(clap::Args, Clone, Debug)]
pub struct RegularityArguments {
    /// The mean rate of the triggers.
    #[arg(long, default_value = "1 kHz", value_parser = frequency)]
    trigger_rate: Frequency,
    /// The Gaussian trigger's standard deviation.
    #[arg(long, default_value = "250 us", value_parser = parse_duration)]
    sigma: Duration,
    /// Payload of each message, which is sent as a single packet.
    #[arg(long, default_value = "1 kB")]
    message: Bytes,
    /// The rate assigned to the stream in the overload runs, in buffer bytes (L2 frames, as tc's
    /// tbf counts).
    #[arg(long, default_value = "5 Mbit/s")]
    rate: Rate,
    /// Loads of the underload runs: the assigned rate is the offered rate divided by the load.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 0.8, 0.9])]
    loads: Vec<f64>,
    /// Executors of departure times to compare: timerfd, spin, txtime (left out if a test shows
    /// that the kernel does not send packets at their departure times).
    #[arg(long, value_delimiter = ',', default_values_t = ["timerfd", "spin", "txtime"].map(str::to_owned))]
    executors: Vec<String>,
    /// Number of messages of each overload run.
    #[arg(long, default_value_t = 3000)]
    messages: u32,
    /// Number of messages of each underload run; a short run has too few idle times for a good
    /// estimate.
    #[arg(long, default_value_t = 20_000)]
    underload_messages: u32,
    /// Number of rounds of the overload, and largest number of rounds of the underload, which ends
    /// when a round agrees with theory. The best round counts; the table shows all rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seed of the random trigger times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only receive, at this address, from a sender on another host, until interrupted.
    #[arg(long, conflicts_with_all = ["send_to", "json", "svg"])]
    listen: Option<SocketAddr>,
    /// Send to a receiver on another host; start the receiver there with --listen.
    #[arg(long)]
    send_to: Option<SocketAddr>,
    /// Run at the usual scheduling priority instead of with real-time scheduling.
    #[arg(long)]
    ordinary_priority: bool,
    #[command(flatten)]
    output: OutputArguments,
}

fn frequency(text: &str) -> Result<Frequency, String> {
    text.parse().map_err(|error: evb_core::units::UnitError| error.to_string())
}

/// Runs the benchmark, or only its receiver if `--listen` is given.
pub(super) fn main(arguments: &RegularityArguments) -> ExitCode {
    if let Some(at) = arguments.listen {
        let Err(error) = listen(at, arguments.ordinary_priority);
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let published = measure(arguments).and_then(|study| {
        let (peer, table) = (arguments.send_to.map(|to| to.ip()), text::text(&study));
        arguments.output.publish_with(peer, &study, &table, || draw::figure(&study).svg()).map(|()| study)
    });
    match published {
        Ok(study) if study.holds() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

fn listen(at: SocketAddr, ordinary: bool) -> Result<std::convert::Infallible, BenchError> {
    let fault = || BenchError::system(format!("cannot listen at {at}"));
    let receiver = Receiver::bind(at).map_err(fault())?;
    let at = receiver.address().map_err(fault())?;
    say!("receiving at {at}; start the sender with --send-to {at}");
    read_in_time(ordinary);
    loop {
        match receiver.serve() {
            Ok(peer) => say!("{peer} is done"),
            Err(error) => eprintln!("a sender failed: {error}"),
        }
    }
}

/// Gives this thread real-time scheduling, so that the socket buffer does not overflow before the
/// thread reads it. The time stamps come from the kernel and do not depend on when the thread reads
/// them.
fn read_in_time(ordinary: bool) {
    if !ordinary && let Err(error) = evb_net::host::run_in_real_time() {
        tracing::info!(%error, "the receiver does not run in real time");
    }
}

/// Measures with the receiver at `--send-to`, or otherwise with a receiver in a thread of this
/// process.
pub(super) fn measure(arguments: &RegularityArguments) -> Result<Study, BenchError> {
    check(arguments)?;
    if let Some(to) = arguments.send_to {
        return Course::open(arguments, to)?.study();
    }
    let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let receiver = Receiver::bind(loopback).map_err(BenchError::system("cannot listen on loopback"))?;
    let to = receiver.address().map_err(BenchError::system("cannot listen on loopback"))?;
    std::thread::scope(|scope| {
        let ordinary = arguments.ordinary_priority;
        let serving = scope.spawn(move || {
            read_in_time(ordinary);
            receiver.serve()
        });
        let study = Course::open(arguments, to)?.study();
        match serving.join() {
            Ok(Ok(_)) => study,
            Ok(Err(error)) => study.and_then(|_| Err(BenchError::system("the receiver")(error))),
            Err(_) => Err(BenchError::Operator("the receiver's thread ended too early".into())),
        }
    })
}

fn check(arguments: &RegularityArguments) -> Result<(), BenchError> {
    let refuse = |reason: String| Err(BenchError::Operator(reason));
    let (count, most) = (arguments.messages.max(arguments.underload_messages), MOST_MESSAGES);
    if arguments.messages < 2 || arguments.underload_messages < 2 || count > most || arguments.rounds == 0 {
        return refuse(format!("a run has 2 to {most} messages, and there is at least one round"));
    }
    let payload = arguments.message.count();
    if !(message::LEAST as u64..=1400).contains(&payload) {
        let least = message::LEAST;
        return refuse(format!("--message is one packet: {least} to 1400 B, not {}", arguments.message));
    }
    if let Some(load) = arguments.loads.iter().find(|load| !(**load > 0.0 && **load < 1.0)) {
        return refuse(format!("--loads are below the assigned rate: above 0 and below 1, not {load}"));
    }
    let offered = arguments.trigger_rate.hertz()
        * MessageSize::new(arguments.message, false).buffer().count() as f64
        * 8.0;
    let load = offered / arguments.rate.bits_per_second() as f64;
    if load < 1.2 {
        return refuse(format!(
            "triggers offer {load:.2} times the assigned rate; the overload wants at least 1.2: lower --rate"
        ));
    }
    Ok(())
}

/// Returns the run and the number in a message's label, as the receiver decodes them; for fuzz
/// targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn read_label(bytes: &[u8]) -> Option<(u64, u32)> {
    message::read(bytes)
}
