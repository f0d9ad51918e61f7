//! Measures `iperf3` with one TCP stream from every source to every builder, without a rate limit.

use std::{
    io::Read as _,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::super::{
    guard::Guarded,
    network::{Network, address},
};

const FIRST_PORT: u16 = 7201;
/// Time that each additional server needs to start listening, if one core starts all servers.
const EACH_LISTENS_WITHIN: Duration = Duration::from_millis(20);

/// Payload bytes that all receivers counted, and the time for which the senders sent.
pub(crate) struct Received {
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
}

pub(crate) fn run(network: &Network, seconds: f64) -> Result<Received> {
    let shape = network.shape();
    let streams: Vec<(u16, u16)> =
        (1..=shape.builders).flat_map(|j| (1..=shape.sources).map(move |i| (i, j))).collect();
    let port = |i: u16| (FIRST_PORT + i).to_string();
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for (i, j) in &streams {
        let mut server = network.command(&format!("b{j}"), "iperf3");
        let started = server.args(["-s", "-1", "-p", &port(*i)]).stdout(Stdio::null()).spawn();
        servers.push(Guarded(started.context("starting iperf3")?));
    }
    thread::sleep(Duration::from_millis(300) + EACH_LISTENS_WITHIN * servers.len() as u32);
    let begun = Instant::now();
    let asked = seconds.ceil();
    for (i, j) in &streams {
        let mut client = network.command(&format!("s{i}"), "iperf3");
        client.args(["-c", &address(&format!("b{j}"))?, "-p", &port(*i), "-t", &asked.to_string(), "-J"]);
        clients.push(Guarded(client.stdout(Stdio::piped()).spawn()?));
    }
    // Clients start one after the other and end in the same order, so together they send for longer
    // than each of them.
    let apart = begun.elapsed().as_secs_f64();
    let mut received = Received { bytes: 0.0, seconds: asked + apart };
    for client in &mut clients {
        let mut said = String::new();
        client.0.stdout.take().context("iperf3 has no output")?.read_to_string(&mut said)?;
        received.bytes += bytes(&said)?;
    }
    Ok(received)
}

/// Returns the number of bytes received, which iperf3's sender reports in its JSON output.
pub(super) fn bytes(said: &str) -> Result<f64> {
    let said: Value = serde_json::from_str(said).context("reading what iperf3 says")?;
    let received = said["end"]["sum_received"]["bytes"].as_f64();
    received.with_context(|| format!("iperf3 states no bytes received: {}", said["error"]))
}
