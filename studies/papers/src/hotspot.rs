//! The conclusion of the RCNP event builder (Nomachi et al.): ports that serve incoming trunks in
//! turn give equal shares to trunks and not to sources, so an event builder needs a control of its
//! own. Sources behind two trunks, four and four, or four and two, send to three builders at ports
//! of 155 Mbit/s: first raw streams of `iperf3`, then evb. The simulator's figures stand beside.
//! Before, streams meet in the study's simpler patterns (`patterns`).

mod shares;
mod patterns;

use anyhow::Result;
use lab_base::{
    bench::Bench,
    iperf,
    network::{Link, Network, Shape, Tree},
    outcome::{Outcome, furthest},
    report::{Bound, Report},
    system::{Mode, System, Transport, port_capacity},
};
use serde_json::Value;

use self::shares::Share;
use super::twin;

const FRAGMENT: u64 = 16_000;
const BUILDERS: u16 = 3;
const RATE: u64 = 155_000_000;
const TRUNK: Link = Link { rate: 622_000_000, buffer: 512 * 1024 };
/// Buffer of a port. Each of the two trunks, and the hosts of the switch, have a third of it.
const PORT: u64 = 384 * 1024;
/// Number of raw streams from a source to a builder. TCP shares a port unevenly among few streams,
/// even over minutes; the sums of more streams are even.
const STREAMS: usize = 8;
/// Duration of raw streams, in durations of a run of evb: TCP takes longer to share a port equally.
const RAW_TIMES: f64 = 4.0;
/// Payload that ATM carried of a port's 155 Mbit/s, in Mbit/s.
const ATM: f64 = 128.0;
/// Rates in Mbit/s that eight sources had, and the lone two of six.
const ONE_OF_FOUR: f64 = 48.0;
const ONE_OF_TWO: f64 = 96.0;
/// Largest relative differences: of raw streams from the expected rate, of shares of evb, and
/// between the lab and the simulator.
const RAW: f64 = 0.1;
const EQUAL: f64 = 0.03;
const AGREEMENT: f64 = 0.05;

/// A number of sources, of which the first four are behind the first trunk.
const CASES: [(&str, u16); 2] = [("balanced", 8), ("unbalanced", 6)];
const FIRST: u16 = 4;

fn shape(sources: u16) -> Shape {
    let tree = Tree::Merge { first: FIRST, each: TRUNK };
    Shape { sources, builders: BUILDERS, rate: RATE, port_buffer: PORT, tree, ..Shape::PLAIN }
}

pub fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("hotspot");
    let mut shares = patterns::run(bench, &mut report)?;
    for (name, sources) in CASES {
        let wants = |what: &str| bench.wants(&format!("{name} {what}"));
        let transports: Vec<_> = bench.transports.iter().filter(|of| wants(of.word())).collect();
        if !wants("raw") && transports.is_empty() {
            continue;
        }
        let network = Network::up(shape(sources))?;
        if wants("raw") {
            shares.extend(raw(bench, &network, &mut report, name)?);
        }
        for transport in transports {
            shares.extend(evb(bench, &network, &mut report, name, *transport)?);
        }
    }
    shares::publish(&shares, &bench.out, &mut report)?;
    Ok(report)
}

/// Returns the payload rate of a full port in Mbit/s.
fn full(transport: Transport, fragment: u64, shape: Shape) -> f64 {
    port_capacity(shape, transport, fragment) / 1e6
}

/// Runs streams of `iperf3` from each source to each builder, and checks the rates of the sources
/// behind each trunk.
fn raw(bench: &Bench, network: &Network, report: &mut Report, name: &str) -> Result<Vec<Share>> {
    let shape = network.shape();
    let pairs = twin::pairs(shape);
    let seconds = bench.seconds * RAW_TIMES;
    let rates = by_source(shape, &iperf::streams(network, &pairs, STREAMS, seconds)?.rates);
    let simulated = twin::streams(shape, STREAMS)?;
    let expected = by_source(shape, &simulated);
    let scale = full(Transport::Tcp, u64::MAX, shape) / ATM;
    println!("{name}, raw streams, Mbit/s of each source: {rates:.1?}; simulated: {expected:.1?}");
    let (first, second) = rates.split_at(FIRST.into());
    let second_each = if shape.sources == 2 * FIRST { ONE_OF_FOUR } else { ONE_OF_TWO };
    for (trunk, rates, each) in [("first", first, ONE_OF_FOUR), ("second", second, second_each)] {
        let each = each * scale;
        report.note(format!("{name} raw, {trunk} trunk: {each:.1} Mbit/s each expected, {rates:.1?}"));
        let off = furthest(rates, each);
        report.noisy(&format!("{name} raw, {trunk} trunk: furthest source"), off, Bound::AtMost(RAW));
    }
    let of_trunks = |rates: &[f64]| [mean(&rates[..FIRST.into()]), mean(&rates[FIRST.into()..])];
    let pairs = of_trunks(&rates).into_iter().zip(of_trunks(&expected));
    let off = pairs.map(|(lab, simulated)| (lab / simulated - 1.0).abs()).fold(0.0, f64::max);
    report.noisy(&format!("{name} raw: difference to the simulator"), off, Bound::AtMost(AGREEMENT));
    let row = |(place, (got, simulated)): (usize, (&f64, &f64))| {
        let paper = if place < usize::from(FIRST) { ONE_OF_FOUR } else { second_each };
        Share {
            case: name.to_owned(),
            way: "raw",
            of: format!("source {}", place + 1),
            paper: Some(paper),
            expected: paper * scale,
            got: *got,
            simulated: Some(*simulated),
        }
    };
    Ok(rates.iter().zip(&expected).enumerate().map(row).collect())
}

