//! [`Office`]: traffic as of an office on hosts of the lab: a bulk transfer of several streams, and
//! many short connections.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use lab_base::{
    guard::Guarded,
    network::{Network, address},
    outcome::quantile,
    reference::rate,
};
use serde_json::{Value, json};

/// Number of streams of the bulk transfer.
const STREAMS: &str = "8";
const BULK_PORT: u16 = 7201;
const SHORT_PORT: u16 = 9001;
/// Number of short connections at a time, and bytes that each carries, as of a small page.
const AT_ONCE: usize = 8;
const BYTES: usize = 20_000;
/// Pause between two connections of a thread.
const PAUSE: Duration = Duration::from_millis(20);
/// Time after which a connection counts as failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that servers need to start listening.
const LISTENING: Duration = Duration::from_millis(500);

/// Running office traffic; dropping this value ends it.
pub struct Office {
    _servers: [Guarded; 2],
    bulk: Guarded,
    short: Guarded,
}

/// Results of office traffic.
#[derive(Debug)]
pub struct Served {
    /// Payload rate of the bulk transfer in Mbit/s.
    pub bulk_mbit: f64,
    pub connections: f64,
    pub failed: f64,
    /// Median and 99th percentile of the duration of a short connection, in ms.
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Office {
    /// Starts traffic from one host to another, for the given seconds.
    pub fn open(network: &Network, from: &str, to: &str, seconds: f64) -> Result<Self> {
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let at = address(to)?;
        let (bulk, short, unused) =
            (BULK_PORT.to_string(), format!("{at}:{SHORT_PORT}"), format!("{at}:{}", SHORT_PORT + 1));
        let start = |host: &str, program: &str, words: &[&str]| -> Result<Guarded> {
            let mut command: Command = network.command(host, program);
            command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
            Ok(Guarded(command.spawn().with_context(|| format!("starting {program} on {host}"))?))
        };
        let servers = [
            start(to, "iperf3", &["-s", "-1", "-p", &bulk])?,
            start(to, &own, &["lab-traffic", "serve", &short, &unused])?,
        ];
        thread::sleep(LISTENING);
        let (whole, exact) = (seconds.ceil().to_string(), seconds.to_string());
        Ok(Self {
            _servers: servers,
            bulk: start(from, "iperf3", &["-c", &at, "-p", &bulk, "-t", &whole, "-P", STREAMS, "-J"])?,
            short: start(from, &own, &["lab-traffic", "short", &short, &exact])?,
        })
    }

    /// Waits for the end of the traffic.
    pub fn close(mut self) -> Result<Served> {
        let said = |program: &mut Guarded| -> Result<Value> {
            let mut words = String::new();
            program.0.stdout.take().context("it has no output")?.read_to_string(&mut words)?;
            serde_json::from_str(&words).with_context(|| format!("office traffic says: {words}"))
        };
        let (short, bulk) = (said(&mut self.short)?, said(&mut self.bulk)?);
        let number = |key: &str| short[key].as_f64().unwrap_or(f64::NAN);
        Ok(Served {
            bulk_mbit: rate(&bulk, "sum_received")? / 1e6,
            connections: number("connections"),
            failed: number("failed"),
            p50_ms: number("p50_ms"),
            p99_ms: number("p99_ms"),
        })
    }
}

/// Opens connections for `seconds`, and prints their number and quantiles of their durations as
/// JSON.
pub fn connect_often(to: SocketAddr, seconds: f64) -> Result<()> {
    let begun = Instant::now();
    let visitor = || {
        let (mut times, mut failed) = (Vec::new(), 0u64);
        while begun.elapsed().as_secs_f64() < seconds {
            match visit(to) {
                Ok(time) => times.push(time),
                Err(_) => failed += 1,
            }
            thread::sleep(PAUSE);
        }
        (times, failed)
    };
    let results: Vec<(Vec<f64>, u64)> = thread::scope(|scope| {
        let visitors: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(visitor)).collect();
        visitors.into_iter().filter_map(|visitor| visitor.join().ok()).collect()
    });
    let failed: u64 = results.iter().map(|(_, failed)| failed).sum();
    let mut times: Vec<f64> = results.into_iter().flat_map(|(times, _)| times).collect();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| quantile(&times, part);
    println!(
        "{}",
        json!({ "connections": times.len(), "failed": failed, "p50_ms": at(0.5), "p99_ms": at(0.99) })
    );
    Ok(())
}

/// Makes a connection, sends its bytes, and waits until the other end has read all of them and
/// closed it. Returns the time that this took, in ms.
fn visit(to: SocketAddr) -> Result<f64> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[0; BYTES])?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests;
