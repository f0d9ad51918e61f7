use super::*;
use crate::{
    builder::tests::{announcement, at, config},
    fragment::{Checksum, RunningChecksum},
    id::Epoch,
    index::SlotIndex,
    time::Utc,
};

const DEADLINE: Duration = crate::builder::tests::DEADLINE;

fn slots(sources: u16, slots: usize) -> Slots {
    Slots::new(&config(sources, slots))
}

fn set(indices: &[usize]) -> SourceSet {
    indices.iter().copied().collect()
}

fn event(number: u64) -> EventId {
    EventId::new(number)
}

/// Assigns an event that waits for the first `sources` sources.
fn assign(
    slots: &mut Slots,
    number: u64,
    sources: usize,
    now: Instant,
    ended: impl FnMut(&Assembly),
) -> bool {
    let assigned = Assigned { triggered: at(0), utc: Utc::UNKNOWN, epoch: Epoch::new(1) };
    slots.assign(
        event(number),
        assigned,
        &Expected { sources: SourceSet::first(sources), ..Expected::default() },
        now,
        ended,
    )
}

/// Announces a fragment of one byte and delivers it.
fn bring(slots: &mut Slots, source: usize, number: u64, now: Instant, ended: impl FnMut(&Assembly)) {
    let slot = slots.announce(source, 0, &announcement(number, 1), now).unwrap();
    let (mut running, (assembly, pool)) = (RunningChecksum::default(), slots.room(slot));
    assert!(!assembly.begin(source, pool), "the fragment is small");
    assembly.write(source, 0, b"x", &mut running);
    assert!(assembly.finish(source, Checksum::of(b"x"), &mut running));
    slots.conclude(slot, source, true, now, ended);
}

fn none_ends(event: &Assembly) {
    panic!("{event:?}");
}

#[test]
fn an_event_ends_once_and_its_slot_is_free_when_the_sink_is_done() {
    let (config, mut slots, mut ended) = (config(2, 1), slots(2, 1), Vec::new());
    assert!(assign(&mut slots, 1, 2, at(0), none_ends));
    assert!(slots.take_newly_full() && !slots.take_newly_full());
    bring(&mut slots, 1, 1, at(1), none_ends);
    assert!(slots.take_event(&config).is_none());
    bring(&mut slots, 0, 1, at(2), |event| ended.push((event.event(), event.missing().len())));
    assert_eq!(ended, [(event(1), 0)]);
    slots.invariants();
    let taken = slots.take_event(&config).unwrap();
    assert_eq!((taken.id, taken.is_complete(), taken.builder), (event(1), true, config.id));
    assert!(slots.take_event(&config).is_none());
    assert!(!assign(&mut slots, 2, 2, at(2), none_ends), "the only slot is with the sink");
    let slot = slots.find(event(1)).unwrap();
    slots.release(slot, taken, &config.sources);
    assert_eq!((slots.used(), slots.find(event(1))), (0, None));
    assert!(assign(&mut slots, 2, 2, at(3), none_ends));
    slots.invariants();
}

#[test]
fn what_is_announced_for_nothing_has_a_reason() {
    let mut slots = slots(2, 1);
    slots.announce(0, 0, &announcement(5, 1), at(0)).unwrap();
    let mut announce = |source, number| slots.announce(source, 0, &announcement(number, 1), at(1)).map(drop);
    assert_eq!(announce(0, 5), Err(Unwanted::Duplicate));
    assert_eq!(announce(1, 5), Ok(()));
    assert_eq!(announce(1, 6), Err(Unwanted::Unexpected));
    assert!(assign(&mut slots, 5, 0, at(1), |_| {}));
    let mut announce = |source, number| slots.announce(source, 0, &announcement(number, 1), at(1)).map(drop);
    assert_eq!(announce(1, 4), Err(Unwanted::Late), "events below the highest assigned one have ended");
    assert_eq!(announce(1, 5), Err(Unwanted::Duplicate));
}

#[test]
fn an_assigned_event_takes_the_slot_of_the_oldest_that_nobody_assigned() {
    let (mut slots, mut evicted) = (slots(1, 3), Vec::new());
    assert!(assign(&mut slots, 1, 1, at(0), none_ends));
    slots.announce(0, 10, &announcement(8, 1), at(2)).unwrap();
    slots.announce(0, 20, &announcement(9, 1), at(1)).unwrap();
    slots.make_room(event(1), |_| panic!("event 1 has a slot"));
    slots.make_room(event(2), |event| evicted.extend(event.announced()));
    assert_eq!(evicted, [(0, 20)]);
    slots.invariants();
    assert!(assign(&mut slots, 2, 1, at(3), none_ends));
    assert_eq!((slots.find(event(9)), slots.used()), (None, 3));
}

#[test]
fn events_that_nobody_assigns_are_evicted_in_the_end() {
    let (mut slots, mut evicted) = (slots(1, 2), Vec::new());
    slots.announce(0, 7, &announcement(1, 1), at(0)).unwrap();
    let patience = (DEADLINE * 2).max(ASSIGNMENT_DELAY);
    slots.evict_provisional(at(0) + patience, |_| panic!("the assignment may be late"));
    let late = at(1) + patience;
    slots.evict_provisional(late, |event| evicted.extend(event.announced()));
    assert_eq!((evicted, slots.used()), (vec![(0, 7)], 0));
}

