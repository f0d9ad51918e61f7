//! Compares evbd, plain sockets and ZeroMQ, which take turns on the same workloads: prints medians,
//! and evb's ratio to the other two.

mod evbd;
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
const WORKLOADS: [&str; 3] = ["1x1x1000000", "4x4x1000000", "4x4x1000"];

/// The arguments of a comparison.
#[derive(Args, Clone, Debug)]
pub struct Comparison {
    /// The evbd to compare; without it, plain and zeromq only.
    #[arg(long)]
    evbd: Option<PathBuf>,
    /// Runs of each program and workload; the median counts.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// evbd: events outstanding per builder; by default evbd computes them.
    #[arg(long)]
    slots: Option<u32>,
    /// evbd: lines of TOML for a section, such as `shaping: budget = "8 MB"`; several are allowed.
    #[arg(long, value_name = "SECTION: LINE")]
    set: Vec<String>,
    /// evbd: the rate of every link, such as `10 Gbit/s`; its `network.link_rate`.
    #[arg(long)]
    link_rate: Option<String>,
    /// evbd: the buffer of a switch port towards a builder, such as `128 KiB`; its
    /// `network.port_buffer`.
    #[arg(long)]
    port_buffer: Option<String>,
    /// Run every process on a host of the network lab that is up, so that traffic crosses its
    /// switch; needs root. Take the `--link-rate` and `--port-buffer` of the lab's ports. Also
    /// counts packets that the ports drop.
    #[arg(long)]
    netns: bool,
    /// SOURCESxBUILDERSxBYTES; several are allowed.
    #[arg(long, default_values_t = WORKLOADS.map(str::to_owned))]
    workload: Vec<String>,
    /// Length of every run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Also write all runs and the table as JSON to this file.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print JSON only.
    #[arg(long)]
    json: bool,
}

/// Numbers of sources and builders, and bytes per fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Source processes.
    pub sources: u32,
    /// Builder processes.
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

    /// Rejects arguments that cannot be run, before anything is run.
    fn check(&self, workloads: &[Workload]) -> Result<()> {
        ensure!(self.repeats > 0, "--repeats must be at least 1");
        // Without a stated port evbd requests megabytes at once, which suits loopback.
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

/// Runs the programs in turns, so that other load on the machine affects all of them alike.
pub fn compare(comparison: &Comparison) -> Result<()> {
    let workloads = comparison.workload.iter().map(|text| text.parse()).collect::<Result<Vec<Workload>>>()?;
    comparison.check(&workloads)?;
    let (place, lines) = (comparison.place(), comparison.lines());
    let mut runs = Vec::new();
    for workload in &workloads {
        for _ in 0..comparison.repeats {
            let mut turn = Vec::new();
            if let Some(program) = &comparison.evbd {
                let settings = evbd::Settings { slots: comparison.slots, lines: &lines };
                turn.push(evbd::run(place, program, *workload, comparison.seconds, settings)?);
            }
            for program in ["plain", "zeromq"] {
                let work = Work::of(workload.size, comparison.seconds);
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
