use super::*;

#[test]
fn no_link_carries_more_than_a_full_stream() {
    for pattern in &PATTERNS {
        let of = |end: fn(&(u16, u16, f64)) -> u16, id| -> f64 {
            pattern.streams.iter().filter(|stream| end(stream) == id).map(|stream| stream.2).sum()
        };
        for id in 1..=4 {
            let (sent, received) = (of(|stream| stream.0, id), of(|stream| stream.1, id));
            assert!(sent <= ATM && received <= ATM, "{} {id}: {sent} {received}", pattern.name);
        }
        let ends = pattern.streams.iter().flat_map(|(from, to, _)| [*from, *to]);
        assert!(ends.max() <= Some(shape().sources.min(shape().builders)), "{}", pattern.name);
    }
}

#[test]
fn the_trunk_carries_all_ports() {
    assert!(TRUNK.rate >= RATE * u64::from(shape().builders));
}

#[test]
fn a_builder_has_the_sum_of_its_streams() {
    let share = |got, expected| Share {
        case: String::new(),
        way: "raw",
        of: String::new(),
        paper: None,
        expected,
        got,
        simulated: None,
    };
    let pattern = Pattern {
        name: "two and one",
        tolerance: Some(RAW),
        streams: &[(1, 1, 1.0), (2, 2, 1.0), (3, 1, 1.0)],
    };
    let sums = by_builder(&pattern, &[share(30.0, 40.0), share(7.0, 8.0), share(50.0, 40.0)]);
    assert_eq!(sums, [(80.0, 80.0), (7.0, 8.0)]);
}
