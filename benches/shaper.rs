//! What a shaping decision costs: a departure time of one bucket, a train of a link with classes, a source's departure.

#![expect(clippy::unwrap_used, reason = "an error here is a failed measurement")]

use core::time::Duration;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use evb_shaper::{
    ByteMeasure, Class, ClassTree, EdtBucket, Lateness, LinkPlan, Pace,
    cost::{CELL, PacketCost},
};

const START: Instant = Instant::from_nanos(1_000_000_000);
/// Decisions in one turn of a measurement, so that reading the clock costs nothing.
const DECISIONS: u64 = 1000;
const SIZES: [u64; 4] = [1538, 90, 590, 9018];

fn gigabits(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000_000)
}

/// A thousand trains of all sizes, each by `decide`.
fn trains(mut decide: impl FnMut(Bytes)) {
    for size in SIZES.iter().cycle().take(DECISIONS as usize) {
        decide(Bytes::new(black_box(*size)));
    }
}

fn bucket(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bucket");
    group.throughput(Throughput::Elements(DECISIONS));
    for (name, rate) in [("1 kbit/s", Rate::from_bits_per_second(1000)), ("400 Gbit/s", gigabits(400))] {
        group.bench_function(format!("{name}/departure and spend"), |bench| {
            bench.iter(|| {
                let mut bucket = EdtBucket::new(black_box(rate), Bytes::new(20_000));
                bucket.wake(START);
                let mut now = START;
                trains(|size| {
                    now = bucket.departure_of(size, now);
                    bucket.spend(size, now);
                });
                black_box(now)
            });
        });
        group.bench_function(format!("{name}/depart"), |bench| {
            bench.iter(|| {
                let mut bucket = EdtBucket::new(black_box(rate), Bytes::new(20_000));
                trains(|size| {
                    black_box(bucket.depart(size, START));
                });
                black_box(bucket)
            });
        });
    }
    group.bench_function("lateness", |bench| {
        let mut lateness = Lateness::default();
        bench.iter(|| trains(|size| lateness.record(Duration::from_nanos(size.count() * 31))));
        black_box(lateness.quantile(0.99));
    });
    group.finish();
}

fn tree(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("class tree");
    group.throughput(Throughput::Elements(DECISIONS));
    let pace = |rate| Pace { rate, burst: Bytes::new(100_000), measure: ByteMeasure::Line };
    let class = |name: &str, percent: u64, priority| Class {
        name: name.to_owned(),
        guaranteed: Some(Rate::from_bits_per_second(percent * 100_000_000)),
        ceiling: None,
        priority,
    };
    let classes = vec![class("data", 80, 1), class("control", 5, 0), class("monitoring", 2, 2)];
    let shared = LinkPlan::new(pace(gigabits(10)), classes).unwrap();
    let train = PacketCost::tcp(1500, CELL).wire(Bytes::new(11 * 1448));
    for lanes in [1, 4, 16] {
        for (name, plan) in
            [("lanes with paces", LinkPlan::unlimited()), ("lanes, three classes", shared.clone())]
        {
            group.bench_function(format!("{lanes} {name}"), |bench| {
                bench.iter(|| {
                    let of_lane = (0, Some(pace(gigabits(9))));
                    let mut tree = ClassTree::new(&plan, vec![of_lane; lanes]);
                    let (mut now, mut departed) = (START, 0);
                    while departed < DECISIONS {
                        match tree.poll(now, Duration::ZERO, |_| Some(black_box(train))) {
                            Ok(permit) => {
                                black_box(permit);
                                departed += 1;
                            }
                            Err(until) => now = until.unwrap(),
                        }
                    }
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bucket, tree);
criterion_main!(benches);
