//! The short scenario for every change: checks that shaped traffic is complete and causes no packet
//! drops, and that unshaped traffic does.

use anyhow::Result;
use lab_base::{
    bench::Bench,
    network::{Network, Shape},
    report::Report,
    system::{Transport, Trigger},
};
use papers::babar;

use super::incast;

/// Longest duration of each run, in seconds.
const SECONDS: f64 = 5.0;
/// Rate of the ports in the incast runs, in bit/s: a quarter of the rate in the scenario `incast`,
/// so that the port is the bottleneck even if processors are slow.
const PORT_RATE: u64 = 250_000_000;

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let bench = Bench {
        seconds: bench.seconds.min(SECONDS),
        out: bench.out.clone(),
        evbd: bench.evbd.clone(),
        only: bench.only.clone(),
        ..*bench
    };
    let mut report = Report::new("smoke");
    {
        let network = Network::up(Shape { rate: PORT_RATE, ..incast::shape(8) })?;
        for transport in [Transport::Tcp, Transport::Udp] {
            incast::credit(&bench, &network, &mut report, transport, incast::FRAGMENT)?;
        }
        incast::window(&bench, &network, &mut report, Transport::Tcp, incast::FRAGMENT)?;
        incast::none(&bench, &network, &mut report, 16)?;
    }
    let network = babar::design_network()?;
    babar::design(&bench, &network, &mut report, Trigger::Periodic(1000.0), "periodic", Transport::Tcp)?;
    Ok(report)
}
