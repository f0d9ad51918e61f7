use super::*;

#[test]
fn times_are_kept_to_a_hundredth_and_the_largest_exactly() {
    let mut times = Times::new();
    assert_eq!((times.pairs(), times.max()), (Vec::new(), 0));
    for micros in [7, 7, 12_345] {
        times.record(Duration::from_micros(micros));
    }
    let pairs = times.pairs();
    assert_eq!((&pairs[..2], pairs[3]), (&[7, 2][..], 1));
    assert!(pairs[2].abs_diff(12_345) <= 123 && times.max() == 12_345, "{pairs:?}");
    times.record(Duration::MAX);
    assert_eq!(times.max(), LIMIT);
}

#[test]
fn accounts_add_up() {
    let (mut one, mut other) = (Times::new(), Times::new());
    one.record(Duration::from_micros(5));
    other.record(Duration::from_micros(5));
    other.record(Duration::from_micros(9));
    one.add(&other);
    one.add(&Times::new());
    assert_eq!((one.pairs(), one.max()), (vec![5, 2, 9, 1], 9));
}
