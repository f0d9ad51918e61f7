use core::time::Duration;

use proptest::prelude::*;

use super::{Trigger, TriggerKind};
use crate::{time::Instant, units::Frequency};

fn hertz(rate: f64) -> Frequency {
    Frequency::from_hertz(rate).unwrap()
}

const START: Instant = Instant::from_nanos(1_000_000_007);

/// Returns mean and standard deviation of the intervals of `count` triggers, in nanoseconds.
fn statistics(kind: TriggerKind, count: u32) -> (f64, f64) {
    let mut trigger = Trigger::new(kind, 42, START);
    let (mut last, mut sum, mut squares) = (START, 0.0, 0.0);
    for _ in 0..count {
        let due = trigger.pop_due(Instant::FAR_FUTURE).unwrap();
        assert!(due >= last, "time does not run backwards");
        let interval = due.since(last).as_nanos() as f64;
        (last, sum, squares) = (due, sum + interval, squares + interval * interval);
    }
    let mean = sum / f64::from(count);
    (mean, (squares / f64::from(count) - mean * mean).sqrt())
}

fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance * expected, "{value} is not {expected} within {tolerance}");
}

#[test]
fn a_megahertz_does_not_drift() {
    for rate in [1e6, 999_983.0, 3.0, 1e5 / 3.0, 7.77e5] {
        let mut trigger = Trigger::new(TriggerKind::Periodic { rate: hertz(rate) }, 1, START);
        let count = 3_000_000u32;
        let mut last = START;
        for _ in 0..count {
            last = trigger.pop_due(Instant::FAR_FUTURE).unwrap();
        }
        let exact = f64::from(count) * 1e9 / rate;
        let got = last.since(START).as_nanos() as f64;
        assert!((got - exact).abs() <= 1.0 + exact * 1e-12, "{rate} Hz: {got} ns instead of {exact}");
    }
}

#[test]
fn poisson_has_its_mean_and_as_much_deviation() {
    let (mean, deviation) = statistics(TriggerKind::Poisson { rate: hertz(2e5) }, 1_000_000);
    assert_near(mean, 5_000.0, 0.004);
    assert_near(deviation, 5_000.0, 0.01);
}

#[test]
fn others_are_never_due() {
    for kind in [TriggerKind::AsFastAsPossible, TriggerKind::External] {
        let mut trigger = Trigger::new(kind, 1, START);
        assert_eq!((trigger.next_due(), trigger.pop_due(Instant::FAR_FUTURE)), (None, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// However irregularly the trigger times are polled, the triggers are the same, and none is
    /// returned before its time.
    #[test]
    fn looking_does_not_change_the_times(rate in 1.0..1e6f64, seed: u64, is_periodic: bool, steps in prop::collection::vec(0u64..5_000_000, 1..40)) {
        let rate = hertz(rate);
        let kind = if is_periodic { TriggerKind::Periodic { rate } } else { TriggerKind::Poisson { rate } };
        let mut looked_at = Trigger::new(kind, seed, START);
        let mut all = Trigger::new(kind, seed, START);
        let mut now = START;
        for step in steps {
            now += Duration::from_nanos(step);
            while let Some(due) = looked_at.pop_due(now) {
                prop_assert!(due <= now);
                prop_assert_eq!(Some(due), all.pop_due(Instant::FAR_FUTURE));
            }
            prop_assert!(looked_at.next_due().is_some_and(|next| next > now));
        }
    }
}
