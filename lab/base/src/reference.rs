//! Measures the capacity of the lab without an event builder: `iperf3` sends from every source at
//! an equal share of the port's rate. If `iperf3` does not fill the port, the machine is too slow
//! for an event builder to fill it.

use std::{io::Read as _, process::Stdio, thread, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    bench::{Bench, since},
    fleet::machine_ticks,
    guard::Guarded,
    network::{Network, address},
    report::Report,
    system::Transport,
};

/// Payload of an iperf3 datagram, in bytes: a full packet, like the datagrams of a lane.
const DATAGRAM: &str = "1472";
/// Payload that all sources together offer, as a share of the port's rate. With headers, this is
/// slightly less than the port's rate in UDP datagrams, and slightly more over TCP.
const OFFERED: f64 = 0.97;
const BUILDER: &str = "b1";
const FIRST_PORT: u16 = 7201;

/// Runs `iperf3` from all sources to one builder for the duration of a run, and notes the rate and
/// the drops.
pub fn run(bench: &Bench, network: &Network, report: &mut Report, transport: Transport) -> Result<()> {
    let shape = network.shape();
    let name = Bench::name(&format!("{}x1 iperf3", shape.sources), transport);
    if !bench.wants(&name) {
        return Ok(());
    }
    let seconds = bench.seconds.ceil().to_string();
    let each = (shape.rate as f64 * OFFERED / f64::from(shape.sources)).round().to_string();
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    let port = |i: u16| (FIRST_PORT + i).to_string();
    for i in 1..=shape.sources {
        let mut server = network.command(BUILDER, "iperf3");
        let started = server.args(["-s", "-1", "-p", &port(i)]).stdout(Stdio::null()).spawn();
        servers.push(Guarded(started.context("starting iperf3")?));
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
        clients.push(Guarded(client.stdout(Stdio::piped()).spawn()?));
    }
    let mut received = 0.0;
    for client in &mut clients {
        let mut said = String::new();
        client.0.stdout.take().context("iperf3 has no output")?.read_to_string(&mut said)?;
        received += rate(&serde_json::from_str(&said)?, "sum_received")?;
    }
    let (busy, all) = machine_ticks()?;
    let ports = since(&before, network.ports()?);
    report.note(format!(
        "{name}: {:.1} Mbit/s received, {} packets dropped, machine busy {:.0} %",
        received / 1e6,
        ports.get(BUILDER).map_or(0, |port| port.drops),
        (busy - busy_before) as f64 / (all - all_before).max(1) as f64 * 100.0
    ));
    Ok(())
}

/// Returns the rate in bit/s that iperf3's JSON output states for `sum`, such as `sum_received`.
pub fn rate(said: &Value, sum: &str) -> Result<f64> {
    said["end"][sum]["bits_per_second"].as_f64().with_context(|| format!("iperf3 states no {sum}"))
}
