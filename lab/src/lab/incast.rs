//! Incast: all sources send their fragments of one event to one builder at the same time. The
//! buffer of the builder's switch port holds a quarter of an event from 8 sources, or a sixteenth
//! of an event from 32.

use anyhow::Result;
use clap::Args;
use lab_base::{
    bench::Bench,
    network::{Network, Shape},
    outcome::{Outcome, median},
    reference,
    report::{Bound, Report},
    system::{Mode, System, Transport, Trigger, safe_window},
};

/// Size of a fragment, in bytes.
pub(crate) const FRAGMENT: u64 = 64_000;
/// Size of a fragment that fits into a packet, in bytes: 32 kB divided by 22, as in BaBar's event
/// builder.
pub(crate) const SMALL: u64 = 1455;
/// Share of the port's capacity that shaped traffic must reach.
const GOODPUT: f64 = 0.95;
/// Share of packets that are lost at random in the lossy run, in percent.
const LOSS: f64 = 0.1;
/// Place in a summary of the number of timers of datagram lanes that expired.
const TIMEOUTS: &str = "network.datagrams.timeouts";
/// Loads at which latency is measured, as shares of the port's rate.
const LOADS: [f64; 2] = [0.63, 0.75];

/// Returns a network with one builder behind a port of 1 Gbit/s with a buffer of 128 KiB.
pub(crate) fn shape(sources: u16) -> Shape {
    Shape { sources, builders: 1, rate: 1_000_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN }
}

#[derive(Args)]
pub(crate) struct IncastArgs {
    /// Rate of every port, in Mbit/s. A lower rate shows the same behaviour of the port, if two
    /// cores cannot carry 1000 Mbit/s from 32 sources.
    #[arg(long, default_value_t = 1000)]
    mbit: u64,
}

/// Returns a periodic trigger whose events use the given share of the port's rate.
fn load(shape: Shape, share: f64, transport: Transport) -> Trigger {
    Trigger::Periodic(share / System::new(Mode::Credit, FRAGMENT).over(transport).wire_time(shape))
}

/// Returns a system that triggers as fast as the builder takes events.
pub(crate) fn full_speed(mode: Mode, transport: Transport, fragment: u64) -> System {
    System::new(mode, fragment).over(transport)
}

/// Returns the name of a case at full speed.
fn name(network: &Network, mode: &str, transport: Transport, fragment: u64) -> String {
    let small = if fragment == SMALL { " small" } else { "" };
    Bench::name(&format!("{}x1 {mode}{small}", network.shape().sources), transport)
}

pub(crate) fn run(bench: &Bench, args: &IncastArgs) -> Result<Report> {
    let mut report = Report::new("incast");
    for sources in [8, 32] {
        let rate = args.mbit * 1_000_000;
        let network = Network::up(Shape { rate, mtu: bench.mtu, trains: bench.trains, ..shape(sources) })?;
        for transport in bench.transports {
            reference::run(bench, &network, &mut report, *transport)?;
            case(bench, &network, &mut report, *transport)?;
        }
    }
    Ok(report)
}

fn case(bench: &Bench, network: &Network, report: &mut Report, transport: Transport) -> Result<()> {
    for fragment in [FRAGMENT, SMALL] {
        credit(bench, network, report, transport, fragment)?;
        window(bench, network, report, transport, fragment)?;
    }
    lossy(bench, network, report, transport)?;
    if transport == Transport::Tcp {
        none(bench, network, report, 1)?;
        none(bench, network, report, 16)?;
        tail(bench, network, report)?;
    }
    if network.shape().sources == 8 {
        latency(bench, network, report, transport)?;
        overload(bench, network, report, transport)?;
    }
    Ok(())
}

/// Runs with credit at full speed, and checks that the port is full and drops no packet. If packets
/// are dropped after timers have expired, it runs once more, and only the second run counts.
pub(crate) fn credit(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    transport: Transport,
    fragment: u64,
) -> Result<()> {
    let name = name(network, "credit", transport, fragment);
    if bench.wants(&name) {
        let system = || full_speed(Mode::Credit, transport, fragment);
        let mut outcome = bench.run(network, &name, system())?;
        // While a busy machine stands still, timers expire and ask again for data that still wait
        // in the port; then the repeated data do not fit into it.
        if outcome.drops() > 0 && outcome.number(TIMEOUTS) > 0.0 {
            report.note(format!(
                "{name}: run again, because {} packets were dropped after timers had expired {} times",
                outcome.drops(),
                outcome.number(TIMEOUTS)
            ));
            outcome = bench.run(network, &name, system())?;
        }
        report.add(&outcome);
        report.clean(&outcome);
        report.noisy(
            &format!("{name}: share of the port's goodput"),
            outcome.goodput_share(),
            Bound::AtLeast(GOODPUT),
        );
    }
    Ok(())
}

