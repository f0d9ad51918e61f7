//! Checks the lab itself when hosts send trains of packets: an idle port must accept as many bytes
//! as its configured buffer, drops must be counted in packets, and `iperf3` measures the rate that
//! the machine carries.

mod burst;

use std::{io::read_to_string, process::Stdio, thread, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use lab_base::{
    bench::Bench,
    guard::Guarded,
    interrupt, iperf,
    network::{Network, Shape, address},
    outcome::median,
    report::{Bound, Report},
};
use serde_json::{Value, json};

pub(crate) use self::burst::{count, send};

/// Largest allowed relative error of a port's measured buffer.
const TOLERANCE: f64 = 0.15;
/// Buffer of the switch ports, in KiB, with which `iperf3` is measured.
const IPERF_KIB: u64 = 128;
/// Rate of a switch port while bursts arrive, in bit/s. This rate is low, because no host could
/// fill the buffer of a port of 25 Gbit/s faster than the port empties it. The sizes of the port's
/// token bucket and queue are still those of the configured rate.
const SLOW: u64 = 50_000_000;
/// Extra time to wait, after the time that a port needs to empty its queue and refill its token
/// bucket.
const IDLE: Duration = Duration::from_millis(30);
/// UDP port at which the datagrams of bursts are counted.
const PORT: u16 = 7401;

#[derive(Args)]
pub(crate) struct CalibrateArgs {
    /// Rates of the switch ports to test, in Mbit/s.
    #[arg(long, value_delimiter = ',', default_value = "2500,10000,25000")]
    mbit: Vec<u64>,
    /// Buffers of the switch ports to test, in KiB.
    #[arg(long, value_delimiter = ',', default_value = "128,256,512")]
    kib: Vec<u64>,
    /// MTUs to test: the largest IP packet, in bytes.
    #[arg(long, value_delimiter = ',', default_value = "1500,9000")]
    mtus: Vec<u64>,
}

/// Result of sending a burst of packets.
#[derive(Clone, Copy, Debug)]
struct Burst {
    packets: u64,
    lost: u64,
    trains: u64,
    /// Time that sending took, in seconds; in this time the port has already forwarded some
    /// packets.
    seconds: f64,
}

pub(crate) fn run(bench: &Bench, args: &CalibrateArgs) -> Result<Report> {
    let mut report = Report::bare("calibrate");
    println!("{:<40} {:>10} {:>10} {:>8} {:>8}", "case", "taken", "found", "error", "took µs");
    for mtu in &args.mtus {
        for mbit in &args.mbit {
            for kib in &args.kib {
                let shape = shape(1, *mbit, *kib, *mtu);
                let name = format!("burst {} Mbit/s {kib} KiB MTU {mtu}", mbit);
                if bench.wants(&name) {
                    bursts(bench, shape, &name, &mut report)?;
                }
            }
            for sources in [1, 8, 32] {
                let name = format!("iperf3 {sources}x1 {mbit} Mbit/s {IPERF_KIB} KiB MTU {mtu}");
                if bench.wants(&name) {
                    full(bench, shape(sources, *mbit, IPERF_KIB, *mtu), &name, &mut report)?;
                }
            }
        }
    }
    Ok(report)
}

fn shape(sources: u16, mbit: u64, kib: u64, mtu: u64) -> Shape {
    Shape {
        sources,
        builders: 1,
        rate: mbit * 1_000_000,
        port_buffer: kib * 1024,
        mtu,
        trains: true,
        ..Shape::PLAIN
    }
}

/// Measures the largest burst that an idle port accepts without a drop, and checks that drops are
/// counted in packets.
fn bursts(bench: &Bench, shape: Shape, name: &str, report: &mut Report) -> Result<()> {
    let network = Network::up(shape)?;
    network.limit_port("b1", SLOW)?;
    let stated = shape.port_buffer as f64;
    let mut found = Vec::new();
    for _ in 0..bench.runs.min(3) {
        let burst = largest(&network)?;
        let taken = burst.packets as f64 * shape.frame();
        // Bytes that the port had already forwarded by the end of the burst did not occupy its
        // buffer.
        let buffer = taken - burst.seconds * SLOW as f64 / 8.0;
        println!(
            "{name:<40} {:>9.1}K {:>9.1}K {:>+7.1}% {:>8.1}",
            taken / 1024.0,
            buffer / 1024.0,
            (buffer / stated - 1.0) * 100.0,
            burst.seconds * 1e6
        );
        report.attach(name, json!({ "taken_bytes": taken, "found_bytes": buffer, "burst_s": burst.seconds }));
        found.push(buffer / stated);
    }
    let off = median(found) - 1.0;
    report.holds(&format!("{name}: buffer off by, median"), off.abs(), Bound::AtMost(TOLERANCE));
    count_drops(&network, name, report)
}

/// Finds the largest burst without a drop by bisection, to one packet.
fn largest(network: &Network) -> Result<Burst> {
    let shape = network.shape();
    let most = (4.0 * shape.port_buffer as f64 / shape.frame()) as u64;
    let (mut fits, mut drops) = (Burst { packets: 1, lost: 0, trains: 0, seconds: 0.0 }, most);
    while drops - fits.packets > 1 {
        interrupt::check()?;
        let burst = attempt(network, (fits.packets + drops) / 2)?;
        if burst.lost == 0 {
            fits = burst;
        } else {
            drops = burst.packets;
        }
    }
    if drops == most {
        bail!("{shape}: nothing of a burst of {most} packets is dropped");
    }
    Ok(fits)
}

/// Waits until the port is idle, sends one burst, and returns the number of lost packets.
fn attempt(network: &Network, packets: u64) -> Result<Burst> {
    let shape = network.shape();
    // This wait lets the switch port empty its queue after the previous burst and refill its token
    // bucket.
    thread::sleep(Duration::from_secs_f64(2.0 * shape.port_buffer as f64 * 8.0 / SLOW as f64) + IDLE);
    let before = network.passage()?;
    let mut sender = network.command("s1", &std::env::current_exe()?.to_string_lossy());
    let to = format!("{}:{PORT}", address("b1")?);
    sender.args(["lab-traffic", "burst", &to, &packets.to_string(), &payload(shape).to_string()]);
    let output = sender.stdin(Stdio::null()).output().context("sending a burst")?;
    if !output.status.success() {
        bail!("a burst was not sent: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let said: Value = serde_json::from_slice(&output.stdout).context("reading what the burst says")?;
    let seconds = said["seconds"].as_f64().context("the burst states no time")?;
    // This wait lets the switch port forward packets that are still in its queue and do not count
    // as lost.
    thread::sleep(Duration::from_secs_f64(shape.port_buffer as f64 * 8.0 / SLOW as f64) + IDLE);
    let after = network.passage()?;
    let (lost, trains) = (after.dropped_since(before), after.trains - before.trains);
    Ok(Burst { packets, lost, trains, seconds })
}

/// Returns the UDP payload of a full packet: the MTU without 20 bytes of IP header and 8 bytes of
/// UDP header.
fn payload(shape: Shape) -> u64 {
    shape.mtu - 28
}

/// Overflows the port, and compares the switch's count of dropped packets with the number that the
/// receiver misses.
fn count_drops(network: &Network, name: &str, report: &mut Report) -> Result<()> {
    let shape = network.shape();
    let mut counter = network.command("b1", &std::env::current_exe()?.to_string_lossy());
    let at = format!("{}:{PORT}", address("b1")?);
    let child =
        counter.args(["lab-traffic", "count", &at]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut counter = Guarded(child.context("starting the counter")?);
    // The receiver has to listen before the burst is sent.
    thread::sleep(Duration::from_millis(200));
    let burst = attempt(network, (2.5 * shape.port_buffer as f64 / shape.frame()) as u64)?;
    // Closing the stdin of the counting process makes it report its count and end.
    drop(counter.0.stdin.take());
    let said = read_to_string(counter.0.stdout.take().context("the counter has no output")?)?;
    let said: Value = serde_json::from_str(&said).context("reading what the counter says")?;
    let arrived = said["datagrams"].as_u64().context("the counter states no number")?;
    let sent = burst.packets;
    report.yes(&format!("{name}: an overflow is counted"), burst.lost > 0);
    let missed = sent.abs_diff(arrived + burst.lost);
    report.holds(&format!("{name}: packets neither received nor counted"), missed as f64, Bound::AtMost(0.0));
    report.note(format!(
        "{name}: {sent} sent, {arrived} received, {} counted; for tbf {}",
        burst.lost, burst.trains
    ));
    Ok(())
}

/// Measures the rate of `iperf3` at the receiver.
fn full(bench: &Bench, shape: Shape, name: &str, report: &mut Report) -> Result<()> {
    let network = Network::up(shape)?;
    let before = network.passage()?;
    let received = iperf::run(&network, bench.seconds.min(4.0))?;
    let lost = network.passage()?.dropped_since(before);
    let goodput = received.bytes * 8.0 / received.seconds;
    println!("{name:<40} {:>7.2} Gbit/s received, {lost} packets dropped", goodput / 1e9);
    report.attach(name, json!({ "goodput_bit_per_s": goodput, "drops": lost }));
    // A rate above that of the port would show that the measurement is wrong.
    report.holds(&format!("{name}: of the port's rate"), goodput / shape.rate as f64, Bound::AtMost(1.0));
    Ok(())
}
