//! A ring keeps the newest readings, in constant memory.

use super::*;

#[test]
fn the_newest_readings_stay_and_the_newest_comes_first() {
    let mut ring = ReadingRing::default();
    assert_eq!(ring.iter().next(), None);
    for event in 1..=1000 {
        ring.push(EventId::new(event), Timestamp::new(event * 10));
    }
    let kept: Vec<u64> = ring.iter().map(|(event, _)| event.number()).collect();
    let newest: Vec<u64> = (1..=1000).rev().take(RING_READINGS).collect();
    assert_eq!(kept, newest);
    assert_eq!(ring.ticks_of(EventId::new(999)), Some(Timestamp::new(9990)));
    assert_eq!(ring.ticks_of(EventId::new(1)), None);
}

#[test]
fn a_repeat_with_another_time_is_told_from_the_same_fragment() {
    let mut ring = ReadingRing::default();
    ring.push(EventId::new(4711), Timestamp::new(5));
    let known = ring.ticks_of(EventId::new(4711)).unwrap();
    assert_eq!(known, Timestamp::new(5), "the same fragment again");
    assert_ne!(known, Timestamp::new(6), "another fragment under the same number");
}

#[test]
fn a_source_needs_at_most_4_kib() {
    assert!(size_of::<ReadingRing>() <= 4096);
}
