//! A frozen source: its process gets SIGSTOP in the middle of a run, like a crashed readout or a
//! swapping host.

use std::time::Duration;

use anyhow::{Context as _, Result};
use lab_base::{
    bench::Bench,
    fleet::Fleet,
    network::Network,
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, port_capacity},
};
use serde_json::Value;

use super::incast;

const FRAGMENT: u64 = 64_000;
const VICTIM: &str = "s8";
/// Time from the freeze until the rate of the other sources is measured. In this time, the missed
/// heartbeats and the deadline expire, and the events in progress end.
const SETTLE: Duration = Duration::from_secs(4);

/// Observations during the run: port counters after the freeze and before the end.
#[derive(Default)]
struct Watch {
    frozen: bool,
    from: Option<(Duration, u64)>,
    until: Option<(Duration, u64)>,
    ended: bool,
}

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("frozen");
    let network = Network::up(incast::shape(8))?;
    let freeze_at = Duration::from_secs_f64(bench.seconds * 0.3);
    let stop_at = Duration::from_secs_f64(bench.seconds * 0.95);
    let mut watch = Watch::default();
    let look = |fleet: &mut Fleet| turn(fleet, &network, &mut watch, freeze_at, stop_at);
    let outcome = bench.run_with(&network, "8x1 frozen source", System::new(Mode::Credit, FRAGMENT), look)?;
    report.add(&outcome);
    judge(&outcome, &watch, &mut report)?;
    Ok(report)
}

/// Freezes the victim, reads the port's counters while it is frozen, and kills it when all other
/// processes have ended.
fn turn(
    fleet: &mut Fleet,
    network: &Network,
    watch: &mut Watch,
    freeze_at: Duration,
    stop_at: Duration,
) -> Result<()> {
    let now = fleet.elapsed();
    let bytes = || network.ports().map(|ports| ports.get("b1").map_or(0, |port| port.bytes));
    if !watch.frozen && now >= freeze_at {
        fleet.signal(VICTIM, "STOP")?;
        watch.frozen = true;
    }
    if watch.from.is_none() && now >= freeze_at + SETTLE {
        watch.from = Some((now, bytes()?));
    }
    if watch.until.is_none() && now >= stop_at {
        watch.until = Some((now, bytes()?));
    }
    if !watch.ended && fleet.running() == [VICTIM] {
        fleet.signal(VICTIM, "KILL")?;
        watch.ended = true;
    }
    Ok(())
}

fn judge(outcome: &Outcome, watch: &Watch, report: &mut Report) -> Result<()> {
    let (from, until) = watch.from.zip(watch.until).context("the run was too short: --seconds 20")?;
    let wire = (until.1 - from.1) as f64 * 8.0 / (until.0 - from.0).as_secs_f64();
    let share = wire / outcome.shape.rate as f64;
    report.noisy("the port's rate while the source is frozen", share, Bound::AtLeast(0.95));
    let capacity = port_capacity(outcome.shape, outcome.system.transport, outcome.system.fragment) / 1e6;
    report.note(format!(
        "7 of 8 sources went on at {:.1} Mbit/s of L2 frames (payload at best {capacity:.1})",
        wire / 1e6
    ));
    report.holds("events incomplete", outcome.number("events.incomplete"), Bound::AtLeast(1.0));
    report.holds("packets dropped", outcome.drops() as f64, Bound::AtMost(0.0));
    let triggered = outcome.number("events.triggered");
    let sum: f64 = ["inhibited", "complete", "incomplete", "lost"]
        .map(|k| outcome.number(&format!("events.{k}")))
        .iter()
        .sum();
    report.holds("the ledger: triggered less all outcomes", (triggered - sum).abs(), Bound::AtMost(0.0));
    for (id, missing) in missing_by_source(&outcome.summary) {
        let bound = if id == 8 { Bound::AtLeast(1.0) } else { Bound::AtMost(0.0) };
        report.holds(&format!("fragments missing of source {id}"), missing, bound);
    }
    report.yes("the summary names all 8 sources", missing_by_source(&outcome.summary).len() == 8);
    report.yes("the supervisor does not report success", outcome.codes.get("sup") == Some(&1));
    Ok(())
}

/// Returns the number of missing fragments of each source, from the supervisor's summary.
fn missing_by_source(summary: &Value) -> Vec<(u64, f64)> {
    let sources = summary["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
    sources
        .iter()
        .filter_map(|s| Some((s["id"].as_u64()?, s["missing"].as_f64().unwrap_or(f64::NAN))))
        .collect()
}
