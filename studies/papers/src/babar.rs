//! The event builder of the BaBar experiment: 22 sources, 15 builders, 32 kB events. Rates are
//! halved, so that two cores carry the network: 50 Mbit/s and 1 kHz load the ports as much as
//! BaBar's 100 Mbit/s and 2 kHz. Also the study of TCP windows at a port of a switch (`windows`),
//! and the third-level trigger (`third_level`).

pub mod third_level;
mod windows;

use anyhow::Result;
use lab_base::{
    bench::Bench,
    network::{Network, Shape},
    report::{Bound, Report},
    system::{Mode, System, Transport, Trigger, safe_window},
};

/// Size of a fragment, in bytes: an event of 32 kB divided by 22 sources.
const FRAGMENT: u64 = 1455;
/// Returns the share of the capacity of all 15 ports that the goodput must reach at the limit.
fn limit_share(transport: Transport) -> f64 {
    match transport {
        Transport::Tcp => 0.91,
        Transport::Udp => 0.95,
    }
}

fn shape(mbit: u64) -> Shape {
    Shape { sources: 22, builders: 15, rate: mbit * 1_000_000, port_buffer: 160 * 1024, ..Shape::PLAIN }
}

pub fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("babar");
    if ["periodic", "poisson"].iter().any(|kind| wants(bench, &format!("22x15 design {kind}"))) {
        let network = Network::up(shape(50))?;
        for transport in bench.transports {
            design(bench, &network, &mut report, Trigger::Periodic(1000.0), "periodic", *transport)?;
            design(bench, &network, &mut report, Trigger::Poisson(1000.0), "poisson", *transport)?;
        }
    }
    if ["22x15 limit", "22x15 limit window"].iter().any(|case| wants(bench, case)) {
        let network = Network::up(shape(25))?;
        for transport in bench.transports {
            limit(bench, &network, &mut report, *transport, Mode::Credit)?;
            // TCP's own timers repeat packets that are late but not lost. A window reserves no room
            // for them, so it is a fifth smaller over TCP.
            let window = safe_window(network.shape());
            let window = if *transport == Transport::Tcp { window / 5 * 4 } else { window };
            limit(bench, &network, &mut report, *transport, Mode::Window(window))?;
        }
    }
    for transport in bench.transports {
        full_scale(bench, &mut report, *transport)?;
    }
    windows::run(bench, &mut report)?;
    third_level::run(bench, &mut report)?;
    Ok(report)
}

/// Returns true if a case is selected for one of the transports.
fn wants(bench: &Bench, case: &str) -> bool {
    bench.transports.iter().any(|transport| bench.wants(&Bench::name(case, *transport)))
}

/// Runs at BaBar's original rates of 100 Mbit/s and 2 kHz, which a machine of two cores may not
/// reach, and notes the results.
fn full_scale(bench: &Bench, report: &mut Report, transport: Transport) -> Result<()> {
    let name = Bench::name("22x15 full scale", transport);
    if bench.wants(&name) {
        let network = Network::up(shape(100))?;
        let system = System::new(Mode::Credit, FRAGMENT).over(transport).trigger(Trigger::Periodic(2000.0));
        let outcome = bench.run(&network, &name, system)?;
        report.add(&outcome);
        report.note(format!(
            "{name} at 100 Mbit/s and 2 kHz: {:.0} events/s, {} drops, dead time {:.2} %, machine busy {:.0} %",
            outcome.number("rates.events_per_s"),
            outcome.drops(),
            outcome.number("dead_time_fraction") * 100.0,
            outcome.machine_busy * 100.0,
        ));
    }
    Ok(())
}

/// Brings up a network of 22 sources and 15 builders with ports of 50 Mbit/s.
pub fn design_network() -> Result<Network> {
    Network::up(shape(50))
}

/// Runs at about a third of the ports' capacity, and checks that no packet is dropped and no
/// trigger inhibited.
pub fn design(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    trigger: Trigger,
    kind: &str,
    transport: Transport,
) -> Result<()> {
    let name = Bench::name(&format!("22x15 design {kind}"), transport);
    if bench.wants(&name) {
        let system = System::new(Mode::Credit, FRAGMENT).over(transport).trigger(trigger);
        let outcome = bench.run(network, &name, system)?;
        report.add(&outcome);
        report.clean(&outcome);
        report.noisy(&format!("{name}: dead time"), outcome.number("dead_time_fraction"), Bound::AtMost(0.0));
        let rate = outcome.number("rates.events_per_s");
        report.noisy(&format!("{name}: events per second"), rate, Bound::AtLeast(950.0));
    }
    Ok(())
}

/// Runs at the highest rate that the ports of 15 builders, at 25 Mbit/s, allow.
fn limit(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    transport: Transport,
    mode: Mode,
) -> Result<()> {
    let case = if mode == Mode::Credit { "22x15 limit" } else { "22x15 limit window" };
    let name = Bench::name(case, transport);
    if bench.wants(&name) {
        let outcome = bench.run(network, &name, System::new(mode, FRAGMENT).over(transport))?;
        report.add(&outcome);
        report.clean(&outcome);
        if mode == Mode::Credit {
            report.noisy(
                &format!("{name}: share of 15 ports' goodput"),
                outcome.goodput_share(),
                Bound::AtLeast(limit_share(transport)),
            );
        }
    }
    Ok(())
}
