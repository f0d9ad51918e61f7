use core::time::Duration;

use proptest::prelude::*;

use super::{BINS, Lateness, bin, last_of};

#[test]
fn bins_follow_each_other() {
    for number in 0..BINS - 1 {
        assert_eq!(bin(last_of(number)), number);
        assert_eq!(bin(last_of(number) + 1), number + 1);
    }
    assert_eq!(bin(u64::MAX), BINS - 1);
}

#[test]
fn without_departures_nothing_was_late() {
    assert_eq!(Lateness::default().quantile(0.99), Duration::ZERO);
}

proptest! {
    /// A quantile is at least the sample of that rank, and at most an eighth more.
    #[test]
    fn quantiles_are_right_to_an_eighth(
        mut nanos in proptest::collection::vec(0u64..3_000_000, 1..200),
        part in 0.0..1.0_f64,
    ) {
        let mut lateness = [Lateness::default(), Lateness::default()];
        for (index, late) in nanos.iter().enumerate() {
            lateness[index % 2].record(Duration::from_nanos(*late));
        }
        let [mut all, other] = lateness;
        all.add(&other);
        nanos.sort_unstable();
        let rank = ((part * nanos.len() as f64).ceil() as usize).max(1);
        let (exact, found) = (nanos[rank - 1], all.quantile(part).as_nanos() as u64);
        prop_assert!(exact <= found && found <= exact + exact / 8 + 1, "{found} for {exact}");
        prop_assert_eq!(all.count(), nanos.len() as u64);
        prop_assert_eq!(all.max().as_nanos() as u64, nanos[nanos.len() - 1]);
    }
}
