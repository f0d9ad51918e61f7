use core::time::Duration;

use proptest::prelude::*;

use super::Lateness;

#[test]
fn without_departures_nothing_was_late() {
    let none = Lateness::default();
    assert_eq!((none.count(), none.max(), none.quantile(0.99)), (0, Duration::ZERO, Duration::ZERO));
}

proptest! {
    /// Checks that a quantile is at least the sample of the corresponding rank, and at most a tenth
    /// more.
    #[test]
    fn quantiles_are_right_to_a_tenth(
        mut nanos in proptest::collection::vec(0u64..3_000_000, 1..200),
        part in 0.0..1.0_f64,
    ) {
        let mut lateness = Lateness::default();
        nanos.iter().for_each(|late| lateness.record(Duration::from_nanos(*late)));
        nanos.sort_unstable();
        let rank = ((part * nanos.len() as f64).ceil() as usize).max(1);
        let (exact, found) = (nanos[rank - 1], lateness.quantile(part).as_nanos() as u64);
        prop_assert!(exact <= found && found <= exact + exact / 10 + 1, "{found} for {exact}");
        prop_assert_eq!(lateness.count(), nanos.len() as u64);
        let (last, max) = (nanos[nanos.len() - 1], lateness.max().as_nanos() as u64);
        prop_assert!(last <= max && max <= last + last / 10 + 1, "{max} for {last}");
    }
}
