use core::time::Duration;

use super::bench::{Bench, DEADLINE, announcement, at, on_the_lane};
use crate::{
    builder::{LARGE_FRAGMENT, RosterError},
    event::{Cause, MissingSource},
    id::{EventId, SourceId},
    index::LaneIndex,
    lane::LaneError,
    set::SourceSet,
    wire::control::{Assignments, Outcome},
};

#[test]
fn fragments_before_and_after_the_assignment_make_one_event() {
    let mut bench = Bench::new(2, 2);
    bench.send(LaneIndex::new(1), 1, b"early", at(1));
    assert!(bench.events.is_empty());
    bench.assign(&[1], at(2));
    bench.send(LaneIndex::new(0), 1, b"late", at(5));
    let [event] = &bench.events[..] else { panic!("one event: {:?}", bench.events) };
    assert!(event.is_complete());
    let payloads: Vec<_> = event.fragments().map(|part| part.payload).collect();
    assert_eq!(payloads, [b"late".as_slice(), b"early"], "fragments are in the order of source ids");
    bench.write_all(at(6));
    assert_eq!(bench.told.events().collect::<Vec<_>>(), [EventId::new(1)]);
    let report = bench.report();
    assert_eq!((report.complete, report.written, report.payload_bytes), (1, 1, 9));
    assert_eq!((report.lanes[0].last, report.lanes[0].last_by_ns), (1, 4_000_000));
}

#[test]
fn a_commit_waits_for_a_grant_to_go_along_with_but_not_for_long() {
    let mut bench = Bench::new(1, 2);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"data", at(1));
    bench.write_all(at(2));
    assert!(!bench.core.is_idle(), "the source has not been told yet");
    for millis in [2, 12] {
        bench.poll(at(millis));
        assert!(!bench.core.is_idle());
        assert!(bench.core.next_timeout() <= Some(at(millis + 10)));
    }
    bench.poll(at(22));
    assert!(bench.core.is_idle());
}

#[test]
fn a_silent_source_is_named_at_the_deadline_and_late_afterwards() {
    let mut bench = Bench::new(2, 2);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    bench.core.handle_timeout(at(1999));
    bench.poll(at(1999));
    assert!(bench.events.is_empty());
    assert!(bench.core.next_timeout() <= Some(at(0) + DEADLINE));
    bench.core.handle_timeout(at(2000));
    bench.poll(at(2000));
    assert_eq!(bench.events[0].missing, [MissingSource::new(SourceId::new(2), Cause::Silent)]);
    bench.send(LaneIndex::new(1), 1, b"too late", at(2001));
    bench.write_all(at(2002));
    assert_eq!(bench.told.exceptions[0].outcome, Outcome::Incomplete);
    let told = &bench.told.exceptions[0];
    assert_eq!((&told.missing[..], &told.missing_causes[..]), (&[2][..], &[2][..]));
    let report = bench.report();
    assert_eq!((report.incomplete, report.lanes[1].missing, report.lanes[1].late), (1, 1, 1));
}

#[test]
fn announced_bytes_outlive_the_deadline_while_their_source_lives() {
    let mut bench = Bench::new(2, 2);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    bench.announce(LaneIndex::new(1), 1, 6, at(1));
    // Long past the deadline, the event still waits for the announced bytes.
    bench.core.handle_timeout(at(60_000));
    bench.poll(at(60_000));
    assert!(bench.events.is_empty());
    // The supervisor takes source 2 for down: the event ends without it.
    bench.core.handle_roster(2, [0].into_iter().collect(), SourceSet::default(), at(60_001));
    bench.poll(at(60_001));
    assert_eq!(bench.events[0].missing, [MissingSource::new(SourceId::new(2), Cause::Down)]);
    // The source was alive after all: the rest of its bytes is discarded, and its lane continues.
    bench.data(LaneIndex::new(1), &on_the_lane(1, b"zombie"), at(60_002)).unwrap();
    bench.write_all(at(60_003));
    bench.core.handle_roster(3, [0, 1].into_iter().collect(), SourceSet::default(), at(60_003));
    bench.assign(&[2], at(60_004));
    bench.send(LaneIndex::new(0), 2, b"a", at(60_005));
    bench.send(LaneIndex::new(1), 2, b"b", at(60_005));
    assert_eq!(bench.report().lanes[1].fragments, 1);
}

