use core::time::Duration;

use evb_core::{
    rng::Rng,
    time::Instant,
    units::{Bytes, Rate},
};
use proptest::prelude::*;

use super::EdtBucket;

const START: Instant = Instant::from_nanos(5_000_000_000);

/// Rates in bit/s, from 1 kbit/s to 400 Gbit/s; some are prime or otherwise odd, so that no time
/// comes out even.
const RATES: [u64; 10] = [
    1_000,
    1_000_000,
    100_000_000,
    999_999_937,
    4_800_000_000,
    10_000_000_000,
    33_333_333_333,
    100_000_000_000,
    399_999_999_979,
    400_000_000_000,
];

/// Returns the error of the rate with which `sizes` depart, over and over, from the first departure
/// to the one after the last. Each departure happens as many nanoseconds after its time as
/// `lateness` says.
fn error_of(rate: u64, burst: u64, sizes: &[u64], lateness: &[u64]) -> f64 {
    let mut bucket = EdtBucket::new(Rate::from_bits_per_second(rate), Bytes::new(burst));
    let mut now = START;
    bucket.wake(now);
    let mut sent = 0_u128;
    // The run is so long that rounding the last departure to a nanosecond changes the rate by less
    // than a millionth; at 400 Gbit/s, 64 B take 1.3 ns.
    let count = if rate < 30_000_000_000 { 100_000 } else { 1_500_000 };
    for (size, late) in sizes.iter().cycle().zip(lateness.iter().cycle()).take(count) {
        let size = Bytes::new(*size);
        now = bucket.departure_of(size, now);
        // The sender oversleeps, and sends the overdue bytes when it wakes up.
        now += Duration::from_nanos(*late);
        bucket.spend(size, now);
        sent += u128::from(size.count());
    }
    let time = bucket.departure(START).since(START).as_nanos();
    (sent * 8 * 1_000_000_000) as f64 / time as f64 / rate as f64 - 1.0
}

#[test]
fn the_long_run_rate_is_exact_to_a_millionth() {
    for rate in RATES {
        for sizes in [&[64][..], &[1538], &[9018], &[64, 1538, 590, 9018, 84], &[1, 65_000, 7]] {
            for burst in [0, 1538, 100_000] {
                let error = error_of(rate, burst, sizes, &[0]);
                assert!(error.abs() < 1e-6, "{rate} bit/s of {sizes:?}, burst {burst}: {error:e}");
            }
        }
    }
}

#[test]
fn lateness_within_the_burst_costs_no_rate() {
    for rate in RATES {
        let burst = Bytes::new(100_000);
        let most = (burst / Rate::from_bits_per_second(rate)).as_nanos() as u64;
        // Two of every hundred departures are late, by a third and by half of the time that the
        // burst takes.
        let mut late = [0; 100];
        (late[3], late[50]) = (most / 3, most / 2);
        let error = error_of(rate, burst.count(), &[1538, 90, 1538, 9018], &late);
        assert!(error.abs() < 1e-6, "{rate} bit/s: {error:e}");
        // Every departure is later than the burst can make up for, so the rate falls.
        let error = error_of(rate, 0, &[1538], &[Bytes::new(1538).count() * 8_000_000_000 / rate + 2]);
        assert!(error < -0.3, "{rate} bit/s: {error:e}");
    }
}

#[test]
fn there_is_no_burst_after_idleness() {
    let mut bucket = EdtBucket::new(Rate::from_bits_per_second(8_000_000_000), Bytes::new(100_000));
    // At 8 Gbit/s, 1000 B take 1 µs on the line.
    for start in [START, START + Duration::from_secs(10)] {
        bucket.wake(start);
        for turn in 0..5 {
            let due = start + Duration::from_micros(turn);
            assert_eq!(bucket.departure_of(Bytes::new(1000), start), due);
            bucket.spend(Bytes::new(1000), due);
        }
    }
}

