//! Measures what the simulation of a large system costs: N sources and N builders with ports of
//! 100 Gbit/s, triggers as fast as possible. Times are processor time, with the system's set-up and
//! its reports at the end. For example:
//! `cargo run --release -p evb-sim --example scale -- --sizes 32,500 --span-ms 10`

use std::time::Duration;

use clap::Parser;
use evb_core::{
    transport::Transport,
    units::{Bytes, Rate},
};
use evb_shaper::Shaping;
use evb_sim::{FragmentSize, NetworkModel, Scenario, SimReport};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
struct Args {
    /// Numbers of sources, and of builders.
    #[arg(long, value_delimiter = ',', default_values_t = [32, 500])]
    sizes: Vec<u16>,
    /// Time for which the events keep all ports busy, in milliseconds; the run has at least as many
    /// events as builders.
    #[arg(long, default_value_t = 10.0)]
    span_ms: f64,
    /// Rate of all links.
    #[arg(long, default_value = "100 Gbit/s")]
    link_rate: Rate,
    /// Buffer of each port.
    #[arg(long, default_value = "2 MiB")]
    port_buffer: Bytes,
    /// Payload of each fragment.
    #[arg(long, default_value = "2 kB")]
    fragment: Bytes,
    /// Lanes over datagrams.
    #[arg(long)]
    udp: bool,
}

/// Returns the scenario of a system with `size` sources and as many builders. Its events keep all
/// ports busy for the given span, but each builder gets at least one event.
fn scenario(args: &Args, size: u16) -> Scenario {
    let network = NetworkModel {
        link_rate: args.link_rate,
        host_rate: args.link_rate,
        port_buffer: args.port_buffer,
        ..NetworkModel::default()
    };
    let transport = if args.udp { Transport::Udp } else { Transport::Tcp };
    let mut scenario = Scenario { sources: size, builders: size, network, transport, ..Scenario::default() };
    scenario.readout.size = FragmentSize::Fixed(args.fragment);
    let event_bytes = args.fragment.count() * u64::from(size);
    let lanes = u64::from(size);
    scenario.shaping = Shaping::credit_for(args.port_buffer, Some(args.link_rate), lanes, &scenario.cost());
    // A builder has slots for twice as many events as fit into its port's buffer, but at least 4
    // and at most 256.
    scenario.slots = (2 * args.port_buffer.count()).div_ceil(event_bytes).clamp(4, 256) as u32;
    let bytes_in_span = scenario.capacity().bytes_per_second() * args.span_ms / 1e3;
    scenario.events = ((bytes_in_span / event_bytes as f64) as u64).max(u64::from(size));
    scenario
}

/// Returns the processor time of this process so far, from the kernel's account.
fn processor_time() -> Duration {
    let account = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = account.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// Returns the largest memory of this process so far, from the kernel's account.
fn peak_memory() -> Option<Bytes> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(Bytes::kib(kib))
}

fn row(report: &SimReport, took: Duration) -> String {
    let memory = peak_memory().map_or_else(|| "?".to_owned(), |bytes| format!("{} MiB", bytes.count() >> 20));
    let payload = report.goodput.bits_per_second();
    let traffic = report.run.bytes.payload as f64 * 8.0 / payload.max(1) as f64;
    format!(
        "{:>9} {:>8} {:>8.2} ms {:>6.1} % {:>6} {:>11} {:>8.1} s {:>9.0} ns {:>9}",
        format!("{0} × {0}", report.sources),
        report.run.events.complete,
        traffic * 1e3,
        report.utilisation() * 100.0,
        report.builder_port_drops,
        report.frames,
        took.as_secs_f64(),
        took.as_nanos() as f64 / report.frames as f64,
        memory,
    )
}

fn main() -> Result<(), evb_sim::SimError> {
    let args = Args::parse();
    println!("   system   events    traffic  of wire  drops     packets      took   a packet    memory");
    for size in &args.sizes {
        let scenario = scenario(&args, *size);
        let began = processor_time();
        let report = scenario.run()?;
        println!("{}", row(&report, processor_time() - began));
    }
    Ok(())
}
