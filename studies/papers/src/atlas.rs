//! The pseudo-trigger of the ATLAS study (Yasu et al.): a program on the supervisor's host
//! announces triggers by multicast across the switch. One or three sources make a fragment of 1 kB
//! when an announcement arrives, and one or three builders build the events. A listener on each
//! source's host notes the arrivals, so that lost announcements and the spread of the arrivals at
//! the sources are known independently of evb.

mod tap;

use std::{
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use lab_base::{
    bench::Bench,
    fleet::Fleet,
    guard::Guarded,
    network::{Network, Shape, address},
    outcome::quantile,
    report::{Bound, Report},
    system::{GROUP, Mode, System, Trigger},
};
use serde_json::json;

use self::tap::{Arrival, arrivals};
pub use self::tap::{Tap, listen};

const RATE: u64 = 1_000_000_000;
const FRAGMENT: u64 = 1_000;
/// Time from the start of the processes to the first announcement: triggers before the run has
/// begun are not taken.
const JOINED: Duration = Duration::from_secs(2);
/// Time for late announcements to arrive after the end of the run.
const LATE: Duration = Duration::from_millis(300);
/// Least event rate as a share of the rate of the triggers.
const KEPT: f64 = 0.98;
/// Time from the last trigger to the end of the run, in seconds. The run ends by its duration,
/// since a number of events would never be reached if a trigger was inhibited.
const TAIL: f64 = 3.0;

#[derive(Args)]
pub struct AtlasArgs {
    /// Number of triggers of each case; by default, those of the duration of a run (`--seconds`).
    #[arg(long)]
    events: Option<u64>,
    /// Rate of the triggers, in events per second.
    #[arg(long, default_value_t = 1000.0)]
    hertz: f64,
    /// Kind of the triggers, as in `evb-bench trigger --kind`.
    #[arg(long, default_value = "periodic")]
    kind: String,
}

pub fn run(bench: &Bench, args: &AtlasArgs) -> Result<Report> {
    if !(args.hertz > 0.0 && args.hertz.is_finite()) {
        bail!("--hertz takes a rate above 0");
    }
    let mut report = Report::new("atlas");
    for (sources, builders) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
        let name = format!("{sources}x{builders} multicast");
        if bench.wants(&name) {
            case(bench, args, &name, (sources, builders), &mut report)?;
        }
    }
    Ok(report)
}

fn case(
    bench: &Bench,
    args: &AtlasArgs,
    name: &str,
    (sources, builders): (u16, u16),
    report: &mut Report,
) -> Result<()> {
    let events = args.events.unwrap_or((bench.seconds * args.hertz) as u64).max(1);
    let seconds = JOINED.as_secs_f64() + events as f64 / args.hertz + TAIL;
    let network =
        Network::up(Shape { sources, builders, rate: RATE, port_buffer: 128 * 1024, ..Shape::PLAIN })?;
    // The arrivals are not in the folder of the run, which the run empties.
    let file = |host: &str| bench.out.join(format!("atlas-{sources}x{builders}-{host}.arrivals"));
    let hosts: Vec<String> = (1..=sources).map(|i| format!("s{i}")).collect();
    let taps = hosts.iter().map(|host| start_tap(&network, host, &file(host)));
    let taps = taps.collect::<Result<Vec<_>>>()?;
    let mut pseudo_trigger = None;
    let look = |fleet: &mut Fleet| -> Result<()> {
        if pseudo_trigger.is_none() && fleet.elapsed() > JOINED {
            pseudo_trigger = Some(announce(bench, &network, args, events)?);
        }
        Ok(())
    };
    let system = System::new(Mode::Credit, FRAGMENT).trigger(Trigger::Multicast);
    let outcome = bench.run_for(seconds, &network, name, system, look)?;
    report.add(&outcome);
    report.clean(&outcome);
    let triggered = outcome.number("events.triggered");
    report.holds(&format!("{name}: announcements that triggered"), triggered, Bound::AtLeast(events as f64));
    report.noisy(
        &format!("{name}: triggers inhibited"),
        outcome.number("events.inhibited"),
        Bound::AtMost(0.0),
    );
    let rate = outcome.number("rates.events_per_s") / args.hertz;
    report.noisy(&format!("{name}: share of the rate of the triggers"), rate, Bound::AtLeast(KEPT));
    said(pseudo_trigger.context("the run ended before the first trigger")?, name, report)?;
    thread::sleep(LATE);
    let mut heard = Vec::new();
    for (mut tap, host) in taps.into_iter().zip(&hosts) {
        // Closing its stdin ends the listener.
        drop(tap.0.stdin.take());
        tap.0.wait()?;
        heard.push(arrivals(&file(host))?);
    }
    judge(name, &hosts, &heard, events, report);
    Ok(())
}

