use super::*;

const START: u64 = 1_763_000_000_000_000_000;

fn reading(seconds: i64) -> WallClock {
    let utc = Utc::from_nanos(START.wrapping_add_signed(seconds * 1_000_000_000));
    WallClock { utc, state: ClockState::Synchronised }
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

/// A run that began at 100 s.
fn begun() -> (WallWatch, Begin) {
    let mut watch = WallWatch::default();
    assert!(watch.compare(reading(-1), at(99), None).is_none());
    let wall = watch.begin(at(100));
    assert_eq!((wall.utc.as_nanos(), wall.state), (START, ClockState::Synchronised));
    let (begun_utc_ns, begun_ns) = (wall.utc.as_nanos(), at(100).as_nanos());
    (watch, Begin { begun_utc_ns, begun_ns, ..Begin::default() })
}

#[test]
fn settings_of_the_wall_clock_are_remarked_and_do_not_move_the_scale() {
    let (mut watch, begin) = begun();
    let mut compare = |seconds, now| watch.compare(reading(seconds), at(now), Some(&begin));
    assert_eq!(compare(10, 110), None, "nothing happened");
    let remark = compare(3620, 120).expect("an hour ahead");
    assert!(remark.contains("3600.000 s ahead of"), "{remark}");
    assert_eq!(compare(3630, 130), None, "remarked already");
    let remark = compare(-3560, 140).expect("an hour behind");
    assert!(remark.contains("3600.000 s behind"), "{remark}");
    assert_eq!(begin.utc(at(140)), Utc::from_nanos(START + 40_000_000_000));
}

#[test]
fn a_slow_drift_is_remarked_in_steps() {
    let (mut watch, begin) = begun();
    let remarks = (0..300).filter_map(|second| {
        let ahead = 1_000_000 * second; // 1 ms each second
        let utc = Utc::from_nanos(START + second * 1_000_000_000 + ahead);
        watch.compare(WallClock { utc, state: ClockState::Unknown }, at(100 + second), Some(&begin))
    });
    assert_eq!(remarks.count(), 2);
}

#[test]
fn a_supervisor_on_another_host_remarks_its_own_wall_clock() {
    let (_, begin) = begun();
    // The clock of the new host shows 7 s when that of the old one showed 150 s; its wall clock is
    // an hour behind.
    let shifted = Begin { begun_ns: begin.begun_ns.wrapping_sub(143_000_000_000), ..begin.clone() };
    assert_eq!(shifted.utc(at(8)), begin.utc(at(151)));
    let remark =
        WallWatch::default().compare(reading(50 - 3600), at(7), Some(&shifted)).expect("an hour behind");
    assert!(remark.contains("3600.000 s behind"), "{remark}");
}

#[test]
fn without_a_reading_the_time_is_unknown() {
    let wall = WallWatch::default().begin(at(1));
    assert!(!wall.utc.is_known());
    assert_eq!(Begin { begun_ns: 1, ..Begin::default() }.utc(at(2)), Utc::UNKNOWN);
    assert_eq!(WallWatch::default().compare(reading(0), at(3), Some(&Begin::default())), None);
}
