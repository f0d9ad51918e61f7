//! The figure of the README: evb's credit and Linux's own TCP at one switch port, with 4 to 32
//! sources. Medians over several rounds, with error bars from the lowest to the highest value.

use std::fs;

use anyhow::{Context as _, Result};
use evb_bench::figure::{Axis, Chart, Curve, Figure};
use lab_base::{
    bench::Bench,
    network::Network,
    outcome::{Outcome, median},
    report::{Bound, Report},
    system::{Mode, System, Trigger},
};

use super::incast::{FRAGMENT, shape};

const SOURCES: [u16; 4] = [4, 8, 16, 32];
const MODES: [(Mode, &str); 2] = [(Mode::Credit, "evb with credit"), (Mode::None, "Linux's TCP alone")];
/// Slots of the builder.
const SLOTS: u32 = 4;
/// Load at which latency is measured, as a share of the port's rate: TCP alone carries it, too.
const LOAD: f64 = 0.4;

/// A measured quantity: its name, its unit, and its value in a pair of runs, at full speed and at
/// the lower load.
type Quantity = (&'static str, &'static str, fn(&Outcome, &Outcome) -> f64);

const QUANTITIES: [Quantity; 3] = [
    ("goodput", "Mbit/s", |full, _| full.goodput() / 1e6),
    ("dropped packets per 1000 events", "", |full, _| {
        1000.0 * full.drops() as f64 / full.number("events.complete").max(1.0)
    }),
    ("build latency p99 at 40 % load", "ms", |_, loaded| loaded.latency_us("p99") / 1e3),
];

/// The values of all rounds, by mode, number of sources and quantity.
type Values = [[[Vec<f64>; 3]; 4]; 2];

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("against-plain");
    let mut values = Values::default();
    for (place, sources) in SOURCES.into_iter().enumerate() {
        let network = Network::up(shape(sources))?;
        for round in 1..=bench.runs {
            for (of_mode, (mode, _)) in values.iter_mut().zip(MODES) {
                let (full, loaded) = pair(bench, &network, &mut report, mode, round)?;
                for (all, (.., value)) in of_mode[place].iter_mut().zip(QUANTITIES) {
                    all.push(value(&full, &loaded));
                }
            }
        }
    }
    let table = table(&values);
    println!("\n{table}");
    for (name, content) in
        [("against-plain.svg", figure(bench, &values).svg()?), ("against-plain.csv", csv(&values))]
    {
        let path = bench.out.join(name);
        fs::write(&path, content).with_context(|| path.display().to_string())?;
        report.note(path.display().to_string());
    }
    Ok(report)
}

/// Runs a mode at full speed and at a lower load.
fn pair(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    mode: Mode,
    round: usize,
) -> Result<(Outcome, Outcome)> {
    let name = format!("{}x1 {} {round}", network.shape().sources, mode.name());
    let system = || System::new(mode, FRAGMENT).slots(SLOTS).warn();
    let full = bench.run(network, &name, system())?;
    let trigger = Trigger::Periodic(LOAD / system().wire_time(network.shape()));
    let loaded = bench.run(network, &format!("{name} at 40 %"), system().trigger(trigger))?;
    for outcome in [&full, &loaded] {
        report.add(outcome);
        if mode == Mode::Credit {
            let what = format!("{}: packets dropped", outcome.name);
            report.holds(&what, outcome.drops() as f64, Bound::AtMost(0.0));
        }
    }
    Ok((full, loaded))
}

/// Returns median, lowest and highest value.
fn summary(values: &[f64]) -> [f64; 3] {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [median(values.iter().copied()), lowest, highest]
}

fn table(values: &Values) -> String {
    let mut text = String::from("| sources |");
    for (_, name) in MODES {
        QUANTITIES.iter().for_each(|(what, unit, _)| text += &format!(" {name}: {what}, {unit} |"));
    }
    text += &format!("\n|--:|{}\n", "--:|".repeat(MODES.len() * QUANTITIES.len()));
    for (place, sources) in SOURCES.iter().enumerate() {
        text += &format!("| {sources} |");
        for all in values.iter().flat_map(|of_mode| &of_mode[place]) {
            let [middle, low, high] = summary(all).map(evb_core::quantities::digits);
            text += &format!(" {middle} ({low} to {high}) |");
        }
        text += "\n";
    }
    text
}

fn csv(values: &Values) -> String {
    let mut text = String::from("mode,sources,quantity,unit,round,value\n");
    for (of_mode, (mode, _)) in values.iter().zip(MODES) {
        for (of_sources, sources) in of_mode.iter().zip(SOURCES) {
            for (all, (what, unit, _)) in of_sources.iter().zip(QUANTITIES) {
                for (round, value) in (1..).zip(all) {
                    text += &format!("{},{sources},{what},{unit},{round},{value}\n", mode.name());
                }
            }
        }
    }
    text
}

fn figure(bench: &Bench, values: &Values) -> Figure {
    let mut figure =
        Figure::new("One switch port, one builder: evb with credit, and Linux's TCP alone").columns(3);
    for (index, (what, unit, _)) in QUANTITIES.into_iter().enumerate() {
        let label = if unit.is_empty() { what.to_owned() } else { format!("{what} ({unit})") };
        let curve = |(of_mode, (_, name)): (&[[Vec<f64>; 3]; 4], (Mode, &str))| {
            let all = || of_mode.iter().map(|of_sources| summary(&of_sources[index]));
            let points =
                SOURCES.iter().map(|sources| f64::from(*sources)).zip(all().map(|[middle, ..]| middle));
            Curve::joined(name, points).with_errors(all().map(|[_, low, high]| (low, high)))
        };
        let y =
            if index == 2 { Axis::log(label.clone()) } else { Axis::linear(label.clone()).between(0.0, 1.0) };
        let x = Axis::log("Sources").between(3.0, 43.0);
        figure = figure.with(Chart::curves(x, y, values.iter().zip(MODES).map(curve).collect()).titled(what));
    }
    figure.note(format!(
        "Measured in evb's network lab: real processes and Linux's TCP (cubic) in network namespaces on one machine with two cores; \
         ports of 1 Gbit/s with 128 KiB, fragments of 64 kB, {SLOTS} slots, {} rounds of {} s each: median, lowest, highest.",
        bench.runs, bench.seconds
    ))
}