/// Payload rates in Mbit/s.
struct Rates {
    sources: Vec<f64>,
    builders: Vec<f64>,
}

/// Runs evb, and returns the share of each source.
fn evb(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    case: &str,
    transport: Transport,
) -> Result<Vec<Share>> {
    let [lab, simulated] =
        system(bench, network, report, &format!("{case} {}", transport.word()), transport)?;
    let expected = source_share(transport, network.shape());
    let row = |(place, (got, simulated)): (usize, (&f64, &f64))| Share {
        case: case.to_owned(),
        way: transport.word(),
        of: format!("source {}", place + 1),
        paper: None,
        expected,
        got: *got,
        simulated: Some(*simulated),
    };
    Ok(lab.sources.iter().zip(&simulated.sources).enumerate().map(row).collect())
}

/// Returns the payload rate of each source in Mbit/s while all builders' ports are full.
fn source_share(transport: Transport, shape: Shape) -> f64 {
    full(transport, FRAGMENT, shape) * f64::from(shape.builders) / f64::from(shape.sources)
}

/// Runs evb in the lab and in the simulator, and checks that all sources have equal shares and all
/// ports their full rate.
fn system(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    name: &str,
    transport: Transport,
) -> Result<[Rates; 2]> {
    let shape = network.shape();
    let outcome = bench.run(network, name, System::new(Mode::Credit, FRAGMENT).over(transport))?;
    report.add(&outcome);
    report.clean(&outcome);
    let lab = Rates { sources: rates(&outcome, "sources"), builders: rates(&outcome, "builders") };
    let twin = twin::system(&bench.out.join(Bench::case(name)).join("config.toml"), shape)?;
    let simulated =
        Rates { sources: twin::megabits(&twin.source_rates), builders: twin::megabits(&twin.builder_rates) };
    println!("{name}, Mbit/s of each source: {:.1?}; simulated: {:.1?}", lab.sources, simulated.sources);
    println!("{name}, Mbit/s of each builder: {:.1?}; simulated: {:.1?}", lab.builders, simulated.builders);
    let (share, full) = (source_share(transport, shape), full(transport, FRAGMENT, shape));
    report
        .note(format!("{name}: {share:.1} Mbit/s of each source is possible, and {full:.1} to each builder"));
    for (what, rates, possible) in [("source", &lab.sources, share), ("builder", &lab.builders, full)] {
        report.noisy(&format!("{name}: furthest {what}"), furthest(rates, possible), Bound::AtMost(EQUAL));
    }
    let each = |lab: &[f64], simulated: &[f64]| {
        let pairs = lab.iter().zip(simulated);
        pairs.map(|(lab, simulated)| (lab / simulated - 1.0).abs()).fold(0.0, f64::max)
    };
    let off = each(&lab.sources, &simulated.sources).max(each(&lab.builders, &simulated.builders));
    report.noisy(&format!("{name}: difference to the simulator"), off, Bound::AtMost(AGREEMENT));
    Ok([lab, simulated])
}

/// Returns the sums of the rates of each source's streams, which are in the order of
/// [`twin::pairs`].
fn by_source(shape: Shape, streams: &[f64]) -> Vec<f64> {
    streams.chunks(shape.builders.into()).map(|of_source| of_source.iter().sum()).collect()
}

/// Returns the rate of the payload of each source or builder in Mbit/s, over the time in which
/// events were built.
fn rates(outcome: &Outcome, of: &str) -> Vec<f64> {
    let all = outcome.number("bytes.payload");
    let payload = |peer: &Value| peer["payload_bytes"].as_f64().unwrap_or(f64::NAN);
    let peers = outcome.summary[of].as_array().into_iter().flatten();
    peers.map(|peer| payload(peer) / all * outcome.goodput() / 1e6).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;
