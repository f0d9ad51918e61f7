//! Corruption: a relay in front of the builder flips bits of datagrams and sends them with a
//! correct UDP checksum, so that only evb's own checksum can detect the damage.

use std::{fs, process::Stdio, thread, time::Duration};

use anyhow::{Context as _, Result};
use lab_base::{
    bench::Bench,
    guard::Guarded,
    network::{Network, Shape, address},
    report::{Bound, Report},
    system::{Mode, System, Transport},
};

use super::incast::FRAGMENT;

/// Share of the datagrams towards the builder that are damaged, in percent.
const DAMAGED: f64 = 1.0;
/// Least number of damaged datagrams that the builder must have detected.
const REACHED: f64 = 100.0;

/// Returns a network with a rate so low that a user-space relay forwards single datagrams without
/// dropping any.
fn shape() -> Shape {
    Shape { sources: 8, builders: 1, rate: 100_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN }
}

pub(crate) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let name = format!("8x1 {DAMAGED} % damaged udp");
    if !bench.wants(&name) {
        return Ok(());
    }
    let mut network = Network::up(shape())?;
    let (relay, builder) = (address("sup")?, address("b1")?);
    let hosts = |address: &str, of: &str| -> Result<_> {
        let path = bench.out.join(format!("hosts-{of}"));
        fs::write(&path, format!("{address} builder-1\n")).with_context(|| path.display().to_string())?;
        Ok(path)
    };
    network.name_hosts("b", &hosts(&builder, "builder")?);
    network.name_hosts("s", &hosts(&relay, "others")?);
    let _relay = start(&network, &relay, &builder)?;
    let system = System::new(Mode::Credit, FRAGMENT).over(Transport::Udp).named().checked();
    let outcome = bench.run(&network, &name, system)?;
    report.add(&outcome);
    report.yes(&format!("{name}: every event complete, every byte right"), outcome.is_exact());
    let damaged = outcome.number("network.datagrams.damaged");
    let foreign = outcome.number("network.datagrams.foreign");
    report.holds(&format!("{name}: found by the builder's check"), damaged, Bound::AtLeast(REACHED));
    report.note(format!(
        "{name}: {damaged:.0} with a wrong checksum, {foreign:.0} not of this protocol (damaged in the first two bytes)"
    ));
    Ok(())
}

fn start(network: &Network, relay: &str, builder: &str) -> Result<Guarded> {
    let program = std::env::current_exe()?;
    let mut command = network.command("sup", &program.to_string_lossy());
    command.args(["lab-traffic", "relay", &format!("{relay}:7101"), &format!("{builder}:7101")]);
    command.arg(DAMAGED.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().context("starting the relay")?;
    // The relay should listen before the sources connect, although sources would retry.
    thread::sleep(Duration::from_millis(200));
    Ok(Guarded(child))
}
