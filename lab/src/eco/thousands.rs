//! Tests a run with a thousand sources and 16 builders in a few processes on loopback: how long it
//! takes to start, if all events are complete, the cost of idle lanes, and a crash of a process
//! with hundreds of sources.

mod system;

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use lab_base::{
    alone::{self, IP, SETPRIV, UNSHARE},
    needs::Need,
    report::{Bound, Report},
    setting::Setting,
};
use serde_json::{Value, json};

use self::system::{Size, System};

pub(crate) const NEEDS: &[Need] = &[SETPRIV, UNSHARE, IP];

/// Longest time from the first process to the last of all connections.
const START: Duration = Duration::from_secs(30);
/// Time for which the processor time of idle processes is measured.
const IDLE: Duration = Duration::from_secs(20);
/// Most processor time of an idle process, as a fraction of one core.
const IDLE_LOAD: f64 = 0.01;
/// Time from the last connection to the measurement of idle processes.
const SETTLED: Duration = Duration::from_secs(5);
/// Time for which the killed process is away.
const AWAY: Duration = Duration::from_secs(3);
/// Triggers of the run in which a process is killed, and their rate in 1/s.
const TRIGGERS: (u64, u64) = (400, 20);
/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(400);

#[derive(Args)]
pub(crate) struct ThousandsArgs {
    /// Number of sources.
    #[arg(long, default_value_t = 1000)]
    sources: u16,
    /// Number of builders, which share one process.
    #[arg(long, default_value_t = 16)]
    builders: u16,
    /// Number of processes among which the sources are divided.
    #[arg(long, default_value_t = 4)]
    processes: u16,
    /// Number of events in the first run.
    #[arg(long, default_value_t = 10_000)]
    events: u64,
    /// Run a smaller system for a shorter time, and only note the load of idle processes.
    #[arg(long)]
    short: bool,
    /// Used internally: states that this process already runs inside its own namespaces.
    #[arg(long, hide = true)]
    inside: bool,
}

pub(super) fn run(setting: &Setting, args: &ThousandsArgs) -> Result<u8> {
    ensure!(
        args.processes >= 2 && args.sources >= args.processes,
        "--processes is {}, and must be at least 2 and at most --sources = {}",
        args.processes,
        args.sources
    );
    // The command starts itself again in a network namespace of its own.
    if !args.inside {
        let mut again = setting.again("thousands");
        again.extend([format!("--sources={}", args.sources), format!("--builders={}", args.builders)]);
        again.extend([format!("--processes={}", args.processes), format!("--events={}", args.events)]);
        again.extend(args.short.then(|| "--short".to_owned()));
        return alone::run(&again, LIMIT * 3);
    }
    let folder = setting.folder("thousands")?;
    let mut size = Size { sources: args.sources, builders: args.builders, processes: args.processes };
    let (mut report, mut events) = (Report::bare("thousands"), args.events);
    if args.short {
        (size, events) = (Size { sources: 300, builders: 4, processes: 3 }, 1000);
    }
    all_complete(setting, &folder, size, events, &mut report)?;
    idle(setting, &folder, size, &mut report)?;
    crash(setting, &folder, size, &mut report)?;
    Ok(u8::from(!report.finish(&setting.out)?))
}

/// Builds events as fast as possible.
fn all_complete(
    setting: &Setting,
    folder: &Path,
    size: Size,
    events: u64,
    report: &mut Report,
) -> Result<()> {
    let trigger = "\"as-fast-as-possible\"".to_owned();
    let mut system = System::start(&setting.evbd, &folder.join("events"), size, events, &trigger)?;
    let took = system.connected(LIMIT)?;
    report.noisy(
        "seconds until all lanes are connected",
        took.as_secs_f64(),
        Bound::AtMost(START.as_secs_f64()),
    );
    let summary = system.finish(LIMIT)?;
    println!("{}, {:.0} events/s", text(&summary["verdict"]), number(&summary["rates"]["events_per_s"]));
    report.holds("complete events", number(&summary["events"]["complete"]), Bound::AtLeast(events as f64));
    report.holds("exit code", number(&summary["exit_code"]), Bound::AtMost(0.0));
    report.attach("events", summary);
    Ok(())
}

/// Measures processes without triggers.
fn idle(setting: &Setting, folder: &Path, size: Size, report: &mut Report) -> Result<()> {
    let trigger = "{ kind = \"periodic\", rate = \"0.001 Hz\" }".to_owned();
    let mut system = System::start(&setting.evbd, &folder.join("idle"), size, 1, &trigger)?;
    system.connected(LIMIT)?;
    thread::sleep(SETTLED);
    let before = system.usage()?;
    thread::sleep(IDLE);
    for ((name, earlier), (_, later)) in before.iter().zip(system.usage()?) {
        let load = (later.processor - earlier.processor).as_secs_f64() / IDLE.as_secs_f64();
        let lanes = size.lanes_of(name);
        let per_lane = later.memory.checked_div(lanes).unwrap_or_default();
        println!(
            "idle {name}: {:.2} % of a core, {} kB, {per_lane} B per lane",
            load * 100.0,
            later.memory / 1000
        );
        report.noisy(&format!("idle {name}: fraction of a core"), load, Bound::AtMost(IDLE_LOAD));
        let usage =
            json!({ "load": load, "memory": later.memory, "lanes": lanes, "memory_per_lane": per_lane });
        report.attach(&format!("idle {name}"), usage);
    }
    Ok(())
}

/// Kills a process with many sources, and starts it again.
fn crash(setting: &Setting, folder: &Path, size: Size, report: &mut Report) -> Result<()> {
    let (count, rate) = TRIGGERS;
    let trigger = format!("{{ kind = \"periodic\", rate = \"{rate} Hz\" }}");
    let mut system = System::start(&setting.evbd, &folder.join("crash"), size, count, &trigger)?;
    system.connected(LIMIT)?;
    thread::sleep(SETTLED);
    system.kill_sources()?;
    thread::sleep(AWAY);
    system.start_sources()?;
    let summary = system.finish(LIMIT)?;
    println!("{}", text(&summary["verdict"]));
    let events = |key: &str| number(&summary["events"][key]);
    report.holds("crash: assigned events", events("assigned"), Bound::AtLeast(count as f64));
    let accounted = events("complete") + events("incomplete") + events("lost") + events("rejected");
    report.yes("crash: every event is accounted for", accounted == events("assigned"));
    report.holds("crash: lost events", events("lost"), Bound::AtMost(0.0));
    report.holds("crash: events without the sources", events("incomplete"), Bound::AtLeast(1.0));
    report.yes("crash: events are complete again afterwards", events("complete") > count as f64 / 2.0);
    report.attach("crash", summary);
    Ok(())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("no verdict")
}

/// Waits until `is` returns a value, and returns it.
fn wait<T>(what: &str, limit: Duration, mut is: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(value) = is()? {
            return Ok(value);
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("never {what} within {} s", limit.as_secs())
}

/// Reads a JSON file.
fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
