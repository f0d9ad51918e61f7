//! Measures `iperf3` with one TCP stream from every source to every builder, without a rate limit.

use std::{
    io::Read as _,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    guard::Guarded,
    network::{Network, address},
    reference::rate,
};

const FIRST_PORT: u16 = 7201;
/// Time that each additional server needs to start listening, if one core starts all servers.
const EACH_LISTENS_WITHIN: Duration = Duration::from_millis(20);

/// Time at the beginning of streams that does not count: streams start one after the other, and
/// need time to find their shares.
const WARM_UP: Duration = Duration::from_secs(4);

/// Payload bytes that all receivers counted, and the time for which the senders sent.
pub struct Received {
    pub bytes: f64,
    pub seconds: f64,
}

pub fn run(network: &Network, seconds: f64) -> Result<Received> {
    run_with(network, seconds, &[])
}

/// Does the same as [`run`], with further options of the clients.
pub fn run_with(network: &Network, seconds: f64, options: &[&str]) -> Result<Received> {
    let shape = network.shape();
    let streams: Vec<(u16, u16)> =
        (1..=shape.builders).flat_map(|j| (1..=shape.sources).map(move |i| (i, j))).collect();
    let asked = seconds.ceil();
    let (said, apart) =
        talk(network, &streams, &[&["-t", &asked.to_string()], options].concat(), |_| Ok(()))?;
    // Clients start one after the other and end in the same order, so together they send for longer
    // than each of them.
    let bytes: Vec<f64> = said.iter().map(|said| bytes(said)).collect::<Result<_>>()?;
    Ok(Received { bytes: bytes.iter().sum(), seconds: asked + apart.as_secs_f64() })
}

/// Rates of streams while all of them send.
pub struct Streams {
    /// Payload rate of the streams of each pair in Mbit/s.
    pub rates: Vec<f64>,
    /// L2 rate of the switches' ports to the builders in bit/s, by the counters of the switches.
    pub carried: f64,
}

/// Runs `each` streams for each pair of a source and a builder, and measures after a warm-up.
pub fn streams(network: &Network, pairs: &[(u16, u16)], each: usize, seconds: f64) -> Result<Streams> {
    let (warm_up, asked) = (WARM_UP.as_secs().to_string(), seconds.ceil().to_string());
    let each = each.to_string();
    let (mut begun, mut ended) = (None, None);
    let bytes = || -> Result<(u64, Instant)> {
        let ports = network.ports()?;
        let to_builders = ports.iter().filter(|(host, _)| host.starts_with('b'));
        Ok((to_builders.map(|(_, port)| port.bytes).sum(), Instant::now()))
    };
    let during = |apart: Duration| {
        thread::sleep(WARM_UP);
        begun = Some(bytes()?);
        // The first streams end before the last.
        thread::sleep(Duration::from_secs_f64(seconds).saturating_sub(apart));
        ended = Some(bytes()?);
        Ok(())
    };
    let said = talk(network, pairs, &["-t", &asked, "-O", &warm_up, "-P", &each], during)?.0;
    let rate = |said: &String| {
        let said = serde_json::from_str(said).context("reading what iperf3 says")?;
        Ok(rate(&said, "sum_received")? / 1e6)
    };
    let carried = begun.zip(ended).map(|((before, begun), (after, ended))| {
        (after - before) as f64 * 8.0 / (ended - begun).as_secs_f64()
    });
    Ok(Streams {
        rates: said.iter().map(rate).collect::<Result<_>>()?,
        carried: carried.context("the streams were not measured")?,
    })
}

/// Runs a stream for each pair of a source and a builder, with these options of the clients. Calls
/// `during` when all have started, with the time between the starts of the first and the last.
/// Returns the JSON output of the clients, and this time.
pub fn talk(
    network: &Network,
    pairs: &[(u16, u16)],
    options: &[&str],
    during: impl FnOnce(Duration) -> Result<()>,
) -> Result<(Vec<String>, Duration)> {
    let port = |i: u16| (FIRST_PORT + i).to_string();
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for (i, j) in pairs {
        let mut server = network.command(&format!("b{j}"), "iperf3");
        let started = server.args(["-s", "-1", "-p", &port(*i)]).stdout(Stdio::null()).spawn();
        servers.push(Guarded(started.context("starting iperf3")?));
    }
    thread::sleep(Duration::from_millis(300) + EACH_LISTENS_WITHIN * servers.len() as u32);
    let begun = Instant::now();
    for (i, j) in pairs {
        let mut client = network.command(&format!("s{i}"), "iperf3");
        client.args(["-c", &address(&format!("b{j}"))?, "-p", &port(*i), "-J"]).args(options);
        clients.push(Guarded(client.stdout(Stdio::piped()).spawn()?));
    }
    let apart = begun.elapsed();
    during(apart)?;
    let said = |client: &mut Guarded| {
        let mut said = String::new();
        client.0.stdout.take().context("iperf3 has no output")?.read_to_string(&mut said)?;
        Ok(said)
    };
    Ok((clients.iter_mut().map(said).collect::<Result<_>>()?, apart))
}

/// Returns the number of bytes received, which iperf3's sender reports in its JSON output.
pub fn bytes(said: &str) -> Result<f64> {
    let said: Value = serde_json::from_str(said).context("reading what iperf3 says")?;
    let received = said["end"]["sum_received"]["bytes"].as_f64();
    received.with_context(|| format!("iperf3 states no bytes received: {}", said["error"]))
}

#[cfg(test)]
mod tests;
