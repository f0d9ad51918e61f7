//! Runs evbd on a workload: one process per role, sources that generate data, builders that discard
//! it, triggers as fast as possible or at a rate.

use super::Workload;
use crate::children::{Role, Usage};
use crate::place::{Host, Place};
use crate::report::Report;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

/// Time allowed for a run beyond its duration.
const GRACE: Duration = Duration::from_secs(60);

/// Settings of the evbd under test.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// Number of outstanding events per builder.
    pub slots: Option<u32>,
    /// Triggers per second; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// Additional lines of evbd's configuration, each as `section: line`.
    pub lines: &'a [String],
}

/// Port of the supervisor and of each builder in the lab, below those that the kernel assigns
/// automatically.
const LAB_PORT: u16 = 7000;

/// The addresses on which the supervisor and the builders of a run listen.
#[derive(Clone, Debug)]
pub struct Sites {
    /// Place of the processes: loopback or the network lab.
    pub place: Place,
    /// Port of the supervisor, followed by the ports of the builders.
    pub ports: Vec<u16>,
}

impl Sites {
    /// Chooses free ports: on loopback, ports that were free a moment ago; in the lab, a fixed
    /// port, because a lab host runs nothing else.
    fn new(place: Place, builders: u32) -> Result<Self> {
        let ports = match place {
            Place::Loopback => free_ports(builders + 1)?,
            Place::Lab => (0..=builders).map(|_| LAB_PORT).collect(),
        };
        Ok(Self { place, ports })
    }
}

/// Runs the evbd at path `program` once, and returns its result.
pub fn run(
    place: Place,
    program: &Path,
    workload: Workload,
    seconds: f64,
    settings: Settings<'_>,
) -> Result<Report> {
    let directory = tempfile::Builder::new().prefix("evb-peers-").tempdir()?;
    let file = directory.path().join("compare.toml");
    let summary = directory.path().join("summary.json");
    let sites = Sites::new(place, workload.builders)?;
    fs::write(&file, configuration(workload, seconds, settings, &sites)?)?;
    let limit = Duration::from_secs_f64(seconds) + GRACE;
    let drops = place.drops()?;
    let start = |host: Host| -> Result<Role> {
        let mut command = place.command(host, program);
        let role = &match host {
            Host::Supervisor => "supervisor".to_owned(),
            Host::Builder(id) => format!("builder:{id}"),
            Host::Source(id) => format!("source:{id}"),
        };
        command.arg("run").arg(&file).args(["--role", role]);
        if host == Host::Supervisor {
            command.arg("--summary").arg(&summary);
        }
        command.stderr(File::create(directory.path().join(role.replace(':', "-")))?);
        Role::start(&format!("evbd {role}"), &mut command, false, limit)
    };
    let builders = (1..=workload.builders).map(Host::Builder);
    let sources = (1..=workload.sources).map(Host::Source);
    let hosts = [Host::Supervisor].into_iter().chain(builders).chain(sources);
    let roles = hosts.map(start).collect::<Result<Vec<_>>>()?;
    let mut usage = Usage::default();
    for role in roles {
        let log = directory.path().join(role.name.trim_start_matches("evbd ").replace(':', "-"));
        let outcome = role.wait(&mut usage);
        outcome.with_context(|| format!("its log:\n{}", fs::read_to_string(log).unwrap_or_default()))?;
    }
    let text = fs::read_to_string(&summary).context("evbd wrote no summary")?;
    let drops = place.drops_since(drops)?;
    Ok(Report { drops, ..report(&serde_json::from_str(&text)?, workload, usage)? })
}

/// Returns TCP ports that were free a moment ago.
fn free_ports(count: u32) -> Result<Vec<u16>> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    Ok(listeners
        .iter()
        .map(|listener| listener.local_addr().map(|at| at.port()))
        .collect::<Result<_, _>>()?)
}

/// Returns evbd's configuration (TOML) for a system that runs this workload.
pub fn configuration(
    workload: Workload,
    seconds: f64,
    settings: Settings<'_>,
    sites: &Sites,
) -> Result<String> {
    let mut more: BTreeMap<&str, String> = BTreeMap::new();
    for line in settings.lines {
        let (section, line) =
            line.split_once(':').with_context(|| format!("--set {line:?} names no section"))?;
        let known =
            ["run", "supervisor", "network", "shaping", "source", "builder"].contains(&section.trim());
        ensure!(known, "--set {section:?} is not a section");
        writeln!(more.entry(section.trim()).or_default(), "{}", line.trim())?;
    }
    let more = |section: &str| more.get(section).cloned().unwrap_or_default();
    let at = |host| sites.place.address(host);
    let (supervisor, builders) = sites.ports.split_first().context("no port for the supervisor")?;
    ensure!(builders.len() == workload.builders as usize, "a port for each builder");
    let mut text =
        format!("[run]\nduration = \"{} ms\"\nseed = 1\n{}\n", (seconds * 1e3).round(), more("run"));
    write!(text, "[supervisor]\nlisten = \"{}:{supervisor}\"\n", at(Host::Supervisor))?;
    match settings.rate {
        Some(rate) => writeln!(text, "trigger = {{ kind = \"periodic\", rate = \"{rate} Hz\" }}")?,
        None => text.push_str("trigger = { kind = \"as-fast-as-possible\" }\n"),
    }
    if let Some(slots) = settings.slots {
        writeln!(text, "slots = {slots}")?;
    }
    write!(text, "{}\n[network]\ntransport = \"tcp\"\n{}\n", more("supervisor"), more("network"))?;
    write!(text, "[shaping]\nmode = \"credit\"\n{}\n", more("shaping"))?;
    if sites.place == Place::Lab {
        text.push_str("[security]\nmode = \"none\"\n");
    }
    for id in 1..=workload.sources {
        write!(text, "[[source]]\nid = {id}\nbind = \"{}\"\n", at(Host::Source(id)))?;
        write!(
            text,
            "input = {{ kind = \"generator\", size = \"{} B\" }}\n{}\n",
            workload.size,
            more("source")
        )?;
    }
    for (id, port) in (1..).zip(builders) {
        write!(text, "[[builder]]\nid = {id}\nlisten = \"{}:{port}\"\n", at(Host::Builder(id)))?;
        write!(text, "sink = {{ kind = \"null\" }}\n{}\n", more("builder"))?;
    }
    Ok(text)
}

/// Converts the JSON summary of evbd's supervisor to a report.
pub fn report(summary: &Value, workload: Workload, usage: Usage) -> Result<Report> {
    let number = |pointer: &str| {
        let value = summary.pointer(pointer).and_then(Value::as_f64);
        value.with_context(|| format!("evbd's summary has no number at {pointer}"))
    };
    let lost = number("/events/incomplete")? + number("/events/lost")?;
    Ok(Report {
        program: "evb".to_owned(),
        sources: workload.sources,
        builders: workload.builders,
        size: workload.size,
        seconds: number("/duration_s")?,
        events_per_s: number("/rates/events_per_s")?,
        events_per_s_overall: number("/rates/events_per_s")?,
        payload_bytes_per_s: number("/rates/payload_bytes_per_s")?,
        complete: number("/events/complete")? as u64,
        incomplete: lost as u64,
        peak_rss_bytes_max: usage.peak_rss_bytes_max,
        cpu_seconds: usage.cpu_seconds,
        drops: None,
        max_open_events: None,
        latency_us: None,
    })
}