#[test]
fn a_lane_that_stays_broken_holds_no_slot_though_its_source_speaks() {
    let mut bench = Bench::new(2, 2);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    bench.announce(LaneIndex::new(1), 1, 6, at(1));
    bench.core.handle_lane_disconnected(LaneIndex::new(1), at(1000));
    // The lane connects and breaks again without a byte, so the time counts from the first break.
    bench.core.handle_lane_connected(LaneIndex::new(1), at(2000));
    bench.core.handle_lane_disconnected(LaneIndex::new(1), at(2000));
    bench.core.handle_timeout(at(2999));
    bench.poll(at(2999));
    assert!(bench.events.is_empty());
    bench.core.handle_timeout(at(3099));
    bench.poll(at(3099));
    assert_eq!(bench.events[0].missing, [MissingSource::new(SourceId::new(2), Cause::LostInNetwork)]);
    bench.write_all(at(3100));
    // The source is back: its old bytes are discarded, and the next event waits for its fragment.
    bench.core.handle_lane_connected(LaneIndex::new(1), at(4000));
    bench.poll(at(4000));
    bench.data(LaneIndex::new(1), &on_the_lane(1, b"zombie"), at(4000)).unwrap();
    bench.assign(&[2], at(9000));
    bench.send(LaneIndex::new(0), 2, b"a", at(9000));
    bench.announce(LaneIndex::new(1), 2, 1, at(9000));
    bench.core.handle_timeout(at(9200));
    bench.poll(at(9200));
    assert!(bench.events.is_empty());
    bench.data(LaneIndex::new(1), &on_the_lane(2, b"b"), at(9300)).unwrap();
    assert!(bench.events[0].is_complete());
}

#[test]
fn a_lane_that_is_back_gets_time_to_bring_what_it_announced() {
    let mut bench = Bench::new(1, 2);
    let deadline = DEADLINE.as_millis() as u64;
    bench.assign(&[1], at(0));
    bench.announce(LaneIndex::new(0), 1, 1, at(1));
    bench.core.handle_lane_disconnected(LaneIndex::new(0), at(100));
    // The source connects again just before its fragments would be given up.
    bench.core.handle_lane_connected(LaneIndex::new(0), at(99 + deadline));
    bench.core.handle_timeout(at(400 + deadline));
    bench.poll(at(400 + deadline));
    assert!(bench.events.is_empty());
    bench.data(LaneIndex::new(0), &on_the_lane(1, b"1"), at(500 + deadline)).unwrap();
    assert!(bench.events[0].is_complete());
}

#[test]
fn a_damaged_fragment_ends_its_event_even_before_the_assignment() {
    let mut bench = Bench::new(2, 1);
    let mut damaged = on_the_lane(1, b"payload");
    damaged[20] ^= 1;
    bench.announce(LaneIndex::new(1), 1, 7, at(0));
    bench.data(LaneIndex::new(1), &damaged, at(0)).unwrap();
    bench.assign(&[1], at(1));
    bench.send(LaneIndex::new(0), 1, b"sound", at(1));
    assert_eq!(bench.events.len(), 1, "the event does not wait for the damaged fragment");
    assert_eq!(bench.events[0].missing, [MissingSource::new(SourceId::new(2), Cause::Damaged)]);
    assert_eq!(bench.report().lanes[1].crc_errors, 1);
}

#[test]
fn a_wrong_header_is_refused_again_and_again_without_taking_memory() {
    let mut bench = Bench::new(1, 1);
    let payload = vec![5; 2 * LARGE_FRAGMENT];
    bench.assign(&[1], at(0));
    bench.announce(LaneIndex::new(0), 1, payload.len(), at(0));
    for _ in 0..50 {
        let lie = on_the_lane(2, &payload);
        assert!(matches!(bench.data(LaneIndex::new(0), &lie, at(1)), Err(LaneError::WrongEvent { .. })));
        bench.core.handle_lane_disconnected(LaneIndex::new(0), at(1));
        bench.core.handle_lane_connected(LaneIndex::new(0), at(1));
        bench.poll(at(1));
    }
    assert_eq!(bench.core.slots.pool().allocated(), 0);
    bench.data(LaneIndex::new(0), &on_the_lane(1, &payload), at(2)).unwrap();
    assert_eq!(bench.events[0].fragments().next().unwrap().payload, payload);
}

