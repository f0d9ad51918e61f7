//! What the machine carries through the lab without an event builder: `iperf3` from every source at an equal share of the port, which
//! needs neither credit nor events. Where it stays below the port, no event builder fills it either.

use std::{
    collections::BTreeMap,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    bench::Bench,
    fleet::machine_ticks,
    network::{Network, PortCount, address},
    report::Report,
    system::Transport,
};

/// What iperf3 puts into a datagram: as much as a lane's datagrams hold, header included.
const DATAGRAM: &str = "1472";
/// Of the port's rate, what all sources together send: the port and a little less in datagrams, a little more over TCP.
const OFFERED: f64 = 0.97;
const BUILDER: &str = "b1";
const FIRST_PORT: u16 = 7201;

/// Programs that end with this.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// All sources to one builder, for as long as a run.
pub(crate) fn run(bench: &Bench, network: &Network, report: &mut Report, transport: Transport) -> Result<()> {
    let shape = network.shape();
    let name = Bench::name(&format!("{}x1 iperf3", shape.sources), transport);
    if !bench.wants(&name) {
        return Ok(());
    }
    let seconds = bench.seconds.ceil().to_string();
    let each = (shape.rate as f64 * OFFERED / f64::from(shape.sources)).round().to_string();
    let (mut servers, mut clients) = (Running(Vec::new()), Running(Vec::new()));
    let port = |i: u16| (FIRST_PORT + i).to_string();
    for i in 1..=shape.sources {
        let mut server = network.command(BUILDER, "iperf3");
        let started = server.args(["-s", "-1", "-p", &port(i)]).stdout(Stdio::null()).spawn();
        servers.0.push(started.context("starting iperf3")?);
    }
    thread::sleep(Duration::from_secs(1));
    let (before, (busy_before, all_before)) = (network.ports()?, machine_ticks()?);
    let to = address(BUILDER)?;
    for i in 1..=shape.sources {
        let mut client = network.command(&format!("s{i}"), "iperf3");
        client.args(["-c", &to, "-p", &port(i), "-t", &seconds, "-b", &each, "-J"]);
        if transport == Transport::Udp {
            client.args(["-u", "-l", DATAGRAM]);
        }
        clients.0.push(client.stdout(Stdio::piped()).spawn()?);
    }
    let mut received = 0.0;
    for client in clients.0.drain(..) {
        let said: Value = serde_json::from_slice(&client.wait_with_output()?.stdout)?;
        let rate = said["end"]["sum_received"]["bits_per_second"].as_f64();
        received += rate.context("iperf3 states no rate")?;
    }
    let (busy, all) = machine_ticks()?;
    let drops = |ports: &BTreeMap<String, PortCount>| ports.get(BUILDER).map_or(0, |port| port.drops);
    report.note(format!(
        "{name}: {:.1} Mbit/s received, {} packets dropped, machine busy {:.0} %",
        received / 1e6,
        drops(&network.ports()?) - drops(&before),
        (busy - busy_before) as f64 / (all - all_before).max(1) as f64 * 100.0
    ));
    Ok(())
}
