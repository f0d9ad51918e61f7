//! Runs `iperf3` with one TCP stream from every source to every builder. It builds no events: the
//! rate of events is that of the bytes.

use super::Workload;
use crate::children::{Role, Usage};
use crate::place::{Host, Place};
use crate::report::Report;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::thread;
use std::time::Duration;

/// Port of the first server.
const FIRST_PORT: u32 = 7201;
/// Time that all servers, and each of them, need to start listening.
const LISTENING: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(20));
/// Time allowed for a run in addition to its duration.
const GRACE: Duration = Duration::from_secs(20);

/// Runs `iperf3` once and reports the bytes that its servers received. The rate, in events/s, is
/// shared by the streams of each source.
pub fn run(place: Place, workload: Workload, seconds: f64, rate: Option<f64>) -> Result<Report> {
    let directory = tempfile::Builder::new().prefix("evb-peers-").tempdir()?;
    let limit = Duration::from_secs_f64(seconds) + GRACE;
    let drops = place.drops()?;
    let pairs = (1..=workload.builders).flat_map(|j| (1..=workload.sources).map(move |i| (i, j)));
    let pairs: Vec<(u32, u32, u32)> = (FIRST_PORT..).zip(pairs).map(|(port, (i, j))| (port, i, j)).collect();
    let start = |host: Host, name: &str, arguments: &[&str]| {
        let mut command = place.command(host, "iperf3");
        Role::start(name, command.args(arguments), false, limit)
    };
    let mut roles = Vec::new();
    for (port, _, j) in &pairs {
        roles.push(start(Host::Builder(*j), "iperf3's server", &["-s", "-1", "-p", &port.to_string()])?);
    }
    thread::sleep(LISTENING.0 + LISTENING.1 * pairs.len() as u32);
    let said = |port: u32| directory.path().join(port.to_string());
    for (port, i, j) in &pairs {
        let (address, asked) = (place.address(Host::Builder(*j)), seconds.ceil().to_string());
        let log = said(*port).display().to_string();
        let bits = rate.map_or(0.0, |rate| rate * 8.0 * workload.size as f64 / f64::from(workload.builders));
        let (port, bits) = (port.to_string(), bits.to_string());
        let arguments = ["-c", &address, "-p", &port, "-t", &asked, "-b", &bits, "-J", "--logfile", &log]
            .map(str::to_owned);
        roles.push(start(Host::Source(*i), "iperf3's client", &arguments.each_ref().map(String::as_str))?);
    }
    let mut usage = Usage::default();
    roles.into_iter().try_for_each(|role| role.wait(&mut usage))?;
    let mut bytes = 0.0;
    for (port, ..) in &pairs {
        let said: Value = serde_json::from_str(&fs::read_to_string(said(*port))?)?;
        let received = said["end"]["sum_received"]["bytes"].as_f64();
        bytes += received.with_context(|| format!("iperf3 states no bytes received: {}", said["error"]))?;
    }
    let drops = place.drops_since(drops)?;
    Ok(Report { drops, ..report(workload, bytes, seconds.ceil(), usage) })
}

/// Returns the report of streams that carried this number of bytes.
pub fn report(workload: Workload, bytes: f64, seconds: f64, usage: Usage) -> Report {
    let Workload { sources, builders, size } = workload;
    let events = bytes / (f64::from(sources) * size as f64);
    Report {
        program: "iperf3".to_owned(),
        sources,
        builders,
        size,
        seconds,
        events_per_s: events / seconds,
        events_per_s_overall: events / seconds,
        payload_bytes_per_s: bytes / seconds,
        complete: events as u64,
        incomplete: 0,
        peak_rss_bytes_max: usage.peak_rss_bytes_max,
        cpu_seconds: usage.cpu_seconds,
        drops: None,
        max_open_events: None,
        latency_us: None,
    }
}
