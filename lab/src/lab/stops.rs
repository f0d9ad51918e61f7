//! Sources on a fast port that are stopped (SIGSTOP) and continue: one, two, half, or all but one
//! of them, repeatedly for 5 ms or once for 5 s; or a busy loop competes for every core. After a
//! stop, the granted data arrive late and all at once, which must not overflow the port.

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Args;
use lab_base::{
    bench::Bench,
    fleet::Fleet,
    guard::Guarded,
    network::{Network, Shape},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, Transport},
};
use serde_json::json;

const FRAGMENT: u64 = 64_000;
const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(5);
/// Time from the start of the run to the beginning of a stop of 5 s.
const BEGIN: Duration = Duration::from_secs(2);
/// Shortest duration of a run with a stop of 5 s, in seconds.
const LEAST: f64 = 9.0;
/// Last part of a stop of 5 s, in which the stopped sources have been declared lost and the other
/// sources continue alone.
const SETTLED: Duration = Duration::from_secs(1);
/// Time after the end of a run after which sources that have not ended are killed.
const PATIENCE: Duration = Duration::from_secs(8);

#[derive(Args)]
pub(crate) struct StopsArgs {
    /// Numbers of sources to test.
    #[arg(long, value_delimiter = ',', default_value = "8,32")]
    sources: Vec<u16>,
    /// Rate of every port, in Mbit/s.
    #[arg(long, default_value_t = 10_000)]
    mbit: u64,
    /// Buffer of a switch port, in KiB.
    #[arg(long, default_value_t = 128)]
    kib: u64,
}

/// A disturbance of the sources.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    None,
    /// This number of sources is stopped for 5 ms, ten times a second.
    Short(u16),
    /// This number of sources is stopped once for 5 s.
    Long(u16),
    /// A busy loop runs on each core.
    Hogs,
}

impl Trouble {
    fn name(self) -> String {
        match self {
            Self::None => "undisturbed".to_owned(),
            Self::Short(count) => format!("{count} stopped for 5 ms"),
            Self::Long(count) => format!("{count} stopped for 5 s"),
            Self::Hogs => "a hog on each core".to_owned(),
        }
    }
}

/// Returns the disturbances to test with this number of sources.
fn troubles(sources: u16) -> Vec<Trouble> {
    let mut counts = vec![1, 2, sources / 2, sources - 1];
    counts.retain(|count| (1..sources).contains(count));
    counts.sort_unstable();
    counts.dedup();
    let long = counts.iter().map(|count| Trouble::Long(*count));
    let short = counts.iter().map(|count| Trouble::Short(*count));
    [Trouble::None, Trouble::Hogs].into_iter().chain(short).chain(long).collect()
}

/// Observations during the run.
#[derive(Default)]
struct Watch {
    stops: u32,
    is_stopped: bool,
    is_over: bool,
    /// Time and byte count of the builder's port at the begin of the measurement during a long
    /// stop; `until` has those at its end.
    from: Option<(Duration, u64)>,
    until: Option<(Duration, u64)>,
}

impl Watch {
    /// Returns the rate of the builder's port in the last second of a long stop, in bit/s.
    fn rate(&self) -> Option<f64> {
        let (from, until) = self.from.zip(self.until)?;
        Some((until.1 - from.1) as f64 * 8.0 / (until.0.checked_sub(from.0)?).as_secs_f64())
    }
}

pub(crate) fn run(bench: &Bench, args: &StopsArgs) -> Result<Report> {
    let mut report = Report::bare("stops");
    println!(
        "{:<40} {:>7} {:>7} {:>7} {:>9} {:>10} {:>10}",
        "case", "Gbit/s", "dropped", "stops", "complete", "incomplete", "meanwhile"
    );
    for sources in &args.sources {
        let (rate, port_buffer) = (args.mbit * 1_000_000, args.kib * 1024);
        let shape = Shape {
            sources: *sources,
            builders: 1,
            rate,
            port_buffer,
            mtu: bench.mtu,
            trains: true,
            ..Shape::PLAIN
        };
        let network = Network::up(shape)?;
        for transport in bench.transports {
            for trouble in troubles(*sources) {
                let name = Bench::name(&format!("{sources}x1 {}", trouble.name()), *transport);
                if bench.wants(&name) {
                    case(bench, &network, *transport, trouble, &name, &mut report)?;
                }
            }
        }
    }
    Ok(report)
}

