//! Compares the shaping modes for 4 to 32 sources: goodput and drops at full speed, latency below
//! saturation.

use std::fs;

use anyhow::{Context as _, Result};
use evb_bench::modes::{ModePoint, ModeTable};
use lab_base::{
    bench::Bench,
    network::{Network, Shape},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, Trigger, port_capacity, safe_window},
};

const FRAGMENT: u64 = 64_000;
const SOURCES: [u16; 4] = [4, 8, 16, 32];
/// Load at which latencies are compared, as a share of the port's rate; all shaping modes can carry
/// it.
const LOAD: f64 = 0.63;

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("modes");
    let mut points = Vec::new();
    for sources in SOURCES {
        let shape =
            Shape { sources, builders: 1, rate: 1_000_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN };
        let network = Network::up(shape)?;
        for mode in [Mode::Credit, Mode::Window(safe_window(shape)), Mode::TokenBucket, Mode::None] {
            let name = format!("{sources}x1 {}", mode.name());
            if bench.wants(&name) {
                points.push(point(bench, &network, &mut report, &name, mode)?);
            }
        }
    }
    let table = ModeTable {
        world: "network lab".to_owned(),
        setting: format!(
            "one builder, {FRAGMENT} B fragments, 1 Gbit/s ports of 128 KiB, 16 slots, {} s a run",
            bench.seconds
        ),
        load: LOAD,
        points,
        nodes: Vec::new(),
    };
    println!("\n{}", table.text());
    let figure = bench.out.join("modes.svg");
    fs::write(&figure, table.figure().svg()?).with_context(|| figure.display().to_string())?;
    report.note(format!("figure: {}", figure.display()));
    Ok(report)
}

fn point(bench: &Bench, network: &Network, report: &mut Report, name: &str, mode: Mode) -> Result<ModePoint> {
    let shape = network.shape();
    // The admission check only warns, so that inadmissible cases can be measured too: with many
    // sources, windows are smaller than a packet, and token bucket rates add up to nearly the
    // port's rate.
    let system = || System::new(mode, FRAGMENT).slots(16).warn();
    let full = bench.run(network, name, system())?;
    report.add(&full);
    let trigger = Trigger::Periodic(LOAD / system().wire_time(shape));
    let loaded =
        bench.run(network, &format!("{name} at {:.0} %", LOAD * 100.0), system().trigger(trigger))?;
    report.add(&loaded);
    if mode != Mode::None {
        report.yes(&format!("{name}: every event complete"), full.is_complete() && loaded.is_complete());
    }
    if mode == Mode::Credit {
        let drops = (full.drops() + loaded.drops()) as f64;
        report.holds(&format!("{name}: packets dropped"), drops, Bound::AtMost(0.0));
    }
    let count = |outcome: &Outcome, key: &str| outcome.number(key) as u64;
    Ok(ModePoint {
        mode: mode.name().to_owned(),
        sources: shape.sources,
        builders: shape.builders,
        goodput_bits_per_s: full.goodput() as u64,
        capacity_bits_per_s: port_capacity(shape, full.system.transport, FRAGMENT) as u64,
        drops: full.drops(),
        retransmits: count(&full, "network.tcp_retransmits"),
        complete: count(&full, "events.complete"),
        not_complete: count(&full, "events.incomplete") + count(&full, "events.lost"),
        latency_us_p99: full.latency_us("p99"),
        queue_peak_bytes: None,
        at_load_drops: loaded.drops(),
        at_load_latency_us_p50: loaded.latency_us("p50"),
        at_load_latency_us_p99: loaded.latency_us("p99"),
    })
}
