use super::*;

#[test]
fn buckets_are_contiguous_and_a_quarter_of_a_doubling_wide() {
    for micros in 0..100_000u64 {
        let index = bucket(micros);
        assert!(micros <= end(index), "{micros} in bucket {index} that ends at {}", end(index));
        assert!(index == 0 || micros > end(index - 1), "{micros} in bucket {index}, not the one before");
    }
    assert_eq!((bucket(u64::MAX), end(4), end(8)), (BUCKETS - 1, 4, 9));
}

#[test]
fn quantiles_are_right_to_a_fifth() {
    let mut latencies = Latencies::new();
    assert_eq!(latencies.quantile(0.5), None);
    (1..=1000).for_each(|micros| latencies.record(micros));
    for part in [0.01, 0.5, 0.9, 0.99, 1.0] {
        let (found, exact) = (latencies.quantile(part).expect("counted").as_micros() as f64, part * 1000.0);
        assert!(found >= exact && found <= exact * 1.26 + 1.0, "{part}: {found} for {exact}");
    }
    let octaves: Vec<_> = latencies.octaves().collect();
    assert_eq!((octaves.len(), octaves[1]), (32, (Duration::from_micros(7), 4)), "4 to 7");
    assert_eq!(octaves.iter().map(|octave| octave.1).sum::<u64>(), 1000);
    assert!(latencies.sum() >= Duration::from_micros(500_500));
}

#[test]
fn pairs_carry_it_and_what_came_since_is_the_difference() {
    let mut before = Latencies::new();
    before.record(10);
    let mut now = before.clone();
    now.record(10);
    now.record(500);
    let mut carried = Latencies::new();
    carried.add_pairs(&now.pairs());
    assert_eq!(carried, now);
    assert_eq!(carried.since(&before).count(), 2);
    assert_eq!(before.since(&now), before, "counting has restarted");
    carried.add_pairs(&[9999, 5, 3]);
    assert_eq!(carried, now, "unknown buckets are ignored");
    carried.add(&now);
    assert_eq!(carried.count(), 6);
}
