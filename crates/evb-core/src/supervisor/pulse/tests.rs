use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn heartbeats_come_an_interval_after_the_one_before() {
    let start = Instant::from_nanos(5);
    let mut pulse = Pulse::new(start, SECOND);
    assert!(!pulse.is_due(start) && pulse.is_due(start + SECOND));
    assert_eq!(pulse.beat(start + 3 * SECOND), 2 * SECOND);
    assert_eq!(pulse.next(), start + 4 * SECOND);
    pulse.restart(start);
    assert!(pulse.is_due(start));
}

#[test]
fn a_hastened_heartbeat_is_for_all_and_the_next_ones_are_shared_out() {
    let start = Instant::from_nanos(5);
    let mut pulse = Pulse::new(start, SECOND);
    let receivers = |pulse: &Pulse| (0..8).filter(|position| pulse.is_for(*position, 4)).count();
    pulse.hasten(start);
    assert!(pulse.is_due(start));
    pulse.beat(start);
    assert_eq!(receivers(&pulse), 8);
    pulse.beat(start + SECOND);
    assert_eq!(receivers(&pulse), 2);
}

#[test]
fn limits_stand_still_as_long_as_time_does() {
    let start = Instant::from_nanos(5);
    let mut pulse = Pulse::new(start, SECOND);
    assert!(!pulse.lacks_sources(start + 100 * SECOND) && !pulse.lacks_builders(start + 100 * SECOND));
    pulse.lose_sources(start, 2 * SECOND);
    pulse.lose_builders(start + 3 * SECOND);
    pulse.put_off(SECOND);
    assert!(!pulse.lacks_sources(start + 2 * SECOND) && pulse.lacks_sources(start + 3 * SECOND));
    assert!(!pulse.lacks_builders(start + 3 * SECOND) && pulse.lacks_builders(start + 4 * SECOND));
    pulse.find_source();
    pulse.find_builder();
    assert!(!pulse.lacks_sources(start + 100 * SECOND) && !pulse.lacks_builders(start + 100 * SECOND));
}
