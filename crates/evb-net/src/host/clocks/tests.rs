use std::time::Duration;

use super::{Lateness, reading_cost, timer_lateness};

#[test]
fn ranks_are_nearest() {
    let micros = |range: std::ops::RangeInclusive<u64>| range.rev().map(Duration::from_micros).collect();
    let of = |range| {
        let found = Lateness::of(micros(range)).unwrap();
        (found.count, found.p50.as_micros(), found.p99.as_micros(), found.max.as_micros())
    };
    assert_eq!(of(1..=1000), (1000, 500, 990, 1000));
    assert_eq!(of(1..=3), (3, 2, 3, 3));
    assert_eq!(of(7..=7), (1, 7, 7, 7));
    assert_eq!(Lateness::of(Vec::new()), None);
}

#[test]
fn timers_are_late_but_not_early() {
    let found = timer_lateness(Duration::from_millis(20)).unwrap();
    assert!(found.count > 1 && !found.p50.is_zero() && found.p50 <= found.p99 && found.p99 <= found.max);
    // evb's timers exist to avoid a lateness of a millisecond, but on a busy machine half of the
    // expiries may still be that late.
    assert!(found.p50 < Duration::from_millis(10), "{found:?}");
}

#[test]
fn a_look_at_the_clock_costs_something() {
    let cost = reading_cost();
    assert!(!cost.is_zero() && cost < Duration::from_millis(1), "{cost:?}");
}
