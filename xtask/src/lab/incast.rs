//! Incast: every source sends its part of one event to one builder, whose port can hold a quarter of it, or a sixteenth.

use anyhow::Result;

use super::{
    bench::Bench,
    network::{Network, Shape},
    outcome::{Outcome, median},
    report::{Bound, Report},
    system::{Mode, System, Trigger, safe_window},
};

/// Bytes of a fragment.
const FRAGMENT: u64 = 64_000;
/// Share of the port that shaped traffic must reach.
const GOODPUT: f64 = 0.95;
/// Share of packets lost at random in the lossy run, in percent.
const LOSS: f64 = 0.1;
/// Loads at which latency is judged.
const LOADS: [f64; 2] = [0.63, 0.75];

/// A gigabit port with 128 KiB.
pub(crate) fn shape(sources: u16) -> Shape {
    Shape { sources, builders: 1, rate: 1_000_000_000, port_buffer: 128 * 1024 }
}

/// Events per second that fill a share of the port.
fn load(shape: Shape, share: f64) -> Trigger {
    Trigger::Periodic(share / System::new(Mode::Credit, FRAGMENT).wire_time(shape))
}

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("incast");
    for sources in [8, 32] {
        let network = Network::up(shape(sources))?;
        throughput(bench, &network, &mut report)?;
        tail(bench, &network, &mut report)?;
        if sources == 8 {
            latency(bench, &network, &mut report)?;
            overload(bench, &network, &mut report)?;
        }
    }
    Ok(report)
}

/// Credit at full speed: the port is full and nothing is dropped.
pub(crate) fn credit(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    let name = format!("{}x1 credit", network.shape().sources);
    if bench.wants(&name) {
        let outcome = bench.run(network, &name, System::new(Mode::Credit, FRAGMENT))?;
        report.add(&outcome);
        report.clean(&outcome);
        report.holds_timed(
            &format!("{name}: share of the port's goodput"),
            outcome.goodput_share(),
            Bound::AtLeast(GOODPUT),
        );
    }
    Ok(())
}

/// A window per lane of which all together fit into the port.
pub(crate) fn window(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    let name = format!("{}x1 window", network.shape().sources);
    if bench.wants(&name) {
        let window = Mode::Window(safe_window(network.shape()));
        let outcome = bench.run(network, &name, System::new(window, FRAGMENT))?;
        report.add(&outcome);
        report.clean(&outcome);
    }
    Ok(())
}

/// No shaping: what the others are measured against.
pub(crate) fn none(bench: &Bench, network: &Network, report: &mut Report, slots: u32) -> Result<()> {
    let name = format!("{}x1 none slots {slots}", network.shape().sources);
    if bench.wants(&name) {
        let outcome = bench.run(network, &name, System::new(Mode::None, FRAGMENT).slots(slots).warn())?;
        report.add(&outcome);
        if slots > 1 {
            report.holds(&format!("{name}: packets dropped"), outcome.drops() as f64, Bound::AtLeast(1001.0));
        }
        let goodput = outcome.goodput() / 1e6;
        report.note(format!("{name}: goodput {goodput:.1} Mbit/s, {} packets dropped", outcome.drops()));
    }
    Ok(())
}

fn throughput(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    credit(bench, network, report)?;
    let name = format!("{}x1 credit lossy", network.shape().sources);
    if bench.wants(&name) {
        network.loss("b1", LOSS)?;
        let outcome = bench.run(network, &name, System::new(Mode::Credit, FRAGMENT));
        network.loss("b1", 0.0)?;
        let outcome = outcome?;
        report.add(&outcome);
        report.yes(&format!("{name}: every event complete at {LOSS} % loss"), outcome.is_complete());
        let retransmits = outcome.number("network.tcp_retransmits");
        report.holds(&format!("{name}: losses that TCP repaired"), retransmits, Bound::AtLeast(1.0));
    }
    window(bench, network, report)?;
    none(bench, network, report, 1)?;
    none(bench, network, report, 16)
}

/// The same periodic load with and without credit: what the drops cost in latency.
fn tail(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    let shape = network.shape();
    let name = format!("{}x1 tail", shape.sources);
    if bench.wants(&name) {
        let at = |mode| System::new(mode, FRAGMENT).trigger(load(shape, 0.75)).warn();
        let credit = bench.run(network, &format!("{name} credit"), at(Mode::Credit))?;
        report.add(&credit);
        let none = bench.run(network, &format!("{name} none"), at(Mode::None))?;
        report.add(&none);
        let ratio = none.latency_us("p99") / credit.latency_us("p99");
        report.holds_timed(
            &format!("{name}: p99 without shaping over p99 with credit"),
            ratio,
            Bound::AtLeast(10.0),
        );
    }
    Ok(())
}

/// Below saturation an event takes little longer than its own time on the wire.
fn latency(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    for share in LOADS {
        let name = format!("8x1 credit at {:.0} %", share * 100.0);
        if !bench.wants(&name) {
            continue;
        }
        let mut outcomes: Vec<Outcome> = Vec::new();
        for run in 1..=bench.runs {
            let system = System::new(Mode::Credit, FRAGMENT).trigger(load(network.shape(), share));
            let outcome = bench.run(network, &format!("{name} run {run}"), system)?;
            report.add(&outcome);
            report.clean(&outcome);
            outcomes.push(outcome);
        }
        for (quantile, limit) in [("p50", 1.1), ("p99", 1.5)] {
            let share = median(outcomes.iter().map(|outcome| outcome.latency_share(quantile)));
            report.holds(&format!("{name}: median {quantile} over wire time"), share, Bound::AtMost(limit));
        }
    }
    Ok(())
}

/// Twice as many triggers as the port can carry: the surplus is inhibited, the port stays full.
fn overload(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    let name = "8x1 credit overload";
    if bench.wants(name) {
        let system = System::new(Mode::Credit, FRAGMENT).trigger(load(network.shape(), 2.0)).warn();
        let outcome = bench.run(network, name, system)?;
        report.add(&outcome);
        report.clean(&outcome);
        report.holds_timed(
            &format!("{name}: share of the port's goodput"),
            outcome.goodput_share(),
            Bound::AtLeast(GOODPUT),
        );
        report.holds(
            &format!("{name}: triggers inhibited"),
            outcome.number("events.inhibited"),
            Bound::AtLeast(1.0),
        );
    }
    Ok(())
}
