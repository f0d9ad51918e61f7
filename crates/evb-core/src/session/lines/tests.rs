use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

#[test]
fn five_lines_at_once_and_then_one_a_second() {
    let mut lines = Lines::default();
    assert!((0..5).all(|_| lines.next(at(0)) == Some(0)));
    assert_eq!(lines.next(at(0)), None);
    assert_eq!(lines.next(at(999)), None);
    assert_eq!(lines.next(at(1000)), Some(2));
    assert_eq!(lines.next(at(1001)), None);
    assert!((0..5).all(|_| lines.next(at(60_000)).is_some()));
    assert_eq!(lines.next(at(60_000)), None);
}
