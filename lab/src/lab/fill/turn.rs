//! Performs one run of one program, and reads the counters of the network and the machine.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use lab_base::{
    bench::{Bench, since},
    fleet::ended_cpu_seconds,
    iperf,
    network::Network,
    report::Report,
    system::{Mode, System, Transport, Trigger, safe_window},
};
use serde_json::{Value, json};

use super::{Case, zeromq};

/// A program or variant that takes turns in the comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Program {
    Iperf,
    Zeromq,
    Evb(Transport),
    /// evb with twice the trigger rate that the port can carry.
    Twice(Transport),
    /// Another evbd, at this path.
    Before(Transport, PathBuf),
    /// evb with these additional lines in `[shaping]`.
    With(Transport, String),
    /// evb in shaping mode `window`: a lane may send a fixed part of the budget without waiting for
    /// a grant.
    Window(Transport),
}

impl Program {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Iperf => "iperf3".to_owned(),
            Self::Zeromq => "zeromq".to_owned(),
            Self::Evb(transport) => format!("evb {}", transport.word()),
            Self::Twice(transport) => format!("evb {} twice", transport.word()),
            Self::Before(transport, _) => format!("before {}", transport.word()),
            Self::With(transport, lines) => format!("evb {} with {lines}", transport.word()),
            Self::Window(transport) => format!("evb {} window", transport.word()),
        }
    }

    /// Returns true for the evbd under test, in all its variants; it must not cause any packet
    /// drop.
    pub(super) fn is_judged(&self) -> bool {
        matches!(self, Self::Evb(_) | Self::Twice(_) | Self::With(..) | Self::Window(_))
    }
}

/// Result of one run of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Payload received by the builders, in bit/s.
    pub(super) goodput: f64,
    /// Number of packets dropped at all ports of the switch.
    pub(super) drops: u64,
    /// The ports with drops, by host, and their number of drops as the kernel counts it: a train
    /// counts as one.
    pub(super) trains: Vec<(String, u64)>,
    /// Processor time of all processes of the turn, in seconds per GB of payload. It lacks the
    /// kernel's work for packets that interrupts found no process for.
    pub(super) cpu_s_per_gb: f64,
    /// Number of events that the builders received; NaN if the program has no events.
    pub(super) events_per_s: f64,
    /// Median event latency in µs; like `p99`, NaN if no latency was measured.
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Measured {
    pub(super) fn json(&self) -> Value {
        json!({
            "goodput_bit_per_s": self.goodput,
            "drops": self.drops,
            "trains_dropped": self.trains,
            "cpu_s_per_gb": self.cpu_s_per_gb,
            "events_per_s": self.events_per_s,
            "p50_us": self.p50,
            "p99_us": self.p99,
        })
    }
}

/// Figures that a program reports about its own run.
struct Said {
    bytes: f64,
    goodput: f64,
    p50: f64,
    p99: f64,
}

/// The programs that take turns, and the bench that runs them.
pub(super) struct Turns<'b> {
    pub(super) bench: &'b Bench,
    pub(super) programs: Vec<Program>,
    pub(super) peers: Option<PathBuf>,
}

impl Turns<'_> {
    /// Runs each program once; another program starts in each round.
    pub(super) fn round(
        &self,
        network: &Network,
        case: &Case,
        number: usize,
        report: &mut Report,
    ) -> Result<Vec<Measured>> {
        let count = self.programs.len();
        let mut round = vec![Measured::default(); count];
        for place in (0..count).map(|place| (place + number) % count) {
            round[place] = self.turn(network, case, number, &self.programs[place], report)?;
        }
        Ok(round)
    }

    fn turn(
        &self,
        network: &Network,
        case: &Case,
        number: usize,
        program: &Program,
        report: &mut Report,
    ) -> Result<Measured> {
        let (ports, passage, cpu_s) = (network.ports()?, network.passage()?, ended_cpu_seconds()?);
        let said = match program {
            Program::Iperf => iperf(network, self.bench.seconds)?,
            Program::Zeromq => self.zeromq(network, case, number, report)?,
            Program::Evb(transport)
            | Program::Twice(transport)
            | Program::With(transport, _)
            | Program::Window(transport)
            | Program::Before(transport, _) => {
                self.evb(network, case, number, program, *transport, report)?
            }
        };
        let cpu_s = ended_cpu_seconds()? - cpu_s;
        let event = f64::from(case.shape.sources) * case.fragment as f64;
        let events_per_s = if *program == Program::Iperf { f64::NAN } else { said.goodput / 8.0 / event };
        let dropped = since(&ports, network.ports()?);
        Ok(Measured {
            goodput: said.goodput,
            drops: network.passage()?.dropped_since(passage),
            trains: dropped
                .into_iter()
                .filter(|(_, p)| p.drops > 0)
                .map(|(host, p)| (host, p.drops))
                .collect(),
            cpu_s_per_gb: cpu_s / said.bytes * 1e9,
            events_per_s,
            p50: said.p50,
            p99: said.p99,
        })
    }

    fn zeromq(&self, network: &Network, case: &Case, number: usize, report: &mut Report) -> Result<Said> {
        let peers = self.peers.as_deref().context("no peers")?.canonicalize()?;
        let built = zeromq::run(network, &peers, case, self.bench.seconds)?;
        if built.incomplete > 0 {
            report.note(format!("{} round {number}: ZeroMQ lost {} events", case.name(), built.incomplete));
        }
        let (p50, p99) = (built.p50, built.p99);
        Ok(Said { bytes: built.bytes, goodput: built.bytes * 8.0 / built.seconds, p50, p99 })
    }

    fn evb(
        &self,
        network: &Network,
        case: &Case,
        number: usize,
        program: &Program,
        transport: Transport,
        report: &mut Report,
    ) -> Result<Said> {
        let mode = match program {
            Program::Window(_) => Mode::Window(safe_window(case.shape)),
            _ => Mode::Credit,
        };
        let system = System::new(mode, case.fragment).over(transport);
        let system = match program {
            Program::With(_, lines) => system.shaped(lines),
            _ => system,
        };
        let system = match (program, case.rate) {
            (Program::Twice(_), _) => {
                let carried = f64::from(case.shape.builders) / system.wire_time(case.shape);
                system.trigger(Trigger::Periodic(2.0 * carried)).warn()
            }
            (_, Some(rate)) => system.trigger(Trigger::Periodic(rate)).warn(),
            (_, None) => system,
        };
        let name = format!(
            "{} {} round {number}",
            case.name().replace('/', " per "),
            program.name().replace(['"', '='], " ")
        );
        let evbd = match program {
            Program::Before(_, evbd) => evbd,
            _ => &self.bench.evbd,
        };
        let outcome = self.bench.run_program(evbd, network, &name, system)?;
        if program.is_judged() {
            report.keep(&outcome);
            report.yes(&format!("{name}: every event complete"), outcome.is_complete());
        } else if !outcome.is_complete() {
            report.note(format!("{name}: not every event complete"));
        }
        Ok(Said {
            bytes: outcome.number("bytes.payload"),
            goodput: outcome.goodput(),
            p50: outcome.latency_us("p50"),
            p99: outcome.latency_us("p99"),
        })
    }
}

fn iperf(network: &Network, seconds: f64) -> Result<Said> {
    let received = iperf::run(network, seconds)?;
    Ok(Said {
        bytes: received.bytes,
        goodput: received.bytes * 8.0 / received.seconds,

        p50: f64::NAN,
        p99: f64::NAN,
    })
}
