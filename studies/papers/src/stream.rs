//! Checks `evb-bench stream` against `iperf3`: both measure the throughput of one flow between two
//! hosts, one after the other, over links of known rate.

pub mod records;

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use lab_base::{
    bench::Bench,
    guard::Guarded,
    network::{Network, Shape, address},
    outcome::median,
    reference,
    report::{Bound, Report},
    system::Transport,
};
use serde_json::{Value, json};

/// Largest allowed difference of the two rates, as a part of the rate of `iperf3`.
const TOLERANCE: f64 = 0.05;
/// Part of the link that `iperf3` must fill over UDP, so that the case is judged: single datagrams
/// of a packet may take more processor time than there is.
const FULL: f64 = 0.9;
/// Rates of the link to test, in Mbit/s.
const MBIT: [u64; 2] = [100, 1000];
/// Size of the records over TCP, in bytes: that of `iperf3`.
const RECORD: &str = "131072";
/// UDP payload of a packet of 1500 bytes, in bytes.
const DATAGRAM: &str = "1472";
/// Number of measurements of `bench stream` in a round, which share the duration of the round.
const REPEATS: u32 = 3;
/// Time at the beginning of each flow that neither program counts, in seconds.
const START: u32 = 1;
const SENDER: &str = "s1";
const RECEIVER: &str = "b1";

pub fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::bare("stream");
    println!("{:<20} {:>6} {:>12} {:>12} {:>8}   Mbit/s", "case", "round", "iperf3", "evbd", "ratio");
    for mbit in MBIT {
        let cases = [Transport::Tcp, Transport::Udp].map(|transport| (transport, name(mbit, transport)));
        if !cases.iter().any(|(_, name)| bench.wants(name)) {
            continue;
        }
        let network = hosts(mbit)?;
        for (transport, name) in cases.iter().filter(|(_, name)| bench.wants(name)) {
            case(bench, &network, name, *transport, &mut report)?;
        }
    }
    Ok(report)
}

/// Creates a network of two hosts. The hosts send trains of packets, so that the processors do not
/// limit the fast link.
fn hosts(mbit: u64) -> Result<Network> {
    Network::up(Shape { rate: mbit * 1_000_000, port_buffer: 512 * 1024, trains: true, ..Shape::PLAIN })
}

fn name(mbit: u64, transport: Transport) -> String {
    format!("{mbit} Mbit/s {}", transport.word())
}

/// Measures pairs of rounds in alternate order, and checks the median of their ratios.
fn case(
    bench: &Bench,
    network: &Network,
    name: &str,
    transport: Transport,
    report: &mut Report,
) -> Result<()> {
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for round in 1..=bench.runs {
        let (theirs, ours) = if round % 2 == 1 {
            let theirs = iperf(bench, network, transport)?;
            (theirs, stream(bench, network, transport)?)
        } else {
            let ours = stream(bench, network, transport)?;
            (iperf(bench, network, transport)?, ours)
        };
        let ratio = ours / theirs;
        println!("{name:<20} {round:>6} {:>12.2} {:>12.2} {ratio:>8.4}", theirs / 1e6, ours / 1e6);
        ratios.push(ratio);
        rates.push((theirs, ours));
    }
    let ratio = median(ratios);
    let of = |which: fn(&(f64, f64)) -> f64| median(rates.iter().map(which));
    let (theirs, ours) = (of(|pair| pair.0), of(|pair| pair.1));
    let part = theirs / network.shape().rate as f64;
    // Where the processors limit the rate and not the link, the two programs need not agree.
    if transport == Transport::Tcp || part >= FULL {
        report.noisy(
            &format!("{name}: bench stream off iperf3 by, median of rounds"),
            (ratio - 1.0).abs(),
            Bound::AtMost(TOLERANCE),
        );
    } else {
        report
            .note(format!("{name}: not judged, because iperf3 fills only {:.0} % of the link", part * 100.0));
    }
    report.note(format!(
        "{name}: medians of {} rounds: iperf3 {:.2}, bench stream {:.2} Mbit/s, ratio {ratio:.4}",
        bench.runs,
        theirs / 1e6,
        ours / 1e6
    ));
    report.attach(name, json!({ "iperf3_and_stream_bits_per_s": rates, "median_ratio": ratio }));
    Ok(())
}

/// Returns the rate that `iperf3` measures at its receiver, in bit/s.
fn iperf(bench: &Bench, network: &Network, transport: Transport) -> Result<f64> {
    let mut server = network.command(RECEIVER, "iperf3");
    let server = server.args(["-s", "-1", "-p", "7201"]).stdout(Stdio::null()).spawn();
    let mut server = Guarded(server.context("starting iperf3")?);
    thread::sleep(Duration::from_millis(500));
    let (seconds, start) = (bench.seconds.ceil().to_string(), START.to_string());
    let mut client = network.command(SENDER, "iperf3");
    client.args(["-c", &address(RECEIVER)?, "-p", "7201", "-t", &seconds, "-O", &start, "-J"]);
    match transport {
        Transport::Tcp => client.args(["-l", RECORD]),
        Transport::Udp => client.args(["-u", "-b", "0", "-l", DATAGRAM]),
    };
    let said = said(client)?;
    server.0.wait()?;
    reference::rate(&said, "sum_received")
}

/// Returns the rate that `evb-bench stream` measures at its receiver, in bit/s.
fn stream(bench: &Bench, network: &Network, transport: Transport) -> Result<f64> {
    let record = if transport == Transport::Tcp { RECORD } else { DATAGRAM };
    let (record, start) = (format!("{record} B"), format!("{START} s"));
    let (seconds, repeats) = ((bench.seconds / f64::from(REPEATS)).to_string(), REPEATS.to_string());
    let options = ["--records", &record, "--warm-up", &start, "--seconds", &seconds, "--repeats", &repeats];
    let said = measured(bench, network, transport, &options)?;
    let rate = said.pointer("/points/0/rate_bits_per_s/mean").and_then(Value::as_f64);
    rate.context("evb-bench states no rate")
}

/// Runs `evb-bench stream` between the two hosts with these options of the sender, and returns its
/// JSON output.
fn measured(bench: &Bench, network: &Network, transport: Transport, options: &[&str]) -> Result<Value> {
    let at = format!("{}:7300", address(RECEIVER)?);
    let program = bench.evb_bench()?;
    let mut receiver = network.command(RECEIVER, &program);
    let receiver = receiver.args(["stream", "--listen", &at]).stdout(Stdio::piped()).spawn();
    let mut receiver = Guarded(receiver.context("starting evb-bench")?);
    // The first line says that the receiver listens.
    let output = receiver.0.stdout.take().context("evb-bench has no output")?;
    BufReader::new(output).read_line(&mut String::new())?;
    let mut sender = network.command(SENDER, &program);
    sender.args(["stream", "--send-to", &at, "--transport", transport.word()]);
    sender.args(options).args(["--json", "-"]);
    said(sender)
}

/// Runs a program and returns its output as JSON.
fn said(mut command: Command) -> Result<Value> {
    let output = command.output().context("running a program on a host")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} fails: {complaint}");
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?} gives no JSON"))
}
