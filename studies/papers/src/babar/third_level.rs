//! BaBar's third-level trigger: 2 kHz of built events in, 100 Hz to disk; and the time that a
//! filter may take for each event until dead time begins.
//!
//! evb runs a builder's filter on the thread of its sink, and a `ParallelFilter` on several
//! threads. So 15 builders at 2 kHz give a filter 7.5 ms per event and thread. The filter of the
//! second part only waits, as a stand-in for computing on a core that each thread has to itself.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, path::PathBuf, thread, time::Duration};

use anyhow::{Context as _, Result};
use clap::Args;
use evb::{
    builder::{Builder, BuilderConfig},
    event::Event,
    file::WriterOptions,
    filter::{Filter as _, FilterVerdict, ParallelFilter, Prescale},
    id::BuilderId,
    shaping::{CELL, PacketCost, Shaping},
    sink::FileSink,
    units::{Bytes, Rate},
};
use lab_base::{
    bench::Bench,
    network::{Network, Shape, address},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, ThirdLevel, Trigger},
};
use serde_json::json;

use super::{FRAGMENT, shape};

/// Rates of triggers, in events per second; of these, one event in `KEEP_EVERY` goes to disk.
const HERTZ: f64 = 2000.0;
const KEEP_EVERY: u32 = 20;
/// Sources and fragments of the second part, whose events are so small that two cores carry 2 kHz
/// with 15 builders. The time that a filter may take does not depend on the size of events.
const SOURCES: u16 = 4;
const SMALL_FRAGMENT: u64 = 250;
/// Threads of each builder's filter, and times of the filter per event, as shares of the time that
/// a thread has for an event.
const CASES: [(usize, f64); 9] =
    [(1, 0.0), (1, 0.5), (1, 0.8), (1, 0.9), (1, 1.0), (1, 1.1), (1, 1.4), (2, 0.8), (2, 1.4)];
/// Places of the cases of the short form.
const SHORT_CASES: [usize; 3] = [1, 6, 7];
/// Duration of a run below which only the short form's times are tested, in seconds.
const SHORT: f64 = 8.0;
/// Shares up to which no dead time is allowed, and from which some is required.
const FREE: f64 = 0.8;
const BUSY: f64 = 1.2;
/// Largest dead time that counts as none, as a share of the run: hosts of a lab on two cores wait
/// for a core now and then.
const NONE: f64 = 0.01;
/// Least dead time as a part of the share of events for which the filter has no time.
const SURPLUS: f64 = 0.5;
/// Least part of the asked rates.
const KEPT: f64 = 0.95;

pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    whole(bench, report)?;
    let shape = Shape { sources: SOURCES, ..shape(100) };
    let each_s = f64::from(shape.builders) / HERTZ;
    let is_short = bench.seconds < SHORT;
    let cases = CASES.iter().enumerate();
    let cases = cases.filter(|(place, _)| !is_short || SHORT_CASES.contains(place));
    let cases: Vec<Case> =
        cases.map(|(_, (threads, share))| Case { threads: *threads, share: *share, each_s }).collect();
    if !cases.iter().any(|case| bench.wants(&case.name())) {
        return Ok(());
    }
    let network = Network::up(shape)?;
    let mut points = Vec::new();
    for case in cases {
        if bench.wants(&case.name()) {
            let outcome = slow(bench, &network, &case)?;
            report.add(&outcome);
            points.push(judge(&outcome, &case, report));
        }
    }
    for (threads, words) in [(1, "one thread"), (2, "two threads")] {
        let own: Vec<&Point> = points.iter().filter(|point| point.threads == threads).collect();
        report.note(format!(
            "dead time begins {} of filter per event at {HERTZ} Hz; {} builders with {words} each have {:.2} ms",
            begins(&own),
            network.shape().builders,
            each_s * threads as f64 * 1e3
        ));
    }
    report.attach("filter", points.iter().map(Point::json).collect());
    Ok(())
}