#[test]
fn a_backlog_catches_up_by_at_most_a_burst() {
    let mut bucket = EdtBucket::new(Rate::from_bits_per_second(8_000_000_000), Bytes::new(3000));
    bucket.wake(START);
    // No train has departed for 10 µs, and the burst makes up for 3 µs of this time.
    let late = START + Duration::from_micros(10);
    for _ in 0..3 {
        assert_eq!(bucket.departure_of(Bytes::new(1000), late), late);
        bucket.spend(Bytes::new(1000), late);
    }
    assert_eq!(bucket.departure_of(Bytes::new(1000), late), late + Duration::from_nanos(999));
    assert_eq!(bucket.tolerance(), Duration::from_micros(3));
}

/// Returns the gaps between the departures of messages of 1 kB that arrive at random times at a
/// lane of 8 Mbit/s. The unit is the time of one message on the line.
fn gaps(load: f64, mut arrival: impl FnMut(&mut Rng) -> f64) -> Vec<f64> {
    let mut bucket = EdtBucket::new(Rate::from_bits_per_second(8_000_000), Bytes::new(100_000));
    let mut rng = Rng::new(7);
    let (mut at, mut last, mut gaps) = (5e9, None, Vec::new());
    for _ in 0..200_000 {
        at += arrival(&mut rng) * 1e6 / load;
        let departure = bucket.depart(Bytes::new(1000), Instant::from_nanos(at as u64));
        gaps.extend(last.map(|last| departure.since(last).as_nanos() as f64 / 1e6));
        last = Some(departure);
    }
    gaps
}

/// Checks a shaped Poisson stream, which is the output of an M/D/1 queue. While messages wait, the
/// gap between departures is the time of one message; otherwise an exponentially distributed time
/// is added. The coefficient of variation of the gaps is therefore √(1 − ρ²). With a bucket that
/// saved up bursts, the coefficient would stay at 1.
#[test]
fn a_poisson_stream_becomes_as_regular_as_its_load_permits() {
    for load in [0.2, 0.5, 0.8, 0.9] {
        let gaps = gaps(load, Rng::exponential);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let (found, expected) = (variance.sqrt() / mean, (1.0 - load * load).sqrt());
        assert!((mean * load - 1.0).abs() < 0.01, "load {load}: a mean gap of {mean}");
        assert!((found / expected - 1.0).abs() < 0.03, "load {load}: {found}, expected {expected}");
    }
}

#[test]
fn an_overloaded_lane_is_as_regular_as_a_clock() {
    let gaussian = |rng: &mut Rng| (1.0 + 0.1 * rng.gaussian()).max(0.0);
    for gaps in [gaps(1.2, Rng::exponential), gaps(1.2, gaussian)] {
        // At a load of 1.2, the queue grows and is never empty after the first gaps.
        let late = &gaps[10_000..];
        assert!(late.iter().all(|gap| (gap - 1.0).abs() < 2e-6));
    }
}

#[test]
fn departures_are_places_on_the_line() {
    let mut bucket = EdtBucket::new(Rate::from_bits_per_second(8_000_000_000), Bytes::new(9000));
    let at = |micros| START + Duration::from_micros(micros);
    assert_eq!(bucket.depart(Bytes::new(2000), at(0)), at(0));
    assert_eq!(bucket.depart(Bytes::new(1000), at(0)), at(2));
    assert_eq!(bucket.depart(Bytes::new(1000), at(1)), at(3));
    assert_eq!(bucket.depart(Bytes::new(1000), at(50)), at(50), "idle time is no credit");
    assert_eq!(bucket.depart(Bytes::new(1000), at(50)), at(51));
}

#[test]
fn another_rate_carries_what_is_on_the_line() {
    let mut bucket = EdtBucket::new(Rate::from_bits_per_second(1000), Bytes::new(1000));
    bucket.wake(START);
    bucket.spend(Bytes::new(12_500), START);
    assert_eq!(bucket.departure(START), START + Duration::from_secs(100));
    bucket.set_rate(Rate::from_bits_per_second(1_000_000), START + Duration::from_secs(50));
    assert_eq!(bucket.departure(START), START + Duration::from_millis(50_050));
    assert_eq!(bucket.rate(), Rate::from_bits_per_second(1_000_000));
}