#[test]
fn a_deadline_waits_for_who_is_awaited_and_begins_anew() {
    let (mut slots, mut missing) = (slots(2, 2), SourceSet::default());
    slots.publish(1, set(&[0]), set(&[1]), at(0), none_ends);
    assert!(assign(&mut slots, 1, 2, at(0), none_ends));
    assert_eq!(slots.next_deadline(), Some(at(0) + DEADLINE));
    slots.expire(at(0) + DEADLINE, none_ends);
    assert_eq!(slots.next_deadline(), None, "the supervisor waits for source 1");
    let back = at(0) + 2 * DEADLINE;
    slots.publish(2, set(&[0, 1]), set(&[]), back, none_ends);
    assert_eq!(slots.next_deadline(), Some(back + DEADLINE));
    slots.expire(back + DEADLINE, |event| missing = event.missing());
    assert_eq!(missing, set(&[0, 1]));
    slots.invariants();
}

#[test]
fn deadlines_of_events_that_are_over_are_forgotten() {
    let mut slots = slots(1, 2);
    assert!(assign(&mut slots, 1, 1, at(0), none_ends));
    for millis in 1..100 {
        slots.put_off(SlotIndex::new(0), at(millis));
    }
    assert!(slots.deadlines.len() <= 4, "{:?}", slots.deadlines);
    assert_eq!(slots.deadlines.back(), Some(&(at(99) + DEADLINE, event(1))));
}

#[test]
fn a_process_that_comes_back_unexpected_is_not_waited_for() {
    let (mut slots, mut missing) = (slots(2, 4), SourceSet::default());
    assert!(assign(&mut slots, 1, 2, at(0), none_ends));
    slots.announce(1, 0, &announcement(1, 5), at(1)).unwrap();
    bring(&mut slots, 0, 1, at(1), none_ends);
    slots.rosters.publish(2, set(&[0]), set(&[]));
    slots.withdraw(1, at(2), |event| missing = event.missing());
    assert_eq!(missing, set(&[1]));
    slots.invariants();
}

#[test]
fn a_process_that_comes_back_expected_has_another_deadline() {
    let mut slots = slots(2, 4);
    assert!(assign(&mut slots, 1, 2, at(0), none_ends));
    slots.announce(1, 0, &announcement(1, 5), at(1)).unwrap();
    bring(&mut slots, 0, 1, at(1), none_ends);
    slots.withdraw(1, at(2), none_ends);
    let slot = slots.find(event(1)).unwrap();
    assert_eq!(slots.deadlines.back(), Some(&(at(2) + DEADLINE, event(1))));
    assert_eq!(slots.announce(1, 0, &announcement(1, 5), at(3)), Ok(slot), "it announces again");
    slots.invariants();
}

#[test]
fn a_broken_lane_gives_up_what_it_announced_and_did_not_bring() {
    let (mut slots, mut ended) = (slots(2, 4), Vec::new());
    for number in 1..=3 {
        assert!(assign(&mut slots, number, 2, at(0), none_ends));
        bring(&mut slots, 0, number, at(1), none_ends);
    }
    slots.announce(1, 0, &announcement(2, 5), at(1)).unwrap();
    slots.give_up(1, at(2), |event| ended.push(event.event()));
    assert_eq!(ended, [event(2)], "other events wait for their deadlines");
    assert_eq!(slots.used(), 3);
}

#[test]
fn latency_is_counted_of_complete_events_only() {
    let mut slots = slots(1, 4);
    assert!(assign(&mut slots, 1, 1, at(0), none_ends));
    bring(&mut slots, 0, 1, at(7), |_| {});
    assert!(assign(&mut slots, 2, 1, at(0), none_ends));
    slots.expire(at(0) + DEADLINE, |_| {});
    assert!(assign(&mut slots, 3, 0, at(50), |_| {}), "the event waits for no source");
    assert_eq!(slots.latency().max(), 7000);
}

/// A builder without a free slot cannot take a fragment whose event is not assigned. If the event
/// gets a slot later, it names the fragment as refused.
#[test]
fn a_fragment_that_found_no_slot_is_refused_and_not_silent() {
    let config = config(2, 1);
    for evicts in [false, true] {
        let mut slots = slots(2, 1);
        let earlier = if evicts { 9 } else { 1 };
        slots.announce(0, 0, &announcement(earlier, 1), at(0)).unwrap();
        let first = if evicts { 9 } else { 2 };
        let taken = slots.announce(1, 0, &announcement(first, 1), at(0));
        assert_eq!(taken.is_ok(), evicts, "{taken:?}");
        slots.make_room(event(2), |_| {});
        assert!(assign(&mut slots, 2, 2, at(1), none_ends));
        slots.expire(at(1) + DEADLINE, |_| {});
        let taken = slots.take_event(&config).unwrap();
        let causes: Vec<_> = taken.missing.iter().map(|missing| missing.cause).collect();
        let expected = if evicts { Cause::Silent } else { Cause::Refused };
        assert_eq!(causes, [Cause::Silent, expected], "event 2 was not announced: {evicts}");
        let slot = slots.find(event(2)).unwrap();
        slots.release(slot, taken, &config.sources);
        assert!(assign(&mut slots, 9, 2, at(100), none_ends));
        slots.expire(at(100) + DEADLINE, |_| {});
        let taken = slots.take_event(&config).unwrap();
        let expected = if evicts { Cause::Refused } else { Cause::Silent };
        assert!(taken.missing.iter().all(|missing| missing.cause == expected), "{:?}", taken.missing);
    }
}
