//! End-to-end throughput over loopback: two sources, one builder, null sink, all in this process. One iteration is one
//! event; compare sizes and changes with each other, not machines.

#[path = "../tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use evb::{
    builder::{Builder, BuilderConfig},
    id::{BuilderId, SourceId},
    input::{FragmentSize, Generator},
    sink::NullSink,
    source::{Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig},
    units::Bytes,
};

const SOURCES: u16 = 2;

/// Builds that many events and returns the time from the first trigger to the last completion.
async fn build(events: u64, size: Bytes) -> Duration {
    let plan = RunPlan { slots: 64, ..support::plan(SOURCES, 1, events) };
    let supervisor =
        Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await.expect("loopback has a port");
    let address = supervisor.addr().to_string();
    let run = tokio::spawn(supervisor.run());
    let config = BuilderConfig::new(BuilderId::new(1), &address);
    let _builder = Builder::connect(config, NullSink).await.expect("the builder joins");
    for id in (1..=SOURCES).map(SourceId::new) {
        let config = SourceConfig { max_fragment: size, ..SourceConfig::new(id, &address) };
        let readout = Generator::new(id, FragmentSize::Fixed(size), size, 1);
        Source::on_demand(config, readout).await.expect("the source joins");
    }
    let report = run.await.expect("no panic").expect("the run ends");
    assert_eq!((report.exit_code, report.events.complete), (0, events), "{}", report.verdict);
    Duration::from_secs_f64(events as f64 / report.rates.events_per_s.max(f64::MIN_POSITIVE))
}

fn throughput(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("the system has threads");
    let mut group = criterion.benchmark_group("loopback");
    group.sample_size(10).measurement_time(Duration::from_secs(4));
    for size in [Bytes::new(64), Bytes::new(1000), Bytes::kib(64), Bytes::mib(1)] {
        group.throughput(Throughput::Bytes(size.count() * u64::from(SOURCES)));
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            // A run has a beginning and an end, whose cost must not count: at least a thousand events share it.
            bencher.iter_custom(|iterations| {
                let events = iterations.max(1000);
                runtime.block_on(build(events, size)).mul_f64(iterations as f64 / events as f64)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