#[test]
fn absurd_amounts_saturate() {
    for rate in [0, u64::MAX] {
        let mut bucket = EdtBucket::new(Rate::from_bits_per_second(rate), Bytes::MAX);
        bucket.spend(Bytes::MAX, Instant::FAR_FUTURE);
        bucket.spend(Bytes::MAX, Instant::FAR_FUTURE);
        bucket.set_rate(Rate::from_bits_per_second(7), START);
        assert!(bucket.depart(Bytes::MAX, START) >= START);
        assert!(bucket.departure_of(Bytes::MAX, START) >= START);
    }
}

fn any_rate() -> impl Strategy<Value = u64> {
    // The rates are uniformly distributed in the logarithm, from 1 kbit/s to 400 Gbit/s.
    (3.0..11.602_f64).prop_map(|exponent| 10_f64.powf(exponent) as u64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// Checks the guaranteed limits for requests at any time: in any interval t, at most rate × (t
    /// + 1 ns) + max(burst, train) departs; and since the last wake, at most the bytes that the
    /// line has carried, and one train.
    #[test]
    fn the_line_is_never_overtaken(
        rate in any_rate(),
        burst in 0u64..100_000,
        steps in proptest::collection::vec((1u64..70_000, 0.0..3.0_f64, any::<bool>()), 1..60),
    ) {
        let rate = Rate::from_bits_per_second(rate);
        let mut bucket = EdtBucket::new(rate, Bytes::new(burst));
        let (mut now, mut departed) = (START, Vec::new());
        let (mut woken, mut since_wake) = (START, 0);
        bucket.wake(START);
        for (size, idle, sleeps) in steps {
            // The train is late, or the queue is idle, for up to three times the train's time on
            // the line.
            now += (Bytes::new(size) / rate).mul_f64(idle);
            if sleeps {
                // Trains sent before may keep the line busy beyond the time of the wake.
                let busy = bucket.departure(now).since(now);
                bucket.wake(now);
                (woken, since_wake) = (now + busy, 0);
            }
            now = bucket.departure_of(Bytes::new(size), now);
            bucket.spend(Bytes::new(size), now);
            let carried = rate * (now.since(woken) + Duration::from_nanos(1));
            prop_assert!(Bytes::new(since_wake) <= carried + Bytes::new(1), "{since_wake} of {carried}");
            since_wake += size;
            departed.push((now, size));
        }
        for from in 0..departed.len() {
            let (mut sum, mut largest) = (0, 0);
            for (at, size) in &departed[from..] {
                (sum, largest) = (sum + size, largest.max(*size));
                let time = at.since(departed[from].0) + Duration::from_nanos(2);
                let allowed = rate * time + Bytes::new(burst.max(largest) + 1);
                prop_assert!(Bytes::new(sum) <= allowed, "{sum} of {allowed}");
            }
        }
    }

    /// Checks that trains of random sizes, sent one after another, keep a random rate with an error
    /// of at most a millionth.
    #[test]
    fn any_mix_keeps_any_rate(
        rate in any_rate(),
        sizes in proptest::collection::vec(1u64..70_000, 1..20),
        burst in 0u64..100_000,
    ) {
        let asked = Rate::from_bits_per_second(rate);
        let mut bucket = EdtBucket::new(asked, Bytes::new(burst));
        let count = 20_000;
        let mut sent = 0_u128;
        for size in sizes.iter().cycle().take(count) {
            bucket.depart(Bytes::new(*size), START);
            sent += u128::from(*size);
        }
        let ideal = sent as f64 * 8e9 / rate as f64;
        let found = bucket.departure(START).since(START).as_nanos() as f64;
        prop_assert!((found - ideal).abs() <= 1e-6 * ideal + 1.0, "{found} ns for {ideal} ns");
    }
}
