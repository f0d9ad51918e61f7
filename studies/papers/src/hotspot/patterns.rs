//! Raw streams that meet in two switches, in the patterns of the RCNP study: independent streams, a
//! mesh, two streams to one builder, and a third stream beside these. The mesh is also the traffic
//! of evb itself.

use std::collections::BTreeMap;

use anyhow::Result;
use lab_base::{
    bench::Bench,
    iperf,
    network::{Link, Network, Shape, Tree},
    outcome::furthest,
    report::{Bound, Report},
    system::Transport,
};

use super::{super::twin, ATM, FRAGMENT, RAW, STREAMS, full, shares::Share, system};

/// Half of the study's rates, so that two cores carry four full ports through two switches.
const RATE: u64 = 77_500_000;
const TRUNK: Link = Link { rate: 311_000_000, buffer: 256 * 1024 };
const PORT: u64 = 128 * 1024;
/// Duration of the streams, in durations of a run of evb.
const TIMES: f64 = 2.0;

/// A traffic pattern of the study.
struct Pattern {
    name: &'static str,
    /// Largest relative difference of a stream from its expected rate; `None` if single streams are
    /// only noted.
    tolerance: Option<f64>,
    /// Sources and builders of the streams, each with the rate of the study in Mbit/s.
    streams: &'static [(u16, u16, f64)],
}

const PATTERNS: [Pattern; 4] = [
    Pattern {
        name: "independent",
        tolerance: Some(RAW),
        streams: &[(1, 1, ATM), (2, 2, ATM), (3, 3, ATM), (4, 4, ATM)],
    },
    Pattern {
        name: "mesh",
        // The study's switch gave each connection an equal share by credits. On Ethernet, TCP alone
        // divides a port, and not evenly; evb's credit does.
        tolerance: None,
        streams: &[
            (1, 1, ATM / 4.0),
            (1, 2, ATM / 4.0),
            (1, 3, ATM / 4.0),
            (1, 4, ATM / 4.0),
            (2, 1, ATM / 4.0),
            (2, 2, ATM / 4.0),
            (2, 3, ATM / 4.0),
            (2, 4, ATM / 4.0),
            (3, 1, ATM / 4.0),
            (3, 2, ATM / 4.0),
            (3, 3, ATM / 4.0),
            (3, 4, ATM / 4.0),
            (4, 1, ATM / 4.0),
            (4, 2, ATM / 4.0),
            (4, 3, ATM / 4.0),
            (4, 4, ATM / 4.0),
        ],
    },
    Pattern { name: "merging", tolerance: Some(RAW), streams: &[(1, 1, ATM / 2.0), (2, 1, ATM / 2.0)] },
    Pattern {
        name: "neighbour",
        tolerance: Some(RAW),
        streams: &[(1, 1, ATM / 2.0), (2, 1, ATM / 2.0), (3, 2, ATM)],
    },
];

fn shape() -> Shape {
    Shape { sources: 4, builders: 4, rate: RATE, port_buffer: PORT, tree: Tree::Two(TRUNK), ..Shape::PLAIN }
}

/// Runs the patterns, and checks the rate of each stream.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<Vec<Share>> {
    let wanted: Vec<_> =
        PATTERNS.iter().filter(|pattern| bench.wants(&format!("{} raw", pattern.name))).collect();
    let transports = bench.transports.iter().filter(|of| bench.wants(&format!("mesh {}", of.word())));
    let transports: Vec<Transport> = transports.copied().collect();
    let mut shares = Vec::new();
    if wanted.is_empty() && transports.is_empty() {
        return Ok(shares);
    }
    let network = Network::up(shape())?;
    for pattern in wanted {
        shares.extend(one(bench, &network, report, pattern)?);
    }
    for transport in transports {
        shares.extend(mesh(bench, &network, report, transport)?);
    }
    Ok(shares)
}

/// Runs evb, and returns the share of each pair of a source and a builder.
fn mesh(bench: &Bench, network: &Network, report: &mut Report, transport: Transport) -> Result<Vec<Share>> {
    let shape = network.shape();
    let name = format!("mesh {}", transport.word());
    let [lab, simulated] = system(bench, network, report, &name, transport)?;
    // Every event is complete, and all fragments have the same size, so each source has sent an
    // equal part of each builder's bytes.
    let part = |rates: &[f64], builder: u16| {
        rates.get(usize::from(builder) - 1).copied().unwrap_or(f64::NAN) / f64::from(shape.sources)
    };
    let row = |(source, builder): (u16, u16)| Share {
        case: "mesh".to_owned(),
        way: transport.word(),
        of: format!("{source}→{builder}"),
        paper: Some(ATM / 4.0),
        expected: full(transport, FRAGMENT, shape) / f64::from(shape.sources),
        got: part(&lab.builders, builder),
        simulated: Some(part(&simulated.builders, builder)),
    };
    Ok(twin::pairs(shape).into_iter().map(row).collect())
}

fn one(bench: &Bench, network: &Network, report: &mut Report, pattern: &Pattern) -> Result<Vec<Share>> {
    let shape = network.shape();
    let pairs: Vec<(u16, u16)> = pattern.streams.iter().map(|(from, to, _)| (*from, *to)).collect();
    let got = iperf::streams(network, &pairs, STREAMS, bench.seconds * TIMES)?.rates;
    let scale = full(Transport::Tcp, u64::MAX, shape) / ATM;
    let shares: Vec<Share> = pattern
        .streams
        .iter()
        .zip(&got)
        .map(|((from, to, paper), got)| Share {
            case: pattern.name.to_owned(),
            way: "raw",
            of: format!("{from}→{to}"),
            paper: Some(*paper),
            expected: paper * scale,
            got: *got,
            simulated: None,
        })
        .collect();
    println!("{} raw, Mbit/s of each stream: {got:.1?}", pattern.name);
    let parts: Vec<f64> = shares.iter().map(|share| share.got / share.expected).collect();
    let off = furthest(&parts, 1.0);
    let what = format!("{} raw: furthest stream", pattern.name);
    match pattern.tolerance {
        Some(tolerance) => report.noisy(&what, off, Bound::AtMost(tolerance)),
        None => report.note(format!("{what}: {off:.3} of its share (not judged)")),
    }
    let parts: Vec<f64> = by_builder(pattern, &shares).iter().map(|(got, all)| got / all).collect();
    let off = furthest(&parts, 1.0);
    report.noisy(&format!("{} raw: furthest builder", pattern.name), off, Bound::AtMost(RAW));
    Ok(shares)
}

/// Returns the measured and the expected rate of all streams to each builder.
fn by_builder(pattern: &Pattern, shares: &[Share]) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
    for ((_, to, _), share) in pattern.streams.iter().zip(shares) {
        let (got, expected) = sums.entry(*to).or_default();
        *got += share.got;
        *expected += share.expected;
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests;
