//! Runs `plain` or `zeromq`: one process per role, started together, stopped at one common event.

use crate::barrier::unix_ns;
use crate::children::{Role, Usage};
use crate::latency::Latencies;
use crate::place::{Host, Place};
use crate::report::Report;
use crate::role::{BuilderReport, SourceReport, Work};
use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Time between the last `ready` and the start of the run, so that all roles learn the start time
/// before it is reached.
const HEAD_START: Duration = Duration::from_millis(50);

/// Time allowed for a run in addition to its measuring window, for connecting before and draining
/// after.
const GRACE: Duration = Duration::from_secs(60);

/// Runs `program` (`plain` or `zeromq`) once, with all its processes on loopback or in the lab as
/// `place` says.
pub fn run(place: Place, program: &str, sources: u32, builders: u32, work: &Work) -> Result<Report> {
    ensure!(sources > 0 && builders > 0, "at least one source and one builder");
    work.check()?;
    let limit = Duration::from_secs_f64(work.warmup + work.seconds) + GRACE;
    let drops = place.drops()?;
    let start = |host: Host, arguments: &[String]| {
        let (role, id) = match host {
            Host::Source(id) => ("source", id),
            Host::Builder(id) => ("builder", id),
            Host::Supervisor => bail!("{program} has no supervisor"),
        };
        let mut command = place.command(host, std::env::current_exe()?);
        command.args([program, role, "--id", &id.to_string()]);
        command.args(arguments).args(work.arguments()).arg("--launched");
        let name = format!("{program} {role} {id}");
        Role::start(&name, &mut command, true, limit)
    };
    let mut building = (1..=builders)
        .map(|id| {
            let counts = [("--sources", sources), ("--builders", builders)];
            let mut arguments: Vec<_> =
                counts.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect();
            let host = Host::Builder(id);
            arguments.extend(["--bind".to_owned(), format!("{}:0", place.address(host))]);
            start(host, &arguments)
        })
        .collect::<Result<Vec<_>>>()?;
    let addresses =
        building.iter_mut().map(|role| role.hear("listening")).collect::<Result<Vec<_>>>()?.join(",");
    let mut sending = (1..=sources)
        .map(|id| start(Host::Source(id), &["--connect".into(), addresses.clone()]))
        .collect::<Result<Vec<_>>>()?;
    let start_ns = drive(&mut building, &mut sending)?;

    let sent: Vec<SourceReport> = reports(&mut sending)?;
    let built: Vec<BuilderReport> = reports(&mut building)?;
    let mut usage = Usage::default();
    building.into_iter().chain(sending).try_for_each(|role| role.wait(&mut usage))?;
    let drops = place.drops_since(drops)?;
    Ok(Report { program: program.to_owned(), drops, ..summarise(start_ns, &sent, &built, work, usage)? })
}

/// Makes the roles start together and end at the same event, and returns the start time in Unix
/// nanoseconds.
fn drive(building: &mut [Role], sending: &mut [Role]) -> Result<u64> {
    for role in building.iter_mut().chain(sending.iter_mut()) {
        role.hear("ready")?;
    }
    let start = unix_ns() + HEAD_START.as_nanos() as u64;
    for role in building.iter_mut().chain(sending.iter_mut()) {
        role.tell(&format!("go {start}"))?;
    }
    let mut last: u64 = 0;
    for role in sending.iter_mut() {
        last = last
            .max(role.hear("reached")?.parse().with_context(|| format!("{} reached no number", role.name))?);
    }
    sending.iter_mut().try_for_each(|role| role.tell(&format!("until {last}")))?;
    Ok(start)
}

fn reports<T: DeserializeOwned>(roles: &mut [Role]) -> Result<Vec<T>> {
    roles
        .iter_mut()
        .map(|role| {
            let line = role.hear("")?;
            serde_json::from_str(&line).with_context(|| format!("{} reported {line:?}", role.name))
        })
        .collect()
}

fn summarise(
    start_ns: u64,
    sent: &[SourceReport],
    built: &[BuilderReport],
    work: &Work,
    usage: Usage,
) -> Result<Report> {
    let events = sent.first().map_or(0, |report| report.events);
    ensure!(
        sent.iter().all(|report| report.events == events),
        "the sources did not end at the same event: {sent:?}"
    );
    let complete: u64 = built.iter().map(|report| report.complete).sum();
    let last_ns = built.iter().map(|report| report.last_ns).max().unwrap_or(0);
    let overall_s = last_ns.saturating_sub(start_ns) as f64 / 1e9;
    ensure!(complete <= events, "{complete} events complete of {events} sent");
    let in_window: u64 = built.iter().map(|report| report.complete_in_window).sum();
    let mut latencies = Latencies::default();
    built.iter().for_each(|report| latencies.merge(&report.latencies));
    let latency_us = latencies.summary();
    let max_open = built.iter().map(|report| report.max_open_events).max();
    let events_per_s = in_window as f64 / work.seconds;
    Ok(Report {
        program: String::new(),
        sources: sent.len() as u32,
        builders: built.len() as u32,
        size: work.size,
        seconds: work.seconds,
        events_per_s,
        events_per_s_overall: if complete == 0 { 0.0 } else { complete as f64 / overall_s },
        payload_bytes_per_s: events_per_s * (sent.len() * work.size) as f64,
        complete,
        incomplete: events - complete,
        peak_rss_bytes_max: usage.peak_rss_bytes_max,
        cpu_seconds: usage.cpu_seconds,
        drops: None,
        max_open_events: max_open.filter(|_| latency_us.is_some()),
        latency_us,
    })
}
