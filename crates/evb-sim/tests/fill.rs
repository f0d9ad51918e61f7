//! Tests the goodput of credit with 1 to 256 sources at 1 to 100 Gbit/s, on hosts with the wake-up
//! delays recorded in the lab. With credit, the builder's port never drops a packet. The port is
//! full if its buffer L is larger than C·R, the bytes that the port carries in the time from a
//! grant to its data.
//!
//! To run a thousand seeds: `cargo test -p evb-sim --release --test fill -- --ignored --nocapture`.

use core::time::Duration;

use evb_core::{
    rng::Rng,
    units::{Bytes, Rate},
};
use evb_shaper::Shaping;
use evb_sim::{Delays, FragmentSize, HostModel, ProcessorTime, Program, Scenario, SimReport, Transport};

const GBITS: [u64; 4] = [1, 10, 25, 100];
const SOURCES: [u16; 5] = [1, 8, 32, 128, 256];

/// Returns a scenario with the default credit and hosts as recorded in the lab. The events of the
/// scenario keep the builder's port busy for about the time `span`.
fn port(gbit: u64, sources: u16, buffer: Bytes, span: Duration) -> Scenario {
    let mut scenario = Scenario { sources, ..Scenario::default() };
    let network = &mut scenario.network;
    network.link_rate = Rate::from_bits_per_second(gbit * 1_000_000_000);
    network.host_rate = network.link_rate;
    network.port_buffer = buffer;
    network.hosts = HostModel::recorded(sources);
    let carried = (network.link_rate.bytes_per_second() * span.as_secs_f64()) as u64;
    let fragment = (carried / u64::from(sources) / 4).clamp(1500, 64_000);
    scenario.readout.size = FragmentSize::Fixed(Bytes::new(fragment));
    scenario.events = (carried / u64::from(sources) / fragment).max(4);
    with_default_credit(scenario)
}

/// Returns the scenario with its shaping replaced by the default credit.
fn with_default_credit(scenario: Scenario) -> Scenario {
    let network = &scenario.network;
    let (link, lanes) = (Some(network.link_rate), u64::from(scenario.sources));
    let shaping = Shaping::credit_for(network.port_buffer, link, lanes, &scenario.cost());
    Scenario { shaping, ..scenario }
}

/// Runs a scenario and checks that every event is complete. Returns the report, and the sum of
/// drops and retransmissions.
fn run_with_drops(scenario: &Scenario) -> (SimReport, u64) {
    let report = scenario.run().unwrap_or_else(|error| panic!("{error}: {scenario:#?}"));
    assert_eq!(report.run.events.complete, scenario.events, "{scenario:#?}");
    let drops = report.builder_port_drops + report.other_port_drops + report.retransmits;
    (report, drops)
}

fn run(scenario: &Scenario) -> SimReport {
    let (report, drops) = run_with_drops(scenario);
    assert_eq!(drops, 0, "seed {}: {scenario:#?}", scenario.seed);
    report
}

/// Returns C·R/L, the part of the port's buffer that is needed to keep the port full.
fn need(scenario: &Scenario) -> f64 {
    let carried = scenario.network.link_rate.bytes_per_second() * scenario.grant_path().as_secs_f64();
    carried / scenario.network.port_buffer.count() as f64
}

/// Asserts that no frame is dropped with any of `seeds` at the given rate, for every number of
/// sources, with sources as fast as the port or four times as fast.
fn nothing_is_dropped(gbit: u64, seeds: core::ops::Range<u64>) {
    let mut failed = Vec::new();
    for sources in SOURCES {
        let buffer = Bytes::kib(if gbit < 25 { 128 } else { 512 });
        let usual = port(gbit, sources, buffer, Duration::from_micros(500));
        let (mut least, mut sum, mut peak) = (f64::MAX, 0.0, Bytes::ZERO);
        for seed in seeds.clone() {
            let mut scenario = Scenario { seed, ..usual.clone() };
            if seed % 2 == 1 {
                scenario.network.host_rate = scenario.network.link_rate * 4;
            }
            let (report, drops) = run_with_drops(&scenario);
            if drops > 0 {
                failed.push((sources, seed, drops));
            }
            least = least.min(report.utilisation());
            sum += report.utilisation();
            peak = peak.max(report.builder_port_peak);
        }
        let (count, need) = (seeds.clone().count(), need(&usual));
        println!(
            "{gbit:>4} Gbit/s {buffer} {sources:>4} sources C·R/L {need:>5.2}: of the wire {:.3}, at least {least:.3}; \
             queue at most {peak}; {count} seeds",
            sum / count as f64,
        );
    }
    assert_eq!(failed, [], "sources, seed and drops at {gbit} Gbit/s");
}

