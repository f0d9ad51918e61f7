use super::*;

#[test]
fn buckets_are_contiguous_and_hold_their_values() {
    let mut last = 0;
    for value in (0..100_000).chain((17..63).map(|bit| (1_u64 << bit) + 3)) {
        let bucket = bucket(value);
        assert!(bucket >= last);
        last = bucket;
        let edge = upper_edge(bucket);
        assert!(edge >= value && edge as f64 <= value as f64 * (1.0 + 1.0 / 32.0) + 1.0, "{value} -> {edge}");
    }
}

#[test]
fn quantiles_of_merged_halves() {
    let (mut odd, mut even) = (Latencies::default(), Latencies::default());
    for microseconds in 1..=1000_u64 {
        let half = if microseconds % 2 == 0 { &mut even } else { &mut odd };
        half.record(microseconds * 1000);
    }
    odd.merge(&even);
    let summary = odd.summary().expect("1000 values");
    assert!((summary.p50 - 500.0).abs() < 20.0, "{summary:?}");
    assert!((summary.p99 - 990.0).abs() < 35.0, "{summary:?}");
    assert!((summary.max - 1000.0).abs() < 1e-9);
    assert!(Latencies::default().summary().is_none());
}
