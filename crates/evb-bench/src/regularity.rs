//! `evb-bench regularity`: measures the regularity of triggered messages after shaping, at the
//! receiver.
//!
//! The benchmark repeats the study of Yasu et al. for the ATLAS trigger: messages of 1 kB, with
//! Gaussian and Poisson triggers around 1 kHz, pass through a token bucket. When triggers offer
//! more than the assigned rate (overload), all gaps between messages must equal the nominal gap of
//! the rate. When triggers offer less than the assigned rate (underload), the gaps must be
//! distributed as those of departures from an M/D/1 queue. Periodic triggers below the rate must
//! pass unchanged. Executors with ticks imitate the kernels of 2001: they must fail, and show their
//! ticks.

mod message;
mod receiver;
mod ticks;
mod ticked;
mod sender;
mod outcome;
mod judged;
mod namespace;
mod executors;
mod text;
mod course;
mod atlas;
mod draw;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use crate::trigger::times::TimesKind;
use evb_config::{complain, say};
use evb_core::units::{Bytes, Frequency, Rate, parse_duration};

pub use judged::{OverloadVerdict, Panel, PanelSeries, Study, UnderloadVerdict};
pub use outcome::{RunOutcome, Spread};
pub use ticked::{TickSigns, TickVerdict};

use self::{
    course::Course,
    message::MessageSize,
    receiver::{MOST_MESSAGES, Receiver},
};
use super::output::{BenchError, OutputArguments, failed};

/// A preset study.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum StudyName {
    /// The six histograms of Yasu et al. for the ATLAS trigger.
    Atlas,
}

/// A kind of trigger of the study.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum TriggerWord {
    /// Triggers at equal intervals.
    Periodic,
    /// Triggers at normally distributed intervals.
    Gaussian,
    /// Triggers at exponentially distributed intervals.
    Poisson,
}

impl TriggerWord {
    fn kind(self, rate: Frequency, sigma: Duration) -> TimesKind {
        match self {
            Self::Periodic => TimesKind::Periodic { rate },
            Self::Gaussian => TimesKind::Gaussian { rate, sigma },
            Self::Poisson => TimesKind::Poisson { rate },
        }
    }
}

/// Arguments of `evb-bench regularity`.
#[derive(clap::Args, Clone, Debug)]
pub struct RegularityArguments {
    /// Run a preset study: the histograms of a paper, in its order.
    #[arg(long, value_enum, conflicts_with_all = ["triggers", "trigger_rates", "loads", "underload_messages"])]
    study: Option<StudyName>,
    /// The kinds of trigger.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [TriggerWord::Gaussian, TriggerWord::Poisson])]
    triggers: Vec<TriggerWord>,
    /// The mean rates of the triggers; with all kinds but periodic, at least 1.2 times the assigned
    /// rate for a verdict.
    #[arg(long, alias = "trigger-rate", value_delimiter = ',', default_value = "1 kHz", value_parser = frequency)]
    trigger_rates: Vec<Frequency>,
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
    /// Loads of the underload runs, with Poisson triggers: the assigned rate is the offered rate
    /// divided by the load.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 0.8, 0.9])]
    loads: Vec<f64>,
    /// Executors of departure times to compare [default: timerfd,spin,txtime; for a study
    /// timerfd]. txtime is left out if a test shows that the kernel does not send packets at their
    /// departure times; tbf, the kernel's token bucket on a loopback device, without the right to
    /// make a network namespace. tick:100 and tick:1500 imitate kernels whose timers expire only at
    /// ticks, and are expected to fail.
    #[arg(long, value_delimiter = ',')]
    executors: Vec<String>,
    /// Depth of the token bucket [default: two messages; with ticks, at least the bytes of a tick
    /// and a message].
    #[arg(long)]
    depth: Option<Bytes>,
    /// Begin with a full token bucket, which also fills while nothing waits, as the kernel's bucket
    /// does; evb's own is empty whenever a message finds the line idle.
    #[arg(long)]
    full_at_start: bool,
    /// Number of receivers; each trigger makes a message for every receiver, and each is judged.
    #[arg(long, default_value_t = 1, conflicts_with = "send_to", value_parser = clap::value_parser!(u32).range(1..=16))]
    receivers: u32,
    /// Number of messages of each run but those of the underload [default: 3000; for a study 1000].
    #[arg(long)]
    messages: Option<u32>,
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
    /// Send to a receiver on another host, or to several; start the receivers with --listen.
    #[arg(long, value_delimiter = ',')]
    send_to: Vec<SocketAddr>,
    /// Run at the usual scheduling priority instead of with real-time scheduling.
    #[arg(long)]
    ordinary_priority: bool,
    #[command(flatten)]
    output: OutputArguments,
}

