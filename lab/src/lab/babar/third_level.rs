//! BaBar's third-level trigger: 2 kHz of built events in, 100 Hz to disk; and the time that a
//! filter may take for each event until dead time begins.
//!
//! evb runs a builder's filter on the thread of its sink. So 15 builders at 2 kHz give a filter
//! 7.5 ms per event. The filter of the second part only waits, as a stand-in for computing on a
//! core that each builder has to itself.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, path::PathBuf, thread, time::Duration};

use anyhow::{Context as _, Result};
use clap::Args;
use evb::{
    builder::{Builder, BuilderConfig},
    event::Event,
    file::WriterOptions,
    filter::{Filter as _, FilterVerdict, Prescale},
    id::BuilderId,
    shaping::{CELL, PacketCost, Shaping},
    sink::FileSink,
    units::{Bytes, Rate},
};
use serde_json::json;

use super::{
    super::{
        bench::Bench,
        network::{Network, Shape, address},
        outcome::Outcome,
        report::{Bound, Report},
        system::{Mode, System, ThirdLevel, Trigger},
    },
    FRAGMENT, shape,
};

/// Rates of triggers, in events per second; of these, one event in `KEEP_EVERY` goes to disk.
const HERTZ: f64 = 2000.0;
const KEEP_EVERY: u32 = 20;
/// Sources and fragments of the second part, whose events are so small that two cores carry 2 kHz
/// with 15 builders. The time that a filter may take does not depend on the size of events.
const SOURCES: u16 = 4;
const SMALL_FRAGMENT: u64 = 250;
/// Times of the filter per event, as shares of the time that a builder has for an event. The first
/// and the last are those of the short form.
const SHARES: [f64; 7] = [0.0, 0.5, 0.8, 0.9, 1.0, 1.1, 1.4];
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
    let shares = SHARES.into_iter().enumerate();
    let shares: Vec<f64> = shares
        .filter(|(place, _)| !is_short || [1, SHARES.len() - 1].contains(place))
        .map(|(_, share)| share)
        .collect();
    let name = |share: f64| format!("{SOURCES}x15 filter {:.2} ms", share * each_s * 1e3);
    if !shares.iter().any(|share| bench.wants(&name(*share))) {
        return Ok(());
    }
    let network = Network::up(shape)?;
    let mut points = Vec::new();
    for share in shares {
        let name = name(share);
        if bench.wants(&name) {
            let outcome = slow(bench, &network, &name, share * each_s)?;
            report.add(&outcome);
            points.push(judge(&outcome, share, each_s, report));
        }
    }
    let without = points.iter().filter(|point| point.dead <= NONE).map(|point| point.filter_ms);
    report.note(format!(
        "dead time begins above {:.2} ms of filter per event at {HERTZ} Hz, measured in steps; {} builders with one thread each have {:.2} ms",
        without.fold(0.0, f64::max),
        network.shape().builders,
        each_s * 1e3
    ));
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
    report.holds_timed(&format!("{name}: part of 100 Hz to disk"), written / asked, Bound::AtLeast(KEPT));
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

/// Result of a run with a slow filter.
struct Point {
    filter_ms: f64,
    dead: f64,
    rate: f64,
    busy: f64,
}

impl Point {
    fn json(&self) -> serde_json::Value {
        json!({
            "filter_ms": self.filter_ms,
            "dead_time_fraction": self.dead,
            "events_per_s": self.rate,
            "machine_busy": self.busy,
        })
    }
}

/// Checks dead time where the time of the filter leaves no doubt, and returns the run's result.
fn judge(outcome: &Outcome, share: f64, each_s: f64, report: &mut Report) -> Point {
    built(outcome, report);
    let point = Point {
        filter_ms: share * each_s * 1e3,
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
        report.holds_timed(&what, point.dead, Bound::AtMost(NONE));
    } else if share >= BUSY {
        report.holds(&what, point.dead, Bound::AtLeast(SURPLUS * (1.0 - 1.0 / share)));
    }
    point
}

/// Runs a system whose builders are programs of the lab with a filter that takes `seconds` per
/// event.
fn slow(bench: &Bench, network: &Network, name: &str, seconds: f64) -> Result<Outcome> {
    let (own, shape) = (std::env::current_exe()?, network.shape());
    let quoted = |path: &std::path::Path| format!("'{}'", path.display());
    // The lab starts every role by the same program; this one starts builders as programs of the
    // lab and all other roles as evbd.
    let script = format!(
        "#!/bin/sh\ncase \"$4\" in\nbuilder:*) exec {} lab-traffic filtered \"${{4#builder:}}\" --filter-us {:.0} --port-rate {} --port-buffer {} --lanes {} --out {} ;;\n*) exec {} \"$@\" ;;\nesac\n",
        quoted(&own),
        seconds * 1e6,
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
pub(crate) struct Filtered {
    /// Id of the builder.
    builder: u16,
    /// Time of the filter per event, in microseconds.
    #[arg(long)]
    filter_us: u64,
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
    let (time, mut prescale) = (Duration::from_micros(args.filter_us), Prescale::new(KEEP_EVERY.into()));
    let filter = move |event: &Event| -> FilterVerdict {
        thread::sleep(time);
        prescale.verdict(event)
    };
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