/// Starts a listener on a host, which writes the arrivals to a file when its stdin is closed.
fn start_tap(network: &Network, host: &str, file: &Path) -> Result<Guarded> {
    // A file of an earlier run must not pass for that of this one.
    let _ = std::fs::remove_file(file);
    // Real-time priority makes the noted times those of the network and not of the wait for a core.
    let mut command: Command = network.command(host, "chrt");
    command.args(["--fifo", "10"]).arg(std::env::current_exe()?);
    command.args(["lab-traffic", "tap", GROUP, &address(host)?]).arg(file);
    let child = command.stdin(Stdio::piped()).spawn();
    Ok(Guarded(child.with_context(|| format!("starting a listener on {host}"))?))
}

/// Starts the pseudo-trigger on the supervisor's host.
fn announce(bench: &Bench, network: &Network, args: &AtlasArgs, events: u64) -> Result<Guarded> {
    let mut command = network.command("sup", &bench.evb_bench()?);
    command.args(["trigger", "--to", GROUP, "--interface", &address("sup")?, "--kind", &args.kind]);
    command.args(["--rate", &format!("{} Hz", args.hertz), "--count", &events.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(Guarded(command.spawn().context("starting evb-bench trigger")?))
}

/// Waits for the end of the pseudo-trigger, and notes what it says.
fn said(mut pseudo_trigger: Guarded, name: &str, report: &mut Report) -> Result<()> {
    let mut words = String::new();
    pseudo_trigger.0.stdout.take().context("it has no output")?.read_to_string(&mut words)?;
    pseudo_trigger.0.stderr.take().context("it has no errors")?.read_to_string(&mut words)?;
    let status = pseudo_trigger.0.wait()?;
    report.yes(&format!("{name}: the pseudo-trigger ends well"), status.success());
    let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    report.note(format!("{name}: evb-bench trigger: {}", lines.join("; ")));
    Ok(())
}

/// Checks that every announcement has arrived at every source, and notes how far apart the arrivals
/// of one announcement are.
fn judge(name: &str, hosts: &[String], heard: &[Vec<Arrival>], events: u64, report: &mut Report) {
    for (host, arrivals) in hosts.iter().zip(heard) {
        let lost = missing(arrivals, events);
        report.holds(&format!("{name}: announcements lost at {host}"), lost as f64, Bound::AtMost(0.0));
    }
    let delays = heard.iter().flatten().map(|arrival| arrival.after_sending_us).collect();
    let (delays, spreads) = (Quantiles::of(delays), Quantiles::of(spreads(heard, events)));
    report.note(format!("{name}: {events} announcements; from sending to arrival {delays}"));
    if heard.len() > 1 {
        report.note(format!("{name}: between the first and the last source {spreads}"));
    }
    let value = json!({
        "announcements": events,
        "lost": heard.iter().map(|arrivals| missing(arrivals, events)).collect::<Vec<_>>(),
        "delay_us": delays.json(),
        "spread_us": (heard.len() > 1).then(|| spreads.json()),
    });
    report.attach(name, value);
}

/// Returns the number of announcements from 1 to `events` that did not arrive.
fn missing(arrivals: &[Arrival], events: u64) -> u64 {
    let mut numbers: Vec<u64> = arrivals.iter().map(|arrival| arrival.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    events - numbers.iter().filter(|number| (1..=events).contains(*number)).count() as u64
}

/// Returns the times in µs between the first and the last arrival of each announcement that arrived
/// at all sources.
fn spreads(heard: &[Vec<Arrival>], events: u64) -> Vec<f64> {
    let mut all = vec![(0, f64::INFINITY, f64::NEG_INFINITY); events as usize];
    for arrival in heard.iter().flatten() {
        if let Some(of) = (arrival.number as usize).checked_sub(1).and_then(|place| all.get_mut(place)) {
            *of = (of.0 + 1, of.1.min(arrival.after_sending_us), of.2.max(arrival.after_sending_us));
        }
    }
    let whole = all.into_iter().filter(|(count, ..)| *count == heard.len());
    whole.map(|(_, first, last)| last - first).collect()
}

/// Quantiles of times in µs.
struct Quantiles {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |part: f64| quantile(&times, part).unwrap_or(f64::NAN);
        Self { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }

    fn json(&self) -> serde_json::Value {
        json!({ "p50": self.p50, "p99": self.p99, "max": self.max })
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p50 {:.1}, p99 {:.1}, max {:.1} µs", self.p50, self.p99, self.max)
    }
}

#[cfg(test)]
mod tests;