/// Runs with a fixed window per lane, and checks that no packet is dropped, because all windows
/// together fit into the port's buffer.
pub(crate) fn window(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    transport: Transport,
    fragment: u64,
) -> Result<()> {
    let name = name(network, "window", transport, fragment);
    if bench.wants(&name) {
        let mode = Mode::Window(safe_window(network.shape()));
        let outcome = bench.run(network, &name, full_speed(mode, transport, fragment))?;
        report.add(&outcome);
        report.clean(&outcome);
    }
    Ok(())
}

/// Runs without shaping, as the reference for the shaping modes.
pub(crate) fn none(bench: &Bench, network: &Network, report: &mut Report, slots: u32) -> Result<()> {
    let name = format!("{}x1 none slots {slots}", network.shape().sources);
    if bench.wants(&name) {
        let outcome = bench.run(network, &name, System::new(Mode::None, FRAGMENT).slots(slots).warn())?;
        report.add(&outcome);
        if slots > 1 {
            let (what, drops) = (format!("{name}: packets dropped"), outcome.drops() as f64);
            report.holds(&what, drops, Bound::AtLeast(1.0));
            report.noisy(&what, drops, Bound::AtLeast(1001.0));
        }
        let goodput = outcome.goodput() / 1e6;
        report.note(format!("{name}: goodput {goodput:.1} Mbit/s, {} packets dropped", outcome.drops()));
    }
    Ok(())
}

/// Runs with random packet losses, and checks that all lost data are sent again.
fn lossy(bench: &Bench, network: &Network, report: &mut Report, transport: Transport) -> Result<()> {
    let name = name(network, "credit lossy", transport, FRAGMENT);
    if bench.wants(&name) {
        network.loss("b1", LOSS)?;
        let outcome = bench.run(network, &name, full_speed(Mode::Credit, transport, FRAGMENT));
        network.loss("b1", 0.0)?;
        let outcome = outcome?;
        report.add(&outcome);
        report.yes(&format!("{name}: every event complete at {LOSS} % loss"), outcome.is_complete());
        report.holds(&format!("{name}: losses repaired"), outcome.repeated(), Bound::AtLeast(1.0));
    }
    Ok(())
}

/// Runs the same periodic load with credit and without shaping, and compares tail latencies, which
/// drops increase.
fn tail(bench: &Bench, network: &Network, report: &mut Report) -> Result<()> {
    let shape = network.shape();
    let name = format!("{}x1 tail", shape.sources);
    if bench.wants(&name) {
        let at = |mode| System::new(mode, FRAGMENT).trigger(load(shape, 0.75, Transport::Tcp)).warn();
        let credit = bench.run(network, &format!("{name} credit"), at(Mode::Credit))?;
        report.add(&credit);
        let none = bench.run(network, &format!("{name} none"), at(Mode::None))?;
        report.add(&none);
        let ratio = none.latency_us("p99") / credit.latency_us("p99");
        report.noisy(
            &format!("{name}: p99 without shaping over p99 with credit"),
            ratio,
            Bound::AtLeast(10.0),
        );
    }
    Ok(())
}

/// Checks that below saturation the latency of an event is little longer than the time that its
/// frames take through the port.
fn latency(bench: &Bench, network: &Network, report: &mut Report, transport: Transport) -> Result<()> {
    for share in LOADS {
        let name = Bench::name(&format!("8x1 credit at {:.0} %", share * 100.0), transport);
        if !bench.wants(&name) {
            continue;
        }
        let mut outcomes: Vec<Outcome> = Vec::new();
        for run in 1..=bench.runs {
            let trigger = load(network.shape(), share, transport);
            let system = full_speed(Mode::Credit, transport, FRAGMENT).trigger(trigger);
            let outcome = bench.run(network, &format!("{name} run {run}"), system)?;
            report.add(&outcome);
            report.clean(&outcome);
            outcomes.push(outcome);
        }
        for (quantile, limit) in [("p50", 1.1), ("p99", 1.5)] {
            let share = median(outcomes.iter().map(|outcome| outcome.latency_share(quantile)));
            report.noisy(&format!("{name}: median {quantile} over wire time"), share, Bound::AtMost(limit));
        }
    }
    Ok(())
}

/// Runs with twice the trigger rate that the port can carry, and checks that surplus triggers are
/// inhibited while the port stays full.
fn overload(bench: &Bench, network: &Network, report: &mut Report, transport: Transport) -> Result<()> {
    let name = name(network, "credit overload", transport, FRAGMENT);
    if bench.wants(&name) {
        let trigger = load(network.shape(), 2.0, transport);
        let system = full_speed(Mode::Credit, transport, FRAGMENT).trigger(trigger).warn();
        let outcome = bench.run(network, &name, system)?;
        report.add(&outcome);
        report.clean(&outcome);
        report.noisy(
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