#[test]
fn one_late_fragment_does_not_break_the_lanes_of_the_others() {
    let mut bench = Bench::new(2, 2);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"first", at(0));
    // Source 2 is late with event 1 only, while thousands of events pass through two slots.
    for event in 2..3000 {
        bench.assign(&[event], at(1));
        bench.send(LaneIndex::new(0), event, b"a", at(1));
        bench.send(LaneIndex::new(1), event, b"b", at(1));
        assert_eq!(bench.events.len(), 1, "event {event}");
        bench.write_all(at(1));
    }
    bench.send(LaneIndex::new(1), 1, b"at last", at(2));
    assert!(bench.events[0].is_complete());
}

#[test]
fn a_source_that_was_frozen_may_empty_its_lane() {
    let mut bench = Bench::new(2, 2);
    bench.core.handle_roster(2, [0].into_iter().collect(), SourceSet::default(), at(0));
    for event in 1..1000 {
        bench.assign(&[event], at(1));
        bench.send(LaneIndex::new(0), event, b"a", at(1));
        bench.write_all(at(1));
    }
    let late: Vec<_> = (1..1000).map(|event| announcement(event, 1)).collect();
    bench.core.handle_announcements(LaneIndex::new(1), 0, late.into_iter(), at(2)).unwrap();
    bench.poll(at(2));
    for event in 1..1000 {
        bench.data(LaneIndex::new(1), &on_the_lane(event, b"b"), at(2)).unwrap();
    }
    let report = bench.report();
    assert_eq!((report.incomplete, report.lanes[1].late, report.lanes[1].missing), (999, 999, 999));
}

#[test]
fn duplicates_and_strangers_are_counted_and_dropped() {
    let mut bench = Bench::new(2, 1);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"once", at(0));
    bench.send(LaneIndex::new(0), 1, b"more", at(0));
    // No slot is free for event 7, which is not assigned.
    bench.send(LaneIndex::new(0), 7, b"what?", at(0));
    bench.send(LaneIndex::new(1), 1, b"x", at(0));
    let lane = &bench.report().lanes[0];
    assert_eq!((lane.fragments, lane.duplicate, lane.unexpected), (1, 1, 1));
    assert_eq!(bench.events[0].fragments().next().unwrap().payload, b"once");
}

#[test]
fn slots_that_nobody_assigned_are_taken_back() {
    let mut bench = Bench::new(1, 2);
    bench.send(LaneIndex::new(0), 10, b"?", at(0));
    bench.send(LaneIndex::new(0), 11, b"?", at(1));
    assert_eq!(bench.core.slots_used(), 2);
    bench.assign(&[5], at(2));
    assert_eq!(bench.core.slots_used(), 2, "the slot opened first was freed");
    bench.core.handle_timeout(at(10_000));
    bench.poll(at(10_000));
    bench.write_all(at(10_000));
    assert_eq!(bench.core.slots_used(), 0);
    assert_eq!(bench.report().lanes[0].unexpected, 2);
}

#[test]
fn more_assignments_than_slots_are_lost_with_a_cause() {
    let mut bench = Bench::new(1, 1);
    bench.assign(&[1], at(0));
    bench.assign(&[2], at(0));
    bench.assign(&[2], at(0));
    assert_eq!(bench.told.exceptions[0].outcome, Outcome::Lost);
    assert_eq!(bench.told.exceptions[0].event, 2);
    // Event 2 was reported as lost, so its fragment finds no slot even when a slot is free.
    bench.send(LaneIndex::new(0), 1, b"1", at(1));
    bench.write_all(at(1));
    bench.send(LaneIndex::new(0), 2, b"2", at(1));
    assert_eq!((bench.core.slots_used(), bench.report().lanes[0].late), (0, 1));
}

