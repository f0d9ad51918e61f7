use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

#[test]
fn peers_take_turns_within_a_period() {
    let mut first = ReportTimer::new(Duration::from_secs(1), 0, at(0));
    let second = ReportTimer::new(Duration::from_secs(1), 7, at(0));
    assert!(first.next() < second.next() && second.next() <= Some(at(1000)));
    assert!(!first.ring(at(0), at(10)) && first.ring(at(0), at(100)) && !first.ring(at(0), at(100)));
    assert_eq!(first.next(), Some(at(1100)));
    assert!(first.ring(at(0), at(9000)), "reports that were not sent are skipped");
    assert_eq!(first.next(), Some(at(10_000)));
}

#[test]
fn a_report_goes_with_the_heartbeat_before() {
    let mut timer = ReportTimer::new(Duration::from_secs(4), 15, at(0));
    assert!(!timer.ring(at(3900), at(3800)), "frequent heartbeats do not hasten a report");
    let heartbeats = (1..=8).map(|count| at(1000 * count));
    let rings: Vec<bool> = heartbeats.map(|now| timer.ring(now + Duration::from_secs(1), now)).collect();
    assert_eq!(rings, [false, false, false, true, false, false, false, true]);
}

#[test]
fn a_report_more_frequent_than_heartbeats_goes_alone() {
    let mut timer = ReportTimer::new(Duration::from_secs(1), 15, at(0));
    let heartbeat = at(1_000_000);
    let rings = (0..=5000).filter(|now| timer.ring(heartbeat, at(*now))).count();
    assert_eq!(rings, 5, "one in each second");
}

#[test]
fn the_grid_is_the_same_for_all() {
    for millis in [0, 1, 249, 250, 777] {
        let next = |interval| on_grid(at(millis), Duration::from_millis(interval));
        assert_eq!(next(4000), at(4000 + millis / 250 * 250));
        assert_eq!(next(250), at(250 + millis / 250 * 250));
        assert_eq!(next(100), at(100 + millis / 100 * 100));
        assert_eq!(next(0), at(millis));
    }
}

#[test]
fn no_period_is_never() {
    let mut timer = ReportTimer::new(Duration::ZERO, 1, at(0));
    assert!(timer.next().is_none() && !timer.ring(at(0), at(100_000)));
}
