//! The shaping modes side by side for 4 to 32 sources: goodput and drops as fast as they go, latency below saturation.

use anyhow::Result;

use super::{
    bench::Bench,
    network::{Network, Shape},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, Trigger, safe_window},
};

const FRAGMENT: u64 = 64_000;
const SOURCES: [u16; 4] = [4, 8, 16, 32];
/// The load at which latency is compared: all modes carry it.
const LOAD: f64 = 0.63;

/// One line of the table.
struct Line {
    mode: &'static str,
    sources: u16,
    full: Outcome,
    loaded: Outcome,
}

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("modes");
    let mut lines = Vec::new();
    for sources in SOURCES {
        let shape = Shape { sources, builders: 1, rate: 1_000_000_000, port_buffer: 128 * 1024 };
        let network = Network::up(shape)?;
        for mode in [Mode::Credit, Mode::Window(safe_window(shape)), Mode::TokenBucket, Mode::None] {
            let name = format!("{sources}x1 {}", mode.name());
            if bench.wants(&name) {
                lines.push(line(bench, &network, &mut report, &name, mode)?);
            }
        }
    }
    println!("\n{}", table(&lines));
    Ok(report)
}

fn line(bench: &Bench, network: &Network, report: &mut Report, name: &str, mode: Mode) -> Result<Line> {
    let shape = network.shape();
    // Windows of many sources fall below a packet, and paces add up to nearly all of the port: both are to be seen.
    let system = || System::new(mode, FRAGMENT).warn();
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
    Ok(Line { mode: mode.name(), sources: shape.sources, full, loaded })
}

/// Goodput, drops and latency in one table, ready for a page.
fn table(lines: &[Line]) -> String {
    let mut table = String::from(
        "| sources | mode | goodput, Mbit/s | of the port | drops | p99, full, ms | drops at 63 % | p50 at 63 %, ms | p99 at 63 %, ms |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        table += &format!(
            "| {} | {} | {:.1} | {:.1} % | {} | {:.1} | {} | {:.2} | {:.2} |\n",
            line.sources,
            line.mode,
            line.full.goodput() / 1e6,
            line.full.goodput_share() * 100.0,
            line.full.drops(),
            line.full.latency_us("p99") / 1e3,
            line.loaded.drops(),
            line.loaded.latency_us("p50") / 1e3,
            line.loaded.latency_us("p99") / 1e3,
        );
    }
    table
}