fn frequency(text: &str) -> Result<Frequency, String> {
    text.parse().map_err(|error: evb_core::units::UnitError| error.to_string())
}

impl RegularityArguments {
    fn executors(&self) -> Vec<String> {
        let usual: &[&str] = if self.study.is_some() { &["timerfd"] } else { &["timerfd", "spin", "txtime"] };
        match self.executors.as_slice() {
            [] => usual.iter().map(ToString::to_string).collect(),
            given => given.to_vec(),
        }
    }

    fn messages(&self) -> u32 {
        let usual = if self.study.is_some() { 1000 } else { 3000 };
        self.messages.unwrap_or(usual)
    }

    /// Returns the rates of all triggers.
    fn rates(&self) -> Vec<Frequency> {
        if self.study.is_some() { atlas::rates() } else { self.trigger_rates.clone() }
    }

    /// Returns the largest rate of a trigger.
    fn fastest(&self) -> Frequency {
        let faster = |a: Frequency, b: Frequency| if b > a { b } else { a };
        self.rates().into_iter().reduce(faster).unwrap_or(self.trigger_rates[0])
    }
}

/// Runs the benchmark, or only its receiver if `--listen` is given.
pub(super) fn main(arguments: &RegularityArguments) -> ExitCode {
    if let Some(at) = arguments.listen {
        let Err(error) = listen(at, arguments.ordinary_priority);
        let is_operators = matches!(error, BenchError::Operator(_));
        return failed(&error, is_operators);
    }
    let wants_buckets =
        arguments.send_to.is_empty() && arguments.executors().iter().any(|name| name == "tbf");
    let checked = check(arguments);
    if wants_buckets
        && checked.is_ok()
        && let Some(code) = namespace::again()
    {
        return code;
    }
    let published = checked.and_then(|()| measure(arguments)).and_then(|study| {
        let (peer, table) = (arguments.send_to.first().map(SocketAddr::ip), text::text(&study));
        arguments.output.publish_with(peer, &study, &table, || draw::figure(&study).svg()).map(|()| study)
    });
    match published {
        Ok(study) if study.holds => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

fn listen(at: SocketAddr, ordinary: bool) -> Result<std::convert::Infallible, BenchError> {
    let fault =
        |error| BenchError::Operator(format!("cannot listen at {at}: {error}; choose another address"));
    let receiver = Receiver::bind(at).map_err(fault)?;
    let at = receiver.address().map_err(fault)?;
    say!("receiving at {at}; start the sender with --send-to {at}");
    read_in_time(ordinary);
    loop {
        match receiver.serve() {
            Ok(peer) => say!("{peer} is done"),
            Err(error) => complain!(
                "the measurement with a sender failed: {error}; this receiver waits for the next sender"
            ),
        }
    }
}

/// Gives this thread real-time scheduling, so that the socket buffer does not overflow before the
/// thread reads it. The time stamps come from the kernel and do not depend on when the thread reads
/// them.
fn read_in_time(ordinary: bool) {
    if !ordinary && let Err(error) = evb_net::host::run_in_real_time() {
        tracing::info!(%error, "the receiver does not run in real time ({error}): it may lose messages while other programs run; nothing else depends on it");
    }
}

/// Measures with the receivers at `--send-to`, or otherwise with receivers in threads of this
/// process.
pub(super) fn measure(arguments: &RegularityArguments) -> Result<Study, BenchError> {
    check(arguments)?;
    if !arguments.send_to.is_empty() {
        return study(arguments, &arguments.send_to);
    }
    namespace::start()?;
    let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let fault = || BenchError::system("cannot listen on the loopback device");
    let bound = || Receiver::bind(loopback).and_then(|receiver| Ok((receiver.address()?, receiver)));
    let receivers: Vec<_> =
        (0..arguments.receivers).map(|_| bound()).collect::<Result<_, _>>().map_err(fault())?;
    let (to, receivers): (Vec<SocketAddr>, Vec<Receiver>) = receivers.into_iter().unzip();
    std::thread::scope(|scope| {
        let ordinary = arguments.ordinary_priority;
        let serve = |receiver: Receiver| {
            scope.spawn(move || {
                read_in_time(ordinary);
                receiver.serve()
            })
        };
        let serving: Vec<_> = receivers.into_iter().map(serve).collect();
        let mut study = study(arguments, &to);
        for serving in serving {
            study = match serving.join() {
                Ok(Ok(_)) => study,
                Ok(Err(error)) => {
                    study.and_then(|_| Err(BenchError::system("the receiver in this process failed")(error)))
                }
                Err(_) => Err(BenchError::Operator(
                    "a receiver in this process crashed: report this fault of evb-bench with the lines above"
                        .into(),
                )),
            };
        }
        study
    })
}

/// Makes all runs with the receivers at these addresses.
fn study(arguments: &RegularityArguments, to: &[SocketAddr]) -> Result<Study, BenchError> {
    let mut course = Course::open(arguments, to)?;
    match arguments.study {
        Some(StudyName::Atlas) => {
            atlas::run(&mut course)?;
            Ok(course.judged(atlas::panels))
        }
        None => {
            course.general()?;
            Ok(course.judged(|_| Vec::new()))
        }
    }
}

fn check(arguments: &RegularityArguments) -> Result<(), BenchError> {
    let refuse = |reason: String| Err(BenchError::Operator(reason));
    let (messages, underload) = (arguments.messages(), arguments.underload_messages);
    let (count, most) = (messages.max(underload), MOST_MESSAGES);
    if messages < 2 || underload < 2 || count > most || arguments.rounds == 0 {
        let rounds = arguments.rounds;
        return refuse(format!(
            "--messages is {messages}, --underload-messages {underload} and --rounds {rounds}: the first two must be 2 to {most}, the third at least 1"
        ));
    }
    let payload = arguments.message.count();
    if !(message::LEAST as u64..=1400).contains(&payload) {
        let least = message::LEAST;
        return refuse(format!("--message is one packet: {least} to 1400 B, not {}", arguments.message));
    }
    let size = MessageSize::new(arguments.message, false).buffer();
    if let Some(depth) = arguments.depth.filter(|depth| *depth < size) {
        return refuse(format!(
            "--depth {depth} is less than a message of {size} with its headers: raise it"
        ));
    }
    if let Some(load) = arguments.loads.iter().find(|load| !(**load > 0.0 && **load < 1.0)) {
        return refuse(format!("--loads are below the assigned rate: above 0 and below 1, not {load}"));
    }
    check_rates(arguments, size)
}

/// Checks that the triggers overload the assigned rate clearly, or that periodic ones stay below.
fn check_rates(arguments: &RegularityArguments, size: Bytes) -> Result<(), BenchError> {
    let refuse = |reason: String| Err(BenchError::Operator(reason));
    let load =
        |rate: &Frequency| rate.hertz() * size.count() as f64 * 8.0 / arguments.rate.bits_per_second() as f64;
    let only_periodic = arguments.triggers.iter().all(|word| *word == TriggerWord::Periodic);
    let loads: Vec<f64> = arguments.rates().iter().map(load).collect();
    let most = loads.iter().copied().fold(0.0, f64::max);
    let unclear = |load: &&f64| **load >= 1.0 && **load < 1.2;
    let needs_overload = arguments.study.is_some() || !only_periodic;
    match loads.iter().find(unclear) {
        Some(load) => refuse(format!(
            "triggers offer {load:.2} times the assigned rate; the overload wants at least 1.2: lower --rate"
        )),
        None if most < 1.2 && needs_overload => refuse(format!(
            "triggers offer {most:.2} times the assigned rate; the overload wants at least 1.2: lower --rate"
        )),
        None if most > 1000.0 => refuse(format!(
            "triggers offer {most:.0} times the assigned rate, so messages would leave too slowly: raise --rate"
        )),
        None => Ok(()),
    }
}
