//! Compares evbd, `iperf3`, plain sockets and ZeroMQ, which take turns on the same workloads:
//! prints median rates, and the ratios of evb's rate to those of plain sockets and ZeroMQ.

mod evbd;
mod iperf3;
mod statistics;
#[cfg(test)]
mod tests;

use crate::launch;
use crate::place::Place;
use crate::report::Report;
use crate::role::Work;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use statistics::{Row, rows, table};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

/// The workloads of a comparison, if none are given: sources x builders x bytes per fragment.
const WORKLOADS: [&str; 4] = ["1x1x1000000", "4x4x1000000", "4x4x1000", "4x4x100"];

/// The arguments of a comparison.
#[derive(Args, Clone, Debug)]
pub struct Comparison {
    /// Path of the evbd program to compare; without this option, only plain and zeromq run.
    #[arg(long)]
    evbd: Option<PathBuf>,
    /// Run `iperf3` too, with a TCP stream from every source to every builder: what the machine and
    /// the network carry.
    #[arg(long)]
    iperf3: bool,
    /// Number of runs of each program on each workload; the median is reported.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// evbd only: number of outstanding events per builder; by default evbd computes it.
    #[arg(long)]
    slots: Option<u32>,
    /// evbd only: a line for a section of its TOML configuration, such as `shaping: budget = "8
    /// MB"`; the option may be repeated.
    #[arg(long, value_name = "SECTION: LINE")]
    set: Vec<String>,
    /// evbd only: rate of every network link, such as `10 Gbit/s`; sets `network.link_rate` in
    /// evbd's configuration.
    #[arg(long)]
    link_rate: Option<String>,
    /// evbd only: buffer of a switch port towards a builder, such as `128 KiB`; sets
    /// `network.port_buffer` in evbd's configuration.
    #[arg(long)]
    port_buffer: Option<String>,
    /// Run every process on a host of the network lab that is up, so that traffic crosses the lab's
    /// switch; needs root. `--link-rate` and `--port-buffer` must state the values of the lab's
    /// switch ports. The report then also counts packets that the ports drop.
    #[arg(long)]
    netns: bool,
    /// Workload as SOURCESxBUILDERSxBYTES, where BYTES is the payload per fragment; the option may
    /// be repeated.
    #[arg(long, default_values_t = WORKLOADS.map(str::to_owned))]
    workload: Vec<String>,
    /// Triggers per second, the same for all programs; by default, as fast as possible.
    #[arg(long)]
    rate: Option<f64>,
    /// Duration of every run, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// File to which the results of all runs and the table are also written, as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print JSON only.
    #[arg(long)]
    json: bool,
}

/// Numbers of sources and builders, and bytes per fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Number of source processes.
    pub sources: u32,
    /// Number of builder processes.
    pub builders: u32,
    /// Payload bytes per fragment.
    pub size: usize,
}

impl FromStr for Workload {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('x').collect();
        let [sources, builders, size] = parts[..] else {
            anyhow::bail!("workload {text:?} is not SOURCESxBUILDERSxBYTES");
        };
        let what = || format!("workload {text:?} is not SOURCESxBUILDERSxBYTES");
        Ok(Self {
            sources: sources.parse().with_context(what)?,
            builders: builders.parse().with_context(what)?,
            size: size.parse().with_context(what)?,
        })
    }
}

#[derive(Serialize)]
struct Outcome {
    runs: Vec<Report>,
    rows: Vec<Row>,
}

impl Comparison {
    fn place(&self) -> Place {
        if self.netns { Place::Lab } else { Place::Loopback }
    }

    /// Returns the requested lines of evbd's configuration.
    fn lines(&self) -> Vec<String> {
        let stated = [("link_rate", &self.link_rate), ("port_buffer", &self.port_buffer)];
        let stated = stated
            .into_iter()
            .filter_map(|(key, value)| value.as_ref().map(|value| format!("network: {key} = \"{value}\"")));
        stated.chain(self.set.iter().cloned()).collect()
    }

    /// Rejects impossible arguments before the first run starts.
    fn check(&self, workloads: &[Workload]) -> Result<()> {
        ensure!(self.repeats > 0, "--repeats must be at least 1");
        ensure!(self.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "--rate must be positive");
        // If the port buffer is unknown, evbd requests megabytes at once: fine on loopback, too
        // much for a switch port.
        let states = |key: &str| self.lines().iter().any(|line| line.contains(key));
        let is_stated = states("port_buffer") || states("budget");
        ensure!(
            !self.netns || self.evbd.is_none() || is_stated,
            "--netns needs --port-buffer, and --link-rate, for evbd: those of the lab's ports"
        );
        let most = |count: fn(&Workload) -> u32| workloads.iter().map(count).max().unwrap_or_default();
        self.place().check(most(|one| one.sources), most(|one| one.builders))
    }
}

/// Runs the compared programs in turns, so that other load on the machine affects all of them
/// alike.
pub fn compare(comparison: &Comparison) -> Result<()> {
    let workloads = comparison.workload.iter().map(|text| text.parse()).collect::<Result<Vec<Workload>>>()?;
    comparison.check(&workloads)?;
    let (place, lines) = (comparison.place(), comparison.lines());
    let mut runs = Vec::new();
    for workload in &workloads {
        for _ in 0..comparison.repeats {
            let mut turn = Vec::new();
            if let Some(program) = &comparison.evbd {
                let settings =
                    evbd::Settings { slots: comparison.slots, rate: comparison.rate, lines: &lines };
                turn.push(evbd::run(place, program, *workload, comparison.seconds, settings)?);
            }
            if comparison.iperf3 {
                turn.push(iperf3::run(place, *workload, comparison.seconds, comparison.rate)?);
            }
            for program in ["plain", "zeromq"] {
                let work = Work { rate: comparison.rate, ..Work::of(workload.size, comparison.seconds) };
                turn.push(launch::run(place, program, workload.sources, workload.builders, &work)?);
            }
            turn.iter().for_each(|report| eprintln!("{report}"));
            runs.extend(turn);
        }
    }
    let outcome = Outcome { rows: rows(&workloads, &runs), runs };
    let json = serde_json::to_string_pretty(&outcome)?;
    if let Some(path) = &comparison.output {
        std::fs::write(path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = if comparison.json { json } else { table(&outcome.rows) };
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
