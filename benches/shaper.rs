//! The cost of a shaping decision: a departure time of one bucket, a train of a link with classes,
//! a source's departure. Also shows why bytes are paced by departure times and messages by GCRA:
//! compares the exactness of their rates, and the costs of their decisions
//! (docs/explanation/pacing.md).

#![expect(clippy::unwrap_used, reason = "an error here is a failed measurement")]
#![allow(unreachable_pub, reason = "a module of a program")]

#[path = "shaper/pacers.rs"]
mod pacers;

use core::{num::NonZeroU32, time::Duration};
use std::{hint::black_box, net::IpAddr};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use evb_core::{
    index::LaneIndex,
    time::Instant,
    units::{Bytes, Rate},
};
use evb_net::clock;
use evb_shaper::{
    ByteMeasure, EdtBucket, Lateness, LinkPlan, Pace, SharedLink,
    cost::{CELL, PacketCost},
};
use governor::{Quota, RateLimiter};

use pacers::{Gcra, Pacer, after_pause, rate_error};

const START: Instant = Instant::from_nanos(1_000_000_000);
/// Number of decisions per measurement, large enough that the cost of reading the clock does not
/// matter.
const DECISIONS: u64 = 1000;
const SIZES: [u64; 4] = [1538, 90, 590, 9018];
/// Burst of both pacers, which is large enough for some trains of every size.
const BURST: Bytes = Bytes::new(20_000);

fn gigabits(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000_000)
}

/// Passes a thousand trains of all sizes to `decide`.
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

