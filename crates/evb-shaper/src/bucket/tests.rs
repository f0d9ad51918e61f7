use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use proptest::prelude::*;

use super::TokenBucket;

const START: Instant = Instant::from_nanos(5_000_000_000);

#[test]
fn the_long_run_rate_is_exact_to_a_millionth() {
    for bits_per_second in
        [10_000, 999_999_937, 1_000_000_000, 4_800_000_000, 10_000_000_000, 400_000_000_000]
    {
        for size in [64, 1538, 9000] {
            let rate = Rate::from_bits_per_second(bits_per_second);
            let mut bucket = TokenBucket::new(rate, Bytes::new(size));
            let (mut now, count) = (START, 1_000_000);
            for _ in 0..count {
                now = bucket.departure_of(Bytes::new(size), now);
                bucket.spend(Bytes::new(size), now);
            }
            let seconds = now.since(START).as_nanos() as f64 / 1e9;
            let found = ((count - 1) * size * 8) as f64 / seconds;
            let error = found / bits_per_second as f64 - 1.0;
            // Departures are whole nanoseconds: the last one may be one late.
            assert!(error.abs() < 1e-6 + 1e-9 / seconds, "{rate} in {size} B: {error:e}");
        }
    }
}

#[test]
fn a_full_bucket_lets_a_burst_go_and_then_waits() {
    let mut bucket = TokenBucket::new(Rate::from_bits_per_second(8_000_000_000), Bytes::new(3000));
    for _ in 0..3 {
        assert_eq!(bucket.departure_of(Bytes::new(1000), START), START);
        bucket.spend(Bytes::new(1000), START);
    }
    assert_eq!(bucket.departure_of(Bytes::new(1000), START), START + Duration::from_nanos(999));
    // More than the burst goes only from a full bucket.
    assert_eq!(bucket.departure_of(Bytes::new(9000), START), START + Duration::from_nanos(3000));
    assert_eq!(bucket.departure(START), START, "the plain question: is anything left, if only nothing");
}

#[test]
fn absurd_amounts_saturate() {
    let mut bucket = TokenBucket::new(Rate::from_bits_per_second(0), Bytes::MAX);
    bucket.spend(Bytes::MAX, Instant::FAR_FUTURE);
    assert!(bucket.departure(START) >= START);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Law: in any interval T at most rate × (T + 1 ns) + burst, or one packet where that is more.
    #[test]
    fn no_interval_has_more_than_its_rate_and_a_burst(
        mbits in 1u64..100_000,
        burst in 0u64..100_000,
        sizes in proptest::collection::vec((1u64..10_000, 0u64..200_000), 1..60),
    ) {
        let rate = Rate::from_bits_per_second(mbits * 1_000_000);
        let mut bucket = TokenBucket::new(rate, Bytes::new(burst));
        let (mut now, mut departed) = (START, Vec::new());
        for (size, idle) in sizes {
            now = bucket.departure_of(Bytes::new(size), now + Duration::from_nanos(idle));
            bucket.spend(Bytes::new(size), now);
            departed.push((now, size));
        }
        for from in 0..departed.len() {
            let (mut sum, mut largest) = (0, 0);
            for (at, size) in &departed[from..] {
                (sum, largest) = (sum + size, largest.max(*size));
                let time = at.since(departed[from].0) + Duration::from_nanos(1);
                let allowed = rate * time + Bytes::new(burst.max(largest) + 1);
                prop_assert!(Bytes::new(sum) <= allowed, "{sum} of {allowed}");
            }
        }
    }
}
