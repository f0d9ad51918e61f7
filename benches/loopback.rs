//! End-to-end throughput over loopback, all in this process: sources that generate fragments,
//! builders with null sinks. The first group compares TCP and UDP, the four shaping modes and three
//! sizes of system at 64 KiB a fragment; the second group has other sizes of fragments, shaped by
//! credit. One iteration is one event. Loopback has no port to fill, so compare changes and modes
//! with each other: a mode that is fast here may drop packets at a switch.
//!
//! `cargo bench --bench loopback -- udp/window` runs only the matching measurements.

#[path = "../tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::{fmt, time::Duration};

use criterion::{
    BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use evb::{
    builder::{Builder, BuilderConfig},
    id::{BuilderId, SourceId},
    input::{FragmentSize, Generator},
    sink::NullSink,
    source::{Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig},
    units::{Bytes, Rate},
};
use evb_net::pacing::Transport;
use evb_shaper::{
    ByteMeasure, Pace, Shaping,
    cost::{CELL, PacketCost},
};
use tokio::runtime::Runtime;

/// Numbers of sources and builders.
const SYSTEMS: [(u16, u16); 3] = [(1, 1), (2, 1), (4, 4)];
const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];
/// Window of a lane; the windows of four lanes fit the buffer of a usual UDP socket
/// (`net.core.rmem_default`, 208 KiB).
const WINDOW: Bytes = Bytes::kib(32);
/// Rate of each lane with the token bucket.
const LANE_RATE: Rate = Rate::from_bits_per_second(10_000_000_000);
/// Least payload of a run, so that the cost of its beginning and end does not count.
const LEAST_PAYLOAD: Bytes = Bytes::mib(64);
const LEAST_EVENTS: u64 = 1000;

/// A system to be measured; its text is the name of the measurement.
struct System {
    transport: Transport,
    mode: &'static str,
    shaping: Shaping,
    sources: u16,
    builders: u16,
    size: Bytes,
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, mode, sources, builders, .. } = self;
        let transport = transport.to_string().to_lowercase();
        write!(f, "{transport}/{mode}/{sources}x{builders}")
    }
}

impl System {
    fn event_size(&self) -> Bytes {
        self.size * u64::from(self.sources)
    }

    fn least_events(&self) -> u64 {
        (LEAST_PAYLOAD.count() / self.event_size().count()).clamp(1, LEAST_EVENTS)
    }

    /// Builds this many events and returns the time from the first trigger to the last completion.
    async fn build(&self, events: u64) -> Duration {
        let plan = RunPlan { slots: 64, ..support::plan(self.sources, self.builders, events) };
        let supervisor =
            Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await.expect("loopback has a port");
        let address = supervisor.address().to_string();
        let run = tokio::spawn(supervisor.run());
        let (transport, size) = (self.transport, self.size);
        let mut builders = Vec::new();
        for id in (1..=self.builders).map(BuilderId::new) {
            let shaping = self.shaping.clone();
            let config = BuilderConfig { transport, shaping, ..BuilderConfig::new(id, &address) };
            builders.push(Builder::connect(config, NullSink).await.expect("the builder joins"));
        }
        for id in (1..=self.sources).map(SourceId::new) {
            let shaping = self.shaping.clone();
            let config =
                SourceConfig { transport, shaping, max_fragment: size, ..SourceConfig::new(id, &address) };
            let readout = Generator::new(id, FragmentSize::Fixed(size), size, 1);
            Source::on_demand(config, readout).await.expect("the source joins");
        }
        let report = run.await.expect("no panic").expect("the run ends");
        assert_eq!((report.exit_code, report.events.complete), (0, events), "{self}: {}", report.verdict);
        Duration::from_secs_f64(events as f64 / report.rates.events_per_s.max(f64::MIN_POSITIVE))
    }
}

/// Returns the four shaping modes and their names.
fn modes(transport: Transport) -> [(&'static str, Shaping); 4] {
    let cost = PacketCost::of(transport, 1500, CELL);
    let pace = Pace::usual(LANE_RATE, ByteMeasure::Line, &cost, None);
    [
        ("credit", Shaping::LOOPBACK),
        ("window", Shaping::Window { window: WINDOW }),
        ("token bucket", Shaping::TokenBucket(pace)),
        ("none", Shaping::None),
    ]
}

fn measure(group: &mut BenchmarkGroup<'_, WallTime>, runtime: &Runtime, name: String, system: &System) {
    group.throughput(Throughput::Bytes(system.event_size().count()));
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let events = iterations.max(system.least_events());
            runtime.block_on(system.build(events)).mul_f64(iterations as f64 / events as f64)
        });
    });
}

fn limited<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group
}

fn modes_and_systems(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("the system has threads");
    let mut group = limited(criterion, "loopback");
    for transport in TRANSPORTS {
        for (mode, shaping) in modes(transport) {
            for (sources, builders) in SYSTEMS {
                let (shaping, size) = (shaping.clone(), Bytes::kib(64));
                let system = System { transport, mode, shaping, sources, builders, size };
                measure(&mut group, &runtime, system.to_string(), &system);
            }
        }
    }
    group.finish();
}

fn sizes(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("the system has threads");
    let mut group = limited(criterion, "loopback by fragment");
    for transport in TRANSPORTS {
        for size in [Bytes::new(64), Bytes::new(1000), Bytes::mib(1)] {
            let shaping = Shaping::LOOPBACK;
            let system = System { transport, mode: "credit", shaping, sources: 2, builders: 1, size };
            measure(&mut group, &runtime, format!("{system}/{size}"), &system);
        }
    }
    group.finish();
}

criterion_group!(benches, modes_and_systems, sizes);
criterion_main!(benches);