fn case(
    bench: &Bench,
    network: &Network,
    transport: Transport,
    trouble: Trouble,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    let hogs = if trouble == Trouble::Hogs { hogs()? } else { Vec::new() };
    let seconds = if matches!(trouble, Trouble::Long(_)) { bench.seconds.max(LEAST) } else { bench.seconds };
    let before = network.passage()?;
    let mut watch = Watch::default();
    let system = System::new(Mode::Credit, FRAGMENT).over(transport);
    let look = |fleet: &mut Fleet| turn(fleet, network, trouble, seconds, &mut watch);
    let outcome = bench.run_for(seconds, network, name, system, look)?;
    drop(hogs);
    let lost = network.passage()?.dropped_since(before);
    judge(&outcome, trouble, &watch, lost, report);
    Ok(())
}

/// Stops the sources that the disturbance affects, lets them continue, and records the port's
/// counters.
fn turn(
    fleet: &mut Fleet,
    network: &Network,
    trouble: Trouble,
    seconds: f64,
    watch: &mut Watch,
) -> Result<()> {
    let now = fleet.elapsed();
    let victims = |count: u16| (1..=count).map(|i| format!("s{i}")).collect::<Vec<_>>();
    let bytes = || network.ports().map(|ports| ports.get("b1").map_or(0, |port| port.bytes));
    match trouble {
        Trouble::Short(count) if now.as_secs_f64() < seconds - 0.5 && now > Duration::from_secs(1) => {
            fleet.signal_all(&victims(count), "STOP")?;
            thread::sleep(SHORT);
            fleet.signal_all(&victims(count), "CONT")?;
            watch.stops += 1;
        }
        Trouble::Long(count) => {
            if !watch.is_stopped && now >= BEGIN {
                fleet.signal_all(&victims(count), "STOP")?;
                (watch.is_stopped, watch.stops) = (true, 1);
            }
            if watch.from.is_none() && now >= BEGIN + LONG - SETTLED {
                watch.from = Some((now, bytes()?));
            }
            if !watch.is_over && now >= BEGIN + LONG {
                watch.until = Some((now, bytes()?));
                fleet.signal_all(&victims(count), "CONT")?;
                watch.is_over = true;
            }
            let others_ended = fleet.running().iter().all(|host| host.starts_with('s'));
            if others_ended && now.as_secs_f64() > seconds + PATIENCE.as_secs_f64() {
                fleet.signal_all(&victims(count), "KILL")?;
            }
        }
        Trouble::Short(_) | Trouble::None | Trouble::Hogs => {}
    }
    Ok(())
}

fn judge(outcome: &Outcome, trouble: Trouble, watch: &Watch, lost: u64, report: &mut Report) {
    let name = &outcome.name;
    let count = |key: &str| outcome.number(&format!("events.{key}"));
    println!(
        "{name:<40} {:>7.2} {lost:>7} {:>7} {:>9.0} {:>10.0} {:>10}",
        outcome.goodput() / 1e9,
        watch.stops,
        count("complete"),
        count("incomplete") + count("lost"),
        watch.rate().map_or_else(|| "–".to_owned(), |rate| format!("{:.2}", rate / 1e9)),
    );
    report.keep(outcome);
    report.attach(name, json!({ "drops": lost, "stops": watch.stops, "meanwhile_bit_per_s": watch.rate() }));
    report.holds(&format!("{name}: packets dropped"), lost as f64, Bound::AtMost(0.0));
    let sum: f64 = ["inhibited", "complete", "incomplete", "lost"].iter().map(|key| count(key)).sum();
    report.holds(
        &format!("{name}: triggered less all outcomes"),
        (count("triggered") - sum).abs(),
        Bound::AtMost(0.0),
    );
    match trouble {
        // The other sources must continue; 0.5 Gbit/s is a low bound that shows that they do.
        Trouble::Long(_) => {
            let rate = watch.rate().unwrap_or(f64::NAN);
            report.noisy(&format!("{name}: bit/s of the others"), rate, Bound::AtLeast(5e8));
        }
        Trouble::None | Trouble::Short(_) | Trouble::Hogs => {
            report.yes(&format!("{name}: every event complete"), outcome.is_complete());
        }
    }
}

/// Starts a busy loop for each core.
fn hogs() -> Result<Vec<Guarded>> {
    let cores = thread::available_parallelism()?.get();
    let mut hogs = Vec::new();
    for _ in 0..cores {
        let hog = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        hogs.push(Guarded(hog.context("starting a hog")?));
    }
    Ok(hogs)
}

#[cfg(test)]
mod tests;
