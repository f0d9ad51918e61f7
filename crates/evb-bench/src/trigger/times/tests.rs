use std::time::Duration;

use evb_core::{time::Instant, units::Frequency};

use super::{Times, TimesKind};

fn hertz(rate: f64) -> Frequency {
    Frequency::from_hertz(rate).unwrap()
}

const START: Instant = Instant::from_nanos(1_000_000_007);

/// Returns mean and standard deviation of the intervals of `count` triggers, in nanoseconds.
fn statistics(kind: TimesKind, count: usize) -> (f64, f64) {
    let (mut last, mut sum, mut squares) = (START, 0.0, 0.0);
    for due in Times::new(kind, 42, START).take(count) {
        assert!(due >= last, "time does not run backwards");
        let interval = due.since(last).as_nanos() as f64;
        (last, sum, squares) = (due, sum + interval, squares + interval * interval);
    }
    let mean = sum / count as f64;
    (mean, (squares / count as f64 - mean * mean).sqrt())
}

fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance * expected, "{value} is not {expected} within {tolerance}");
}

#[test]
fn gaussian_keeps_its_mean_however_much_is_clipped() {
    for (sigma, deviation) in [(10, Some(10_000.0)), (200, Some(200_000.0)), (1_000, None), (5_000, None)] {
        let kind = TimesKind::Gaussian { rate: hertz(1e3), sigma: Duration::from_micros(sigma) };
        let (mean, got) = statistics(kind, 1_000_000);
        assert_near(mean, 1e6, 0.008);
        if let Some(deviation) = deviation {
            assert_near(got, deviation, 0.01);
        }
    }
}

#[test]
fn bursts_come_together() {
    let mut times = Times::new(TimesKind::Burst { rate: hertz(10.0), count: 3 }, 1, START);
    for burst in 1..=4u64 {
        let at = START + Duration::from_millis(100 * burst);
        assert_eq!(times.pop_due(Instant::from_nanos(at.as_nanos() - 1)), None);
        for _ in 0..3 {
            assert_eq!(times.pop_due(at), Some(at));
        }
        assert_eq!(times.pop_due(at), None);
    }
}

#[test]
fn usual_kinds_are_those_of_evb() {
    let (mean, deviation) = statistics(TimesKind::Periodic { rate: hertz(1e3) }, 10_000);
    assert_near(mean, 1e6, 1e-6);
    assert!(deviation < 1000.0, "{deviation}");
    let (mean, deviation) = statistics(TimesKind::Poisson { rate: hertz(2e5) }, 1_000_000);
    assert_near(mean, 5_000.0, 0.004);
    assert_near(deviation, 5_000.0, 0.01);
}
