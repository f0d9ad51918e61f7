//! Rings that overlap are joined, and the memory has a limit.

use super::*;

fn ring(events: core::ops::Range<u64>) -> impl Iterator<Item = (EventId, Timestamp)> {
    events.rev().map(|event| (EventId::new(event), Timestamp::new(event * 7)))
}

#[test]
fn overlapping_rings_are_joined_in_order() {
    let clock = ClockIndex::new(1);
    let mut gathered = Gathered::new(2);
    gathered.add(clock, ring(100..200));
    gathered.add(clock, ring(150..260));
    gathered.add(ClockIndex::new(5), ring(0..3));
    let expected: Vec<_> = (100..260).map(|event| Reading { event, ticks: event * 7 }).collect();
    assert_eq!(gathered.readings(clock), expected);
    assert!(gathered.readings(ClockIndex::new(0)).is_empty());
}

#[test]
fn the_oldest_readings_are_dropped_first() {
    let clock = ClockIndex::new(0);
    let mut gathered = Gathered::new(1);
    gathered.add(clock, ring(1..5000));
    assert_eq!(gathered.readings(clock).len(), KEPT);
    assert_eq!(gathered.readings(clock).last(), Some(&Reading { event: 4999, ticks: 4999 * 7 }));
    gathered.add_hosts([(EventId::new(9), Instant::from_nanos(90))]);
    assert_eq!(gathered.host(9), Some(Instant::from_nanos(90)));
    assert_eq!(gathered.host(8), None);
}