fn shared_link(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shared link");
    group.throughput(Throughput::Elements(DECISIONS));
    let pace = |rate| Pace { rate, burst: Bytes::new(100_000), measure: ByteMeasure::Line };
    let shared = LinkPlan::new(pace(gigabits(10))).with_ceiling(gigabits(9));
    let train = PacketCost::tcp(1500, CELL).wire(Bytes::new(11 * 1448));
    for lanes in [1, 4, 16] {
        for (name, plan) in
            [("lanes with paces", LinkPlan::unlimited()), ("lanes, link and ceiling", shared.clone())]
        {
            group.bench_function(format!("{lanes} {name}"), |bench| {
                bench.iter(|| {
                    let mut shared = SharedLink::new(&plan, vec![Some(pace(gigabits(9))); lanes]);
                    LaneIndex::all(lanes).for_each(|lane| shared.note_news(lane));
                    let (mut now, mut departed) = (START, 0);
                    while departed < DECISIONS {
                        match shared.poll(now, Duration::ZERO, |_| Some(black_box(train))) {
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

/// Prints the errors of the rates of bytes and messages, and fails if they contradict
/// docs/explanation/pacing.md.
fn exactness(_: &mut Criterion) {
    let percent = |error: Option<f64>| {
        error.map_or_else(|| "none".to_owned(), |error| format!("{:+.6} %", error * 1e2))
    };
    println!("bytes, {SIZES:?} in turn: error of the rate");
    println!("{:>14} {:>16} {:>16} {:>16}", "rate", "EdtBucket", "GCRA, 1 B", "GCRA, 64 B");
    for rate in [1, 30, 300, 1000, 3000, 10_000, 100_000, 400_000] {
        let rate = Rate::from_bits_per_second(rate * 1_000_000);
        let edt = rate_error(&mut EdtBucket::new(rate, BURST), &SIZES, rate, Duration::ZERO);
        let [bytes, cells] = [1, 64].map(|cell| {
            let gcra = Gcra::new(rate, BURST, Bytes::new(cell));
            gcra.map(|mut gcra| rate_error(&mut gcra, &SIZES, rate, Duration::ZERO))
        });
        println!(
            "{:>14} {:>16} {:>16} {:>16}",
            rate.to_string(),
            percent(Some(edt)),
            percent(bytes),
            percent(cells)
        );
        assert!(edt.abs() < 1e-6, "departure times at {rate}: {edt}");
        assert!(
            rate < gigabits(3) || bytes.is_none_or(|error| error.abs() > 0.1),
            "GCRA at {rate}: {bytes:?}"
        );
        assert!(cells.is_none_or(|error| error.abs() > 0.005), "GCRA in cells at {rate}: {cells:?}");
    }
    late_and_idle();
    println!("messages: error of the rate");
    println!("{:>14} {:>16} {:>16}", "messages/s", "GCRA", "EdtBucket");
    for frequency in [0.1_f64, 8.0, 50_000.0, 30_000.0, 160_000.0, 1e6] {
        // A message counts as one byte, so that the simulation for bytes can be used.
        let message = Bytes::new(1);
        let rate = Rate::from_bits_per_second((frequency * 8.0).round() as u64);
        let off = |error: f64| (1.0 + error) * rate.bits_per_second() as f64 / 8.0 / frequency - 1.0;
        let quota = Quota::with_period(Duration::from_secs_f64(1.0 / frequency)).unwrap();
        let quota = quota.allow_burst(NonZeroU32::new(5).unwrap());
        let gcra = off(rate_error(&mut Gcra::of(quota, message), &[1], rate, Duration::ZERO));
        let edt = off(rate_error(&mut EdtBucket::new(rate, message * 5), &[1], rate, Duration::ZERO));
        println!("{frequency:>14} {:>16} {:>16}", percent(Some(gcra)), percent(Some(edt)));
        assert!(gcra.abs() <= frequency * 1e-9 + 1e-9, "GCRA at {frequency} messages/s: {gcra}");
    }
}

/// Prints the part of a rate that late timers cost, and the number of bytes that leave at once
/// after a pause.
fn late_and_idle() {
    let (rate, late, largest) = (gigabits(1), Duration::from_micros(50), Bytes::new(9018));
    println!(
        "bytes at {rate}, every timer {late:?} late: error of the rate, and bytes at once after a pause"
    );
    let line = |name: &str, error: f64, burst: Bytes| {
        println!("{name:>30} {:>13.4} % {:>8} B", error * 1e2, burst.count());
        (error, burst)
    };
    let bucket = || EdtBucket::new(rate, BURST);
    let gcra = |burst| Gcra::new(rate, burst, Bytes::new(1)).unwrap();
    let error = rate_error(&mut bucket(), &SIZES, rate, late);
    let (edt, first) = line("EdtBucket, burst 20 000 B", error, after_pause(&mut bucket(), &SIZES));
    let error = rate_error(&mut gcra(BURST), &SIZES, rate, late);
    let (_, at_once) = line("GCRA, burst 20 000 B", error, after_pause(&mut gcra(BURST), &SIZES));
    let error = rate_error(&mut gcra(largest), &SIZES, rate, late);
    let (slow, _) = line("GCRA, burst 9018 B", error, after_pause(&mut gcra(largest), &SIZES));
    assert!(edt.abs() < 1e-4 && first.count() == SIZES[0], "departure times: {edt}, {first}");
    assert!(at_once > largest, "GCRA sends {at_once} after a pause");
    assert!(slow < -0.05, "GCRA with a small burst: {slow}");
}

/// Measures the decisions on trains and messages. A train first asks too early, so it needs two
/// decisions; a message never has to wait.
fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    group.throughput(Throughput::Elements(DECISIONS));
    let rate = gigabits(1);
    group.bench_function("train/EdtBucket", |bench| {
        let mut bucket = EdtBucket::new(black_box(rate), BURST);
        let mut now = START;
        bucket.wake(now);
        bench.iter(|| trains(|size| now = pass(&mut bucket, size, now)));
    });
    group.bench_function("train/GCRA", |bench| {
        let mut gcra = Gcra::new(black_box(rate), BURST, Bytes::new(1)).unwrap();
        let mut now = START;
        bench.iter(|| trains(|size| now = pass(&mut gcra, size, now)));
    });
    // The clock is read for each message, as in production; no message has to wait.
    let quota = Quota::per_second(NonZeroU32::MAX);
    group.bench_function("message/GCRA", |bench| {
        let limiter = RateLimiter::direct(black_box(quota));
        bench.iter(|| trains(|_| assert!(limiter.check().is_ok())));
    });
    group.bench_function("message/GCRA of its address", |bench| {
        let limiter = RateLimiter::keyed(black_box(quota));
        let addresses: Vec<IpAddr> = (0..100).map(|last| IpAddr::from([10, 77, 1, last])).collect();
        let mut next = addresses.iter().cycle();
        bench.iter(|| trains(|_| assert!(limiter.check_key(next.next().unwrap()).is_ok())));
    });
    group.bench_function("message/EdtBucket", |bench| {
        let mut bucket = EdtBucket::new(black_box(gigabits(400)), Bytes::mib(1));
        bench.iter(|| trains(|_| assert!(bucket.try_depart(Bytes::new(1), clock::now()).is_ok())));
    });
    group.finish();
}

/// Lets a train depart as early as possible, and returns its departure time.
fn pass(pacer: &mut impl Pacer, size: Bytes, now: Instant) -> Instant {
    let mut now = now;
    while let Err(at) = pacer.try_depart(size, now) {
        now = at;
    }
    now
}

criterion_group!(benches, exactness, decisions, bucket, shared_link);
criterion_main!(benches);
