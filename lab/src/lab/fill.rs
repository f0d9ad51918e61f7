//! Goodput through fast ports: evb, `iperf3` and a ZeroMQ event builder take turns on the same
//! hosts. A round is one run of each program, so that a ratio compares runs that are close in time;
//! bounds are on the median over the rounds.

mod zeromq;
mod turn;
mod table;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use lab_base::{
    bench::Bench,
    interrupt,
    network::{Network, Shape},
    report::Report,
};

use self::{
    table::{Rounds, judge},
    turn::{Program, Turns},
};

/// Bytes of a fragment if one source sends alone; `AMONG_OTHERS` is the size for several sources.
const ALONE: u64 = 1_000_000;
const AMONG_OTHERS: u64 = 64_000;

#[derive(Args)]
pub(crate) struct FillArgs {
    /// Numbers of sources and builders to test, such as 8x1.
    #[arg(long, value_delimiter = ',', default_value = "1x1,2x1,8x1,32x1")]
    cases: Vec<Hosts>,
    /// Rates of the switch ports to test, in Mbit/s.
    #[arg(long, value_delimiter = ',', default_value = "10000")]
    mbit: Vec<u64>,
    /// Buffers of the switch ports to test, in KiB.
    #[arg(long, value_delimiter = ',', default_value = "128,512")]
    kib: Vec<u64>,
    /// Bytes of a fragment; by default 1 MB with one source, and 64 kB with several.
    #[arg(long, value_delimiter = ',')]
    fragment: Vec<u64>,
    /// Number of rounds of each case.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Path of the program `peers` of `benches/peers`, which contains the ZeroMQ event builder;
    /// without it, ZeroMQ is left out.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Path of another `evbd`, such as an older version, which takes turns too, for comparison.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Leave `iperf3` out of the comparison.
    #[arg(long)]
    no_iperf: bool,
    /// Trigger rate for evb and ZeroMQ, in events/s, at which their latencies are compared; by
    /// default they run as fast as possible.
    #[arg(long)]
    rate: Option<f64>,
    /// Give evb a further turn with twice the trigger rate that the port can carry.
    #[arg(long, conflicts_with = "rate")]
    twice: bool,
    /// Give evb a further turn with these lines in `[shaping]`, such as `busy_poll = "force"`.
    #[arg(long)]
    with: Vec<String>,
    /// Give evb a further turn in shaping mode `window`, with windows that together fit into the
    /// port's buffer.
    #[arg(long)]
    window: bool,
}

/// Numbers of source and builder hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hosts {
    sources: u16,
    builders: u16,
}

impl std::str::FromStr for Hosts {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (sources, builders) = text.split_once('x').context("as in 8x1")?;
        let hosts = Self { sources: sources.parse()?, builders: builders.parse()? };
        ensure!((1..=254).contains(&hosts.sources) && (1..=254).contains(&hosts.builders), "1 to 254 hosts");
        Ok(hosts)
    }
}

/// A case of the comparison: a network, a fragment size and a trigger rate.
#[derive(Clone, Copy, Debug)]
struct Case {
    shape: Shape,
    fragment: u64,
    /// Trigger rate in events/s; `None` means as fast as possible.
    rate: Option<f64>,
}

impl Case {
    fn name(&self) -> String {
        let Shape { sources, builders, rate, port_buffer, mtu, .. } = self.shape;
        let mut name = format!(
            "{sources}x{builders} {} Gbit/s {} KiB {} B",
            rate as f64 / 1e9,
            port_buffer / 1024,
            self.fragment
        );
        if mtu != Shape::PLAIN.mtu {
            name += &format!(" MTU {mtu}");
        }
        if let Some(rate) = self.rate {
            name += &format!(" at {rate} Hz");
        }
        name
    }
}

pub(crate) fn run(bench: &Bench, args: &FillArgs) -> Result<Report> {
    let mut report = Report::bare("fill");
    let turns = Turns { bench, programs: programs(bench, args)?, peers: args.peers.clone() };
    let mut tables = Vec::new();
    for case in cases(bench, args) {
        let name = case.name();
        if !bench.wants(&name) {
            continue;
        }
        let network = Network::up(case.shape)?;
        println!("{name}");
        let mut rounds = Rounds::new(case, turns.programs.clone());
        for number in 1..=args.rounds {
            interrupt::check()?;
            let round = turns.round(&network, &case, number, &mut report)?;
            println!("{}", table::line(number, &turns.programs, &round));
            rounds.add(round);
        }
        drop(network);
        judge(&rounds, &mut report);
        report.attach(&name, rounds.json());
        tables.push(rounds);
    }
    println!("\n{}", table::markdown(&tables));
    Ok(report)
}

fn cases(bench: &Bench, args: &FillArgs) -> Vec<Case> {
    let mut cases = Vec::new();
    for mbit in &args.mbit {
        for kib in &args.kib {
            for hosts in &args.cases {
                let usual = [if hosts.sources == 1 { ALONE } else { AMONG_OTHERS }];
                let fragments = if args.fragment.is_empty() { &usual[..] } else { &args.fragment };
                let shape = Shape {
                    sources: hosts.sources,
                    builders: hosts.builders,
                    rate: mbit * 1_000_000,
                    port_buffer: kib * 1024,
                    mtu: bench.mtu,
                    trains: true,
                    ..Shape::PLAIN
                };
                cases.extend(fragments.iter().map(|fragment| Case {
                    shape,
                    fragment: *fragment,
                    rate: args.rate,
                }));
            }
        }
    }
    cases
}

/// Returns the programs that take turns, in their order.
fn programs(bench: &Bench, args: &FillArgs) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    // `iperf3` cannot send at a given event rate, so it takes part only at full speed.
    if !args.no_iperf && args.rate.is_none() {
        programs.push(Program::Iperf);
    }
    if let Some(peers) = &args.peers {
        ensure!(peers.is_file(), "there is no {}", peers.display());
        programs.push(Program::Zeromq);
    }
    for transport in bench.transports {
        programs.push(Program::Evb(*transport));
        if args.twice {
            programs.push(Program::Twice(*transport));
        }
        programs.extend(args.with.iter().map(|lines| Program::With(*transport, lines.clone())));
        if args.window {
            programs.push(Program::Window(*transport));
        }
        if let Some(before) = &args.before {
            let evbd = before.canonicalize().with_context(|| before.display().to_string())?;
            programs.push(Program::Before(*transport, evbd));
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests;