/// Runs 22 sources and 15 builders at 2 kHz, with a filter that keeps one event in twenty, and
/// checks that exactly these events are written.
fn whole(bench: &Bench, report: &mut Report) -> Result<()> {
    let name = "22x15 third level";
    if !bench.wants(name) {
        return Ok(());
    }
    let network = Network::up(shape(100))?;
    let level = ThirdLevel { keep_every: KEEP_EVERY, folder: bench.out.join(Bench::case(name)) };
    let system = System::new(Mode::Credit, FRAGMENT).trigger(Trigger::Periodic(HERTZ)).third_level(level);
    let outcome = bench.run(&network, name, system)?;
    report.add(&outcome);
    built(&outcome, report);
    let written = outcome.number("events.written") / outcome.number("duration_s");
    report.note(format!(
        "{name}: {:.0} events/s in, {written:.1} to disk; dead time {:.2} %, machine busy {:.0} %",
        built_per_s(&outcome),
        outcome.number("dead_time_fraction") * 100.0,
        outcome.machine_busy * 100.0
    ));
    let asked = HERTZ / f64::from(KEEP_EVERY);
    report.noisy(&format!("{name}: part of 100 Hz to disk"), written / asked, Bound::AtLeast(KEPT));
    Ok(())
}

/// Checks that every event is either written or rejected, and one in twenty written. evb counts
/// rejected events apart from complete ones.
fn built(outcome: &Outcome, report: &mut Report) {
    let name = &outcome.name;
    let [assigned, written, rejected] =
        ["assigned", "written", "rejected"].map(|key| outcome.number(&format!("events.{key}")));
    report.holds(&format!("{name}: events accepted or rejected"), written + rejected, Bound::AtLeast(1.0));
    report.holds(
        &format!("{name}: events neither written nor rejected"),
        (assigned - written - rejected).abs(),
        Bound::AtMost(0.0),
    );
    // The filter goes by event ids, which inhibited triggers use up too.
    if outcome.number("events.inhibited") == 0.0 {
        let off = (written - (assigned / f64::from(KEEP_EVERY)).floor()).abs();
        report.holds(&format!("{name}: written, off one in twenty"), off, Bound::AtMost(0.0));
    }
    report.yes(&format!("{name}: every process ended well"), outcome.codes.values().all(|code| *code == 0));
    report.holds(&format!("{name}: packets dropped"), outcome.drops() as f64, Bound::AtMost(0.0));
}

/// Returns the rate of events that were built, before the filter.
fn built_per_s(outcome: &Outcome) -> f64 {
    outcome.number("events.assigned") / outcome.number("duration_s")
}

/// A run with a slow filter.
struct Case {
    /// Threads of each builder's filter.
    threads: usize,
    /// Time of the filter per event, as a share of the time that a thread has for an event.
    share: f64,
    /// Time that a builder has for an event, in seconds.
    each_s: f64,
}

impl Case {
    /// Returns the time of the filter per event in seconds.
    fn seconds(&self) -> f64 {
        self.share * self.each_s * self.threads as f64
    }

    fn name(&self) -> String {
        let threads = if self.threads == 1 { String::new() } else { format!(" on {} threads", self.threads) };
        format!("{SOURCES}x15 filter {:.2} ms{threads}", self.seconds() * 1e3)
    }
}

/// Result of a run with a slow filter.
struct Point {
    threads: usize,
    filter_ms: f64,
    dead: f64,
    rate: f64,
    busy: f64,
}

impl Point {
    fn json(&self) -> serde_json::Value {
        json!({
            "threads": self.threads,
            "filter_ms": self.filter_ms,
            "dead_time_fraction": self.dead,
            "events_per_s": self.rate,
            "machine_busy": self.busy,
        })
    }
}

/// Describes between which times of the filter dead time begins. The points are in the order of
/// their times.
fn begins(points: &[&Point]) -> String {
    let first = points.iter().position(|point| !(point.rate > 0.0 && point.dead <= NONE));
    let at = |place: usize| format!("{:.2} ms", points[place].filter_ms);
    match first {
        Some(0) => format!("below {}", at(0)),
        Some(place) => format!("between {} and {}", at(place - 1), at(place)),
        None => "above all tested times".to_owned(),
    }
}