#[test]
fn nothing_is_dropped_at_any_rate_with_any_number_of_sources() {
    GBITS.into_iter().for_each(|gbit| nothing_is_dropped(gbit, 0..4));
}

#[test]
#[ignore = "a thousand seeds take minutes"]
fn nothing_is_dropped_in_a_thousand_seeds_at_10_gbit() {
    nothing_is_dropped(10, 0..1000);
}

#[test]
#[ignore = "a thousand seeds take minutes"]
fn nothing_is_dropped_in_a_thousand_seeds_at_1_gbit() {
    nothing_is_dropped(1, 0..1000);
}

#[test]
#[ignore = "a thousand seeds take minutes"]
fn nothing_is_dropped_in_a_thousand_seeds_above() {
    [25, 100].into_iter().for_each(|gbit| nothing_is_dropped(gbit, 0..1000));
}

/// Checks that credit drops no frame with random numbers of sources, rates, buffers and hosts.
#[test]
fn nothing_is_dropped_in_random_worlds() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed ^ 0xf111);
        let mut between = |low: u64, high: u64| low + rng.below(high - low + 1);
        let (gbit, sources) = (between(1, 100), between(1, 64) as u16);
        let buffer = Bytes::kib(between(64, 2048));
        let mut scenario = Scenario { seed, ..port(gbit, sources, buffer, Duration::from_micros(500)) };
        let mut program = || {
            let least = between(0, 20_000);
            let median = least + between(0, 100_000);
            let table = [(0, least), (500, median), (990, median + between(0, 1_000_000))];
            let processor = ProcessorTime {
                wake_up: Duration::from_nanos(between(0, 3000)),
                call: Duration::from_nanos(between(0, 3000)),
                mebibyte: Duration::from_micros(between(0, 700)),
            };
            Program { wake_up: Delays::recorded(&table), processor }
        };
        let (source, builder) = (program(), program());
        let cores = [None, Some(1), Some(2), Some(8)][between(0, 3) as usize];
        scenario.network.hosts = HostModel { source, builder, cores };
        scenario.network.host_rate = scenario.network.link_rate * between(1, 10);
        scenario.transport = [Transport::Tcp, Transport::Udp][between(0, 1) as usize];
        run(&with_default_credit(scenario));
    }
}

/// Checks how C·R/L determines the load of a port: the port is full if C·R/L is below a half, and
/// starved in proportion if it is above one. Hosts with ten times the delays make C·R/L ten times
/// larger.
#[test]
fn slow_hosts_starve_a_port() {
    let full = port(10, 8, Bytes::kib(512), Duration::from_millis(5));
    let mut slow = full.clone();
    slow.network.hosts =
        HostModel::alike(full.network.hosts.source.wake_up.scaled(10.0), ProcessorTime::default());
    let (full_need, slow_need) = (need(&full), need(&slow));
    assert!(full_need < 0.5 && slow_need > 2.0, "{full_need} {slow_need}");
    let (full, slow) = (run(&full).utilisation(), run(&slow).utilisation());
    assert!(full > 0.9, "C·R/L {full_need}: {full}");
    assert!(slow < 1.0 / slow_need && slow > 0.3 / slow_need, "C·R/L {slow_need}: {slow}");
}

/// Checks that programs that share one core carry less than programs with a core each, although the
/// port is the same.
#[test]
fn cores_limit_what_a_port_carries() {
    let mut scenario = port(25, 8, Bytes::mib(2), Duration::from_millis(2));
    let goodput = |scenario: &Scenario| run(scenario).goodput.bits_per_second();
    scenario.network.hosts = HostModel { cores: Some(1), ..HostModel::lab() };
    let shared = goodput(&scenario);
    scenario.network.hosts.cores = None;
    let own = goodput(&scenario);
    assert!(shared * 3 < own * 2, "{shared} bit/s on one core, {own} on nine");
}

#[test]
fn a_run_is_repeatable() {
    let mut scenario = port(10, 8, Bytes::kib(128), Duration::from_millis(1));
    scenario.network.hosts = HostModel::lab();
    let first = run(&scenario);
    assert_eq!(first, run(&scenario));
    scenario.seed += 1;
    assert_ne!(first.duration, run(&scenario).duration, "another seed must give another duration");
}
