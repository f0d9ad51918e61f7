use super::*;

fn at(number: u64, after_sending_us: f64) -> Arrival {
    Arrival { number, after_sending_us }
}

#[test]
fn lost_and_repeated_announcements_are_told_apart() {
    let arrivals = [at(1, 1.0), at(3, 1.0), at(3, 2.0), at(9, 1.0)];
    assert_eq!(missing(&arrivals, 3), 1);
    assert_eq!(missing(&arrivals, 4), 2);
    assert_eq!(missing(&[], 5), 5);
}

#[test]
fn the_spread_is_between_the_first_and_the_last_source() {
    let heard = [vec![at(1, 10.0), at(2, 20.0)], vec![at(1, 13.0), at(2, 15.0)], vec![at(1, 11.0)]];
    // The third source has not heard the second announcement.
    assert_eq!(spreads(&heard, 2), [3.0]);
    assert_eq!(spreads(&heard[..2], 2), [3.0, 5.0]);
}

#[test]
fn a_lost_announcement_fails() {
    let hosts = ["s1".to_owned(), "s2".to_owned()];
    let failed = |second: Vec<Arrival>| {
        let mut report = Report::bare("x");
        judge("2x1", &hosts, &[vec![at(1, 5.0), at(2, 5.0)], second], 2, &mut report);
        report.failed()
    };
    assert!(failed(vec![at(1, 6.0), at(2, 6.0)]).is_empty());
    assert_eq!(failed(vec![at(2, 6.0)]), ["2x1: announcements lost at s2: 1"]);
}

#[test]
fn quantiles_of_nothing_are_not_zero() {
    assert!(Quantiles::of(Vec::new()).max.is_nan());
    let times = Quantiles::of((1..=100).map(f64::from).collect());
    assert_eq!((times.p50, times.p99, times.max), (51.0, 100.0, 100.0));
}
