use super::{Axis, Ticks};

fn texts(axis: &Axis, values: &[f64]) -> Vec<String> {
    let ticks = Ticks::new(axis, values.iter().copied()).expect("values");
    ticks.labelled.iter().map(|place| ticks.text(*place)).collect()
}

#[test]
fn linear_ticks_are_round_numbers_around_the_data() {
    assert_eq!(texts(&Axis::linear(""), &[0.3, 9.7]), ["0", "2", "4", "6", "8", "10"]);
    assert_eq!(texts(&Axis::linear(""), &[0.01, 0.04]), ["0.01", "0.02", "0.03", "0.04"]);
    assert_eq!(texts(&Axis::linear(""), &[-1.0, 1.0]), ["\u{2212}1.0", "\u{2212}0.5", "0.0", "0.5", "1.0"]);
    let wide = texts(&Axis::linear(""), &[0.0, 50_000.0]);
    assert_eq!(wide.last().map(String::as_str), Some("50\u{2009}000"));
    assert!(!texts(&Axis::linear(""), &[3.0]).is_empty());
}

#[test]
fn log_ticks_are_decades_and_finer_where_there_are_few() {
    assert_eq!(texts(&Axis::log(""), &[12.0, 800.0]), ["10", "20", "50", "100", "200", "500", "1000"]);
    assert_eq!(texts(&Axis::log(""), &[0.02, 900.0]), ["0.01", "0.1", "1", "10", "100", "1000"]);
    let many = texts(&Axis::log(""), &[12e3, 80e3]);
    assert_eq!(many, ["10\u{2009}000", "20\u{2009}000", "50\u{2009}000", "100\u{2009}000"]);
    assert_eq!(texts(&Axis::log(""), &[1.2e6, 8e6]), ["10⁶", "2·10⁶", "5·10⁶", "10⁷"]);
    let far = texts(&Axis::log(""), &[1e-6, 1e9]);
    assert!(far.contains(&"10⁻⁶".to_owned()) && far.contains(&"10⁹".to_owned()), "{far:?}");
    assert!(far.len() < 8, "{far:?}");
}

#[test]
fn a_range_of_its_own_is_kept() {
    let ticks = Ticks::new(&Axis::linear("").between(0.0, 7.0), std::iter::empty()).expect("a range");
    assert_eq!((ticks.low, ticks.high), (0.0, 7.0));
    let ticks = Ticks::new(&Axis::linear("").between(0.0, 7.0), [9.0].into_iter()).expect("a range");
    assert!(ticks.high >= 9.0, "data are never cut off");
}

#[test]
fn what_an_axis_cannot_show_gives_none() {
    assert_eq!(Ticks::new(&Axis::log(""), [0.0, -1.0, f64::NAN].into_iter()), None);
    assert_eq!(Ticks::new(&Axis::linear(""), [f64::INFINITY].into_iter()), None);
}
