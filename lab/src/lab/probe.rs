//! Tests `evbd probe-buffer` on switch ports with known buffers: it must measure the size of the
//! buffer, and must report if it could not overflow it.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use lab_base::{
    bench::Bench,
    guard::Guarded,
    interrupt,
    network::{Network, Shape, address},
    outcome::median,
    report::{Bound, Report},
};
use serde_json::Value;

/// Largest allowed relative error of a measured buffer.
const TOLERANCE: f64 = 0.15;

/// A switch port to measure.
struct Case {
    sources: u16,
    mbit: u64,
    kib: u64,
    /// True if the error must be within the tolerance. False if the error is only noted, because
    /// two cores do not overload a fast port reliably.
    bound: bool,
}

const fn case(sources: u16, mbit: u64, kib: u64, bound: bool) -> Case {
    Case { sources, mbit, kib, bound }
}

const CASES: [Case; 8] = [
    case(2, 100, 64, true),
    case(2, 100, 128, true),
    case(2, 100, 256, true),
    case(3, 100, 128, true),
    case(2, 10, 64, true),
    case(2, 100, 40, false),
    case(2, 1_000, 40, false),
    case(2, 1_000, 128, false),
];

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::bare("probe");
    println!(
        "{:<28} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9}",
        "case", "buffer", "found", "error", "bursts", "counted", "by delay"
    );
    for case in CASES {
        let shape = shape(case.sources, case.mbit, case.kib);
        let name = format!("{}x1 at {} Mbit/s, {} KiB", case.sources, case.mbit, case.kib);
        if bench.wants(&name) {
            measure(bench, &mut report, &case, shape, &name)?;
        }
    }
    // With a single sender, the port cannot be overloaded, because its rate equals that of the
    // sender's link.
    let alone = "1x1 at 100 Mbit/s, 128 KiB";
    if bench.wants(alone) {
        let network = Network::up(shape(1, 100, 128))?;
        let found = probe(bench, &network)?;
        println!(
            "{alone:<28} {:>9} {:>9}",
            bytes(Some(131_072.0)),
            bytes(found["port_buffer_bytes"].as_f64())
        );
        report.yes(&format!("{alone}: not reached"), found["reached"] == false);
    }
    Ok(report)
}

fn shape(sources: u16, mbit: u64, kib: u64) -> Shape {
    Shape { sources, builders: 1, rate: mbit * 1_000_000, port_buffer: kib * 1024, ..Shape::PLAIN }
}

fn measure(bench: &Bench, report: &mut Report, case: &Case, shape: Shape, name: &str) -> Result<()> {
    let network = Network::up(shape)?;
    let truth = shape.port_buffer as f64;
    let mut errors = Vec::new();
    for _ in 0..bench.runs {
        let found = probe(bench, &network)?;
        let error = found["port_buffer_bytes"].as_f64().map_or(f64::NAN, |buffer| buffer / truth - 1.0);
        let shown = |key: &str| bytes(found[key]["median"].as_f64());
        println!(
            "{name:<28} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9}",
            bytes(Some(truth)),
            bytes(found["port_buffer_bytes"].as_f64()),
            if error.is_finite() { format!("{:+.1} %", error * 100.0) } else { "-".into() },
            found["estimates"].as_array().map_or(0, Vec::len),
            shown("counted_bytes"),
            shown("delay_bytes"),
        );
        if case.bound {
            report.holds(&format!("{name}: off by"), error.abs(), Bound::AtMost(TOLERANCE));
        }
        errors.push(error);
    }
    let reached = errors.iter().filter(|error| error.is_finite()).count();
    let runs = errors.len();
    let off = median(errors.into_iter().filter(|error| error.is_finite()));
    let off = if off.is_finite() { format!(", median error {:+.1} %", off * 100.0) } else { String::new() };
    report.note(format!("{name}: found in {reached} of {runs} runs{off}"));
    Ok(())
}

/// Runs one measurement with a sender on every source's host, and returns the JSON that the
/// listener on host `b1` prints.
fn probe(bench: &Bench, network: &Network) -> Result<Value> {
    let evbd = bench.evbd.to_string_lossy();
    let (listener, sources) = (address("b1")?, network.shape().sources);
    let mut senders = Vec::new();
    for i in 1..=sources {
        let host = format!("s{i}");
        let mut command: Command = network.command(&host, &evbd);
        command.args(["probe-buffer", "send", &listener, "--bind", &address(&host)?]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        senders.push(Guarded(child.with_context(|| format!("starting a sender on {host}"))?));
    }
    let mut command: Command = network.command("b1", &evbd);
    command.args(["probe-buffer", "listen", &listener, "--json", "--senders", &sources.to_string()]);
    let output = command.stdin(Stdio::null()).output().context("starting the listener")?;
    interrupt::check()?;
    if !output.status.success() {
        bail!("evbd probe-buffer listen: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    for sender in &mut senders {
        if !sender.0.wait()?.success() {
            bail!("a sender did not end well");
        }
    }
    serde_json::from_slice(&output.stdout).context("reading what the listener found")
}

fn bytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(|| "-".into(), |bytes| format!("{:.1}K", bytes / 1024.0))
}