#[test]
fn one_message_cannot_assign_more_than_the_slots() {
    let mut bench = Bench::new(1, 2);
    let assignments = Assignments {
        roster_version: 1,
        events: vec![1; 3],
        triggered_ns: vec![0; 3],
        ..Assignments::default()
    };
    let refused = bench.core.handle_assignments(&assignments, at(0));
    assert!(matches!(refused, Err(RosterError::BeyondSlots { count: 3, slots: 2 })), "{refused:?}");
    assert_eq!(bench.core.slots_used(), 0);
}

#[test]
fn an_event_that_waits_for_nobody_is_not_complete_and_nobody_was_last() {
    let mut bench = Bench::new(2, 1);
    bench.core.handle_roster(1, core::iter::empty().collect(), SourceSet::default(), at(0));
    bench.assign(&[1], at(0));
    let missing: Vec<_> = bench.events[0].missing.iter().map(ToString::to_string).collect();
    assert_eq!(missing, ["source 1 (down)", "source 2 (down)"]);
    let lane = bench.report().lanes[0];
    assert_eq!((lane.last, lane.missing), (0, 1));
}

#[test]
fn large_memory_is_used_again_by_its_own_source_and_counted() {
    let mut bench = Bench::new(2, 1);
    let (big, small) = (vec![1; 40 * LARGE_FRAGMENT], vec![2; LARGE_FRAGMENT]);
    for event in 1..20 {
        bench.assign(&[event], at(0));
        let (first, second) = if event % 2 == 0 { (0, 1) } else { (1, 0) };
        for lane in [first, second] {
            bench.send(LaneIndex::new(lane), event, if lane == 0 { &big } else { &small }, at(0));
        }
        bench.write_all(at(0));
        assert_eq!(bench.core.slots.pool().allocated(), big.len() + small.len(), "event {event}");
    }
    // If a sink keeps a clone of an event, the event's memory is not reused.
    bench.assign(&[20], at(0));
    bench.send(LaneIndex::new(0), 20, &small, at(0));
    bench.send(LaneIndex::new(1), 20, &small, at(0));
    let kept = bench.events[0].clone();
    bench.write_all(at(0));
    assert_eq!(bench.core.slots.pool().allocated(), 0);
    assert_eq!(kept.fragments().next().unwrap().payload, small);
}

#[test]
fn a_reconnect_goes_on_in_the_middle_of_a_fragment() {
    for length in [100, 3 * LARGE_FRAGMENT] {
        let mut bench = Bench::new(1, 1);
        let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let bytes = on_the_lane(1, &payload);
        bench.assign(&[1], at(0));
        bench.announce(LaneIndex::new(0), 1, length, at(0));
        bench.data(LaneIndex::new(0), &bytes[..60], at(0)).unwrap();
        bench.core.handle_lane_disconnected(LaneIndex::new(0), at(1));
        assert!(!bench.core.is_lane_connected(LaneIndex::new(0)));
        let state = bench.core.handle_lane_connected(LaneIndex::new(0), at(2));
        assert_eq!((state.received, state.announced, state.committed), (60, bytes.len() as u64, 0));
        assert!(bench.core.check_data(LaneIndex::new(0), 60, 1).is_err(), "earlier grants are void");
        bench.poll(at(2));
        bench.core.check_data(LaneIndex::new(0), 60, bytes.len() as u32 - 60).unwrap();
        bench.data(LaneIndex::new(0), &bytes[60..], at(2)).unwrap();
        assert_eq!(bench.events[0].fragments().next().unwrap().payload, payload);
        assert_eq!(bench.report().lanes[0].reconnects, 1);
    }
}

#[test]
fn the_report_has_what_the_driver_sampled() {
    let mut bench = Bench::new(1, 1);
    bench.core.record_data_wake(Duration::from_micros(9));
    bench.core.record_grant_write(Duration::from_micros(4));
    let stages = bench.report().stages.expect("the report has stages");
    assert_eq!((&stages.wake_us[..], &stages.write_us[..]), (&[9, 1][..], &[4, 1][..]));
}