/// Checks dead time where the time of the filter leaves no doubt, and returns the run's result.
fn judge(outcome: &Outcome, case: &Case, report: &mut Report) -> Point {
    built(outcome, report);
    let share = case.share;
    let point = Point {
        threads: case.threads,
        filter_ms: case.seconds() * 1e3,
        dead: outcome.number("dead_time_fraction"),
        rate: built_per_s(outcome),
        busy: outcome.machine_busy,
    };
    report.note(format!(
        "{}: {:.0} events/s, dead time {:.2} %, machine busy {:.0} %",
        outcome.name,
        point.rate,
        point.dead * 100.0,
        point.busy * 100.0
    ));
    let what = format!("{}: dead time", outcome.name);
    if share <= FREE {
        report.noisy(&what, point.dead, Bound::AtMost(NONE));
    } else if share >= BUSY {
        report.noisy(&what, point.dead, Bound::AtLeast(SURPLUS * (1.0 - 1.0 / share)));
    }
    point
}

/// Runs a system whose builders are programs of the lab with a filter that takes time.
fn slow(bench: &Bench, network: &Network, case: &Case) -> Result<Outcome> {
    let name = &case.name();
    let (own, shape) = (std::env::current_exe()?, network.shape());
    let quoted = |path: &std::path::Path| format!("'{}'", path.display());
    // The lab starts every role by the same program; this one starts builders as programs of the
    // lab and all other roles as evbd.
    let script = format!(
        "#!/bin/sh\ncase \"$4\" in\nbuilder:*) exec {} lab-traffic filtered \"${{4#builder:}}\" --filter-us {:.0} --threads {} --port-rate {} --port-buffer {} --lanes {} --out {} ;;\n*) exec {} \"$@\" ;;\nesac\n",
        quoted(&own),
        case.seconds() * 1e6,
        case.threads,
        shape.rate,
        shape.port_buffer,
        shape.sources,
        quoted(&bench.out.join(Bench::case(name))),
        quoted(&bench.evbd),
    );
    let program = bench.out.join("filtered.sh");
    fs::write(&program, script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let system = System::new(Mode::Credit, SMALL_FRAGMENT).trigger(Trigger::Periodic(HERTZ));
    bench.run_program(&program, network, name, system)
}

/// Arguments of a builder whose filter takes time.
#[derive(Args, Clone, Debug)]
pub struct Filtered {
    /// Id of the builder.
    builder: u16,
    /// Time of the filter per event, in microseconds.
    #[arg(long)]
    filter_us: u64,
    /// Threads of the filter.
    #[arg(long)]
    threads: usize,
    /// Rate of the switch's port, in bit/s.
    #[arg(long)]
    port_rate: u64,
    /// Buffer of the port, in bytes.
    #[arg(long)]
    port_buffer: u64,
    /// Number of sources.
    #[arg(long)]
    lanes: u64,
    /// Folder for the folders of the event files.
    #[arg(long)]
    out: PathBuf,
}

/// Builds events until the run ends.
pub(crate) fn build(args: &Filtered) -> Result<()> {
    let (port, rate) = (Bytes::new(args.port_buffer), Rate::from_bits_per_second(args.port_rate));
    let mut config = BuilderConfig::new(BuilderId::new(args.builder), format!("{}:7000", address("sup")?));
    let listen: SocketAddr = format!("{}:7101", address(&format!("b{}", args.builder))?).parse()?;
    config.listen = listen.to_string();
    config.shaping = Shaping::credit_for(port, Some(rate), args.lanes, &PacketCost::tcp(1500, CELL));
    config.queue_delay = port / rate;
    config.lane.congestion_control = Some("cubic".to_owned());
    let time = Duration::from_micros(args.filter_us);
    let filter = |_| {
        let mut prescale = Prescale::new(KEEP_EVERY.into());
        move |event: &Event| -> FilterVerdict {
            thread::sleep(time);
            prescale.verdict(event)
        }
    };
    let filter = ParallelFilter::new((0..args.threads).map(filter));
    let folder = args.out.join(format!("disk-{}", args.builder));
    let sink = FileSink::new(folder, WriterOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let builder = Builder::connect_filtered(config, filter, sink).await.context("the builder")?;
        let outcome = builder.finished().await?;
        println!("{}", outcome.verdict);
        Ok(())
    })
}

#[cfg(test)]
mod tests;
