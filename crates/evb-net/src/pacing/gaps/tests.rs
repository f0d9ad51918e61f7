use std::time::Duration;

use evb_core::time::Instant;

use super::Gaps;

fn micros(times: &[u64]) -> Gaps {
    Gaps::between(&times.iter().map(|at| Instant::from_nanos(at * 1_000)).collect::<Vec<_>>())
}

#[test]
fn a_clock_is_regular() {
    let gaps = micros(&[0, 100, 200, 300, 400]);
    let nominal = Duration::from_micros(100);
    assert_eq!(gaps.count(), 4);
    assert_eq!(gaps.median(), Some(nominal));
    assert_eq!(gaps.median_error(nominal), Some(0.0));
    assert_eq!(gaps.within(nominal, 0.0), 1.0);
    assert_eq!(gaps.coefficient_of_variation(), Some(0.0));
}

#[test]
fn quantiles_and_deviations_are_counted() {
    // The gaps between these times are 100, 90, 130 and 100 µs.
    let gaps = micros(&[0, 100, 190, 320, 420]);
    let nominal = Duration::from_micros(100);
    assert_eq!(gaps.quantile(0.0), Some(Duration::from_micros(90)));
    assert_eq!(gaps.quantile(0.75), Some(Duration::from_micros(100)));
    assert_eq!(gaps.quantile(1.0), Some(Duration::from_micros(130)));
    assert_eq!(gaps.within(nominal, 0.1), 0.75);
    assert_eq!(gaps.deviation(nominal, 0.5), Some(Duration::ZERO));
    assert_eq!(gaps.deviation(nominal, 1.0), Some(Duration::from_micros(30)));
    let cv = gaps.coefficient_of_variation().unwrap();
    assert!((cv - 0.1649).abs() < 1e-3, "{cv}");
}

#[test]
fn nothing_says_nothing() {
    let gaps = micros(&[5]);
    assert_eq!((gaps.count(), gaps.median(), gaps.coefficient_of_variation()), (0, None, None));
    assert_eq!(gaps.within(Duration::from_micros(1), 1.0), 0.0);
    assert_eq!(micros(&[5, 3]).median(), Some(Duration::ZERO));
}
