use super::{Interval, Repetition, part, student_t};

const NETPERF: Repetition = Repetition { repeats: 10, confidence: 0.95, within: 0.025 };

#[test]
fn quantiles_are_those_of_the_tables() {
    // Abramowitz and Stegun, table 26.10, and for 0.975 of one side the usual table of two-sided
    // 95 %.
    for (confidence, freedom, t) in [
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 3, 3.182),
        (0.95, 4, 2.776),
        (0.95, 9, 2.262),
        (0.95, 29, 2.045),
        (0.95, 120, 1.980),
        (0.90, 5, 2.015),
        (0.99, 2, 9.925),
        (0.99, 9, 3.250),
    ] {
        let found = student_t(confidence, freedom);
        assert!((found - t).abs() < 6e-4, "{confidence} {freedom}: {found}, not {t}");
    }
}

#[test]
fn an_interval_is_that_of_the_samples() {
    // Mean 10, standard deviation 1, so the half width is 4.303 / √3.
    let interval = Interval::of(&[9.0, 10.0, 11.0], 0.95);
    assert_eq!(interval.mean, 10.0);
    assert!((interval.half_width - 2.484).abs() < 1e-3, "{interval:?}");
    assert!(Interval::of(&[1.0], 0.95).half_width.is_infinite());
    let wide = Interval { converged: Some(false), ..interval.clone() };
    assert_eq!((interval.width_text().as_str(), wide.width_text().as_str()), ("± 24.8 %", "± 24.8 % (wide)"));
}

#[test]
fn a_point_is_repeated_until_it_is_known_or_ten_times() {
    let mut calls = 0;
    let steady = NETPERF.run(|number| {
        calls += 1;
        Ok::<_, ()>(100.0 + f64::from(number % 2))
    });
    let steady = steady.expect("measured");
    assert!(steady.converged == Some(true) && steady.half_width <= 0.025 * steady.mean, "{steady:?}");
    assert_eq!((calls, steady.samples.len()), (3, 3));
    let rough = NETPERF.run(|number| Ok::<_, ()>(f64::from(number % 3))).expect("measured");
    assert!(rough.is_wide() && rough.samples.len() == 10 && rough.half_width > 0.0, "{rough:?}");
    assert_eq!(NETPERF.run(|_| Err::<f64, _>("broken")), Err("broken"));
}

#[test]
fn a_point_is_repeated_exactly_until_its_interval_is_narrow() {
    // The half width is 2.72 after five measurements, and 2.30 after six.
    let sample = |run: &u32| if run.is_multiple_of(2) { 102.0 } else { 98.0 };
    let (interval, runs) = NETPERF.runs(sample, Ok::<_, ()>).expect("measured");
    assert_eq!((runs, interval.converged), (vec![1, 2, 3, 4, 5, 6], Some(true)));
    assert_eq!(interval.samples, [98.0, 102.0, 98.0, 102.0, 98.0, 102.0]);
}

#[test]
fn nonsense_is_refused() {
    assert_eq!(part("2.5%"), Ok(0.025));
    assert_eq!(part("0.05"), Ok(0.05));
    assert!(part("0%").is_err() && part("-1").is_err() && part("x").is_err() && part("NaN").is_err());
    assert!(NETPERF.check().is_ok());
    assert!(Repetition { repeats: 2, ..NETPERF }.check().is_err());
    assert!(Repetition { confidence: 1.0, ..NETPERF }.check().is_err());
    assert!(Repetition { confidence: f64::NAN, ..NETPERF }.check().is_err());
    assert!(NETPERF.text().contains("95 %") && NETPERF.text().contains("± 2.5 %"));
}
