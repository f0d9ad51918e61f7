use std::time::Duration;

use evb_core::{time::Instant, units::Frequency};

use crate::trigger::times::{Times, TimesKind};

fn khz() -> Frequency {
    Frequency::from_hertz(1000.0).unwrap()
}

/// Returns the numbers of triggers in windows of 100 ms.
fn counts(kind: TimesKind, windows: u64) -> Vec<f64> {
    let mut trigger = Times::new(kind, 7, Instant::ZERO);
    (1..=windows)
        .map(|window| {
            let end = Instant::from_nanos(window * 100_000_000);
            let mut count = 0.0;
            while trigger.pop_due(end).is_some() {
                count += 1.0;
            }
            count
        })
        .collect()
}

/// Returns the variance of the counts of `together` successive windows over their mean, which is 1
/// for Poisson triggers in windows of any length.
fn dispersion(counts: &[f64], together: usize) -> f64 {
    let sums: Vec<f64> = counts.chunks_exact(together).map(|windows| windows.iter().sum()).collect();
    let mean = sums.iter().sum::<f64>() / sums.len() as f64;
    sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / (sums.len() - 1) as f64 / mean
}

/// Estimates the exponent H of self-similarity from the variances of counts in windows of 100 ms
/// and of 10 s: the dispersion grows as the window to the power 2H − 1.
fn exponent(counts: &[f64]) -> f64 {
    f64::midpoint((dispersion(counts, 100) / dispersion(counts, 1)).log10() / 2.0, 1.0)
}

fn on_off(shape: f64) -> TimesKind {
    let (on, off) = (Duration::from_millis(10), Duration::from_millis(30));
    TimesKind::OnOff { rate: khz(), on, off, shape, streams: 16 }
}

#[test]
fn the_mean_rate_is_kept() {
    for shape in [1.3, 1.5, 1.9] {
        let counts = counts(on_off(shape), 100_000);
        let rate = counts.iter().sum::<f64>() / 10_000.0;
        assert!((rate / 1000.0 - 1.0).abs() < 0.04, "shape {shape}: {rate} Hz");
    }
}

#[test]
fn variance_falls_more_slowly_than_that_of_poisson_triggers() {
    let poisson = exponent(&counts(TimesKind::Poisson { rate: khz() }, 200_000));
    assert!((poisson - 0.5).abs() < 0.03, "Poisson triggers have H = 0.5, not {poisson}");
    let heavy = exponent(&counts(on_off(1.5), 200_000));
    assert!((heavy - 0.75).abs() < 0.08, "a shape of 1.5 has H = 0.75, not {heavy}");
    // Light tails: a Pareto distribution of the shape 8 has little variance, and no memory beyond a
    // few times on and off.
    let light = exponent(&counts(on_off(8.0), 200_000));
    assert!(light < 0.6, "a shape of 8 is not self-similar, but has H = {light}");
}

#[test]
fn a_stream_that_is_never_off_is_periodic() {
    let kind = TimesKind::OnOff {
        rate: khz(),
        on: Duration::from_millis(5),
        off: Duration::ZERO,
        shape: 1.5,
        streams: 1,
    };
    let mut trigger = Times::new(kind, 3, Instant::ZERO);
    let mut next = || trigger.pop_due(Instant::FAR_FUTURE).unwrap();
    let mut last = next();
    assert!(last.as_nanos() < 1_000_000, "the phase of the stream is within one interval");
    for _ in 0..1000 {
        let at = next();
        assert!(at.since(last).abs_diff(Duration::from_millis(1)) <= Duration::from_nanos(1));
        last = at;
    }
}

#[test]
fn extreme_parameters_neither_hang_nor_run_backwards() {
    for (hertz, on, off, shape, streams) in [
        (1e-3, 1, 1_000_000_000, 1.5, 1),
        (1e9, 1, 0, 1.0, u16::MAX),
        (1.0, 0, 0, f64::NAN, 0),
        (1e6, 1_000_000_000_000_000, 1, 1.01, 3),
    ] {
        let kind = TimesKind::OnOff {
            rate: Frequency::from_hertz(hertz).unwrap(),
            on: Duration::from_nanos(on),
            off: Duration::from_nanos(off),
            shape,
            streams,
        };
        let mut trigger = Times::new(kind, 1, Instant::ZERO);
        let mut last = Instant::ZERO;
        for _ in 0..1000 {
            let Some(at) = trigger.pop_due(Instant::FAR_FUTURE) else { break };
            assert!(at >= last, "{kind:?}");
            last = at;
        }
    }
}
