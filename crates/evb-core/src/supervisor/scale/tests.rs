use super::*;

const START: u64 = 1_763_000_000_000_000_000;

fn reading(seconds: i64) -> WallClock {
    let utc = Utc::from_nanos(START.wrapping_add_signed(seconds * 1_000_000_000));
    WallClock { utc, state: ClockState::Synchronised }
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn begun() -> Scale {
    let mut scale = Scale::default();
    assert!(scale.compare(reading(0), at(100)).is_none());
    scale.begin(at(100));
    scale
}

#[test]
fn settings_of_the_wall_clock_are_remarked_and_do_not_move_the_scale() {
    let mut scale = begun();
    assert_eq!(scale.compare(reading(10), at(110)), None, "nothing happened");
    let remark = scale.compare(reading(3620), at(120)).expect("an hour ahead");
    assert!(remark.contains("3600.000 s ahead of"), "{remark}");
    assert_eq!(scale.compare(reading(3630), at(130)), None, "remarked already");
    let remark = scale.compare(reading(-3560), at(140)).expect("an hour behind");
    assert!(remark.contains("3600.000 s behind"), "{remark}");
    assert_eq!(scale.utc(at(140)), Utc::from_nanos(START + 40_000_000_000));
    assert_eq!(scale.begun(), (Utc::from_nanos(START), ClockState::Synchronised));
}

#[test]
fn a_slow_drift_is_remarked_in_steps() {
    let mut scale = begun();
    let drifting = |second: u64| {
        let ahead = 1_000_000 * second; // 1 ms each second
        let utc = Utc::from_nanos(START + second * 1_000_000_000 + ahead);
        (WallClock { utc, state: ClockState::Unknown }, at(100 + second))
    };
    let remarks = (0..300).filter_map(|second| {
        let (wall, now) = drifting(second);
        scale.compare(wall, now)
    });
    assert_eq!(remarks.count(), 2);
}

#[test]
fn another_host_continues_the_scale() {
    let mut old = begun();
    old.compare(reading(50), at(150));
    let mut new = Scale::default();
    new.recall(old.entry().as_ref()).expect("an entry of ours");
    // The clock of the new host shows 7 s when that of the old one showed 150 s; its wall clock is
    // an hour behind.
    new.shift(7_000_000_000 - 150_000_000_000);
    assert_eq!(new.utc(at(8)), old.utc(at(151)));
    let remark = new.compare(reading(50 - 3600), at(7)).expect("an hour behind");
    assert!(remark.contains("3600.000 s behind"), "{remark}");
    assert_eq!(new.begun(), old.begun());
}

#[test]
fn without_a_reading_the_time_is_unknown() {
    let mut scale = Scale::default();
    scale.begin(at(1));
    assert_eq!(scale.entry(), None);
    assert_eq!((scale.utc(at(2)), scale.utc_zero_ns()), (Utc::UNKNOWN, 0));
    let no_beginning = RunScale { utc_zero_ns: 1, ..RunScale::default() };
    assert!(scale.recall(Some(&no_beginning)).is_err());
}
