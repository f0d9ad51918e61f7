use super::*;
use crate::builder::tests::{announcement, at};

const ASSIGNED: Assigned = Assigned { triggered: Instant::ZERO, utc: Utc::UNKNOWN, epoch: Epoch::new(1) };

fn set(indices: &[usize]) -> SourceSet {
    indices.iter().copied().collect()
}

/// Assigns the event so that it waits for both sources.
fn assign(assembly: &mut Assembly) -> bool {
    assembly.assign(ASSIGNED, &set(&[0, 1]), &set(&[0, 1]))
}

/// Ends the event and returns its missing sources, whose ids are 3 and 4.
fn missing(assembly: &mut Assembly, pool: &mut Pool) -> Vec<(u16, Cause)> {
    assert!(assembly.is_over());
    assembly.end();
    assembly.invariants();
    let mut event = Event::default();
    assembly.fill(&mut event, &[3, 4].map(SourceId::new), pool);
    event.missing.iter().map(|missing| (missing.source.number(), missing.cause)).collect()
}

/// Opens event 1 of two sources in a slot.
fn open() -> (Assembly, Pool) {
    let mut assembly = Assembly::new(2);
    assembly.open(EventId::new(1), 100, at(0));
    (assembly, Pool::new(2, 1))
}

/// Announces a fragment and writes its payload in two pieces; returns true if the checksum is
/// correct.
fn bring(assembly: &mut Assembly, source: usize, payload: &[u8], pool: &mut Pool) -> bool {
    let mut running = RunningChecksum::default();
    assembly.announce(source, 0, &announcement(1, payload.len()));
    assembly.begin(source, pool);
    let (first, second) = payload.split_at(payload.len() / 2);
    assembly.write(source, 0, first, &mut running);
    assembly.invariants();
    assembly.write(source, first.len(), second, &mut running);
    assembly.finish(source, Checksum::of(payload), &mut running)
}

#[test]
fn small_and_large_fragments_come_out_as_they_came_in() {
    let ((mut assembly, mut pool), large) = (open(), vec![7; LARGE_FRAGMENT]);
    let sources = [SourceId::new(3), SourceId::new(4)];
    assert!(assign(&mut assembly));
    assert!(bring(&mut assembly, 0, b"small", &mut pool));
    assembly.arrive(0, at(1));
    assert!(!assembly.is_over());
    assert!(bring(&mut assembly, 1, &large, &mut pool));
    assembly.arrive(1, at(2));
    assembly.invariants();
    assert!(assembly.is_over());
    assembly.end();
    assembly.invariants();
    // An event whose memory is used again may have a tag.
    let mut event = Event { tag: 7, ..Event::default() };
    assembly.fill(&mut event, &sources, &mut pool);
    assembly.invariants();
    assert_eq!(event.tag, 0);
    let payloads: Vec<_> = event.fragments().map(|fragment| fragment.payload.to_vec()).collect();
    assert_eq!(payloads, [b"small".to_vec(), large]);
    assembly.recycle(&mut event, &sources, &mut pool);
    assembly.close();
    assembly.invariants();
    assert_eq!(pool.allocated(), pool.peak(), "the memory is spare again");
}

#[test]
fn a_second_assignment_changes_nothing_but_its_epoch() {
    let (mut assembly, _) = open();
    let all = SourceSet::first(2);
    assert!(assign(&mut assembly));
    for (epoch, known) in [(3, 3), (2, 3)] {
        let again = Assigned { epoch: Epoch::new(epoch), ..ASSIGNED };
        assert!(!assembly.assign(again, &set(&[0]), &all));
        assert_eq!(assembly.assigned().map(|known| known.epoch), Some(Epoch::new(known)));
    }
    assert_eq!(assembly.awaits(), all);
}

#[test]
fn what_is_here_is_not_given_up() {
    let (mut assembly, mut pool) = open();
    assert!(assign(&mut assembly));
    assert!(bring(&mut assembly, 0, b"x", &mut pool));
    assembly.arrive(0, at(1));
    assembly.give_up(&SourceSet::first(2), Cause::Down);
    assembly.invariants();
    let mut give_up = |source| assembly.give_up_unfinished(source, Cause::LostInNetwork);
    assert!(!give_up(0) && !give_up(1), "source 1 announced nothing");
    assert_eq!(missing(&mut assembly, &mut pool), [(4, Cause::Down)]);
}

#[test]
fn an_event_is_incomplete_without_a_source_that_it_did_not_wait_for() {
    let down_at_assignment: [fn(&mut Assembly) -> bool; 2] = [
        |assembly| assembly.assign(ASSIGNED, &set(&[0]), &set(&[0, 1])),
        |assembly| assembly.assign(ASSIGNED, &set(&[0, 1]), &set(&[0])),
    ];
    for assign in down_at_assignment {
        let (mut assembly, mut pool) = open();
        assert!(assign(&mut assembly));
        assert_eq!(assembly.awaits(), set(&[0]));
        bring(&mut assembly, 0, b"x", &mut pool);
        assembly.arrive(0, at(1));
        assert!(assembly.is_over() && assembly.completed_by().is_none());
        assert_eq!(missing(&mut assembly, &mut pool), [(4, Cause::Down)]);
    }
}

#[test]
fn a_fragment_that_the_event_did_not_wait_for_is_used() {
    let (mut assembly, mut pool) = open();
    assert!(assembly.assign(ASSIGNED, &set(&[0]), &set(&[0])));
    for source in [1, 0] {
        assert!(bring(&mut assembly, source, b"x", &mut pool));
        assembly.arrive(source, at(1));
        assembly.invariants();
    }
    assert!(assembly.completed_by().is_some());
    assert_eq!(missing(&mut assembly, &mut pool), []);
}

#[test]
fn an_event_without_any_fragment_lacks_all() {
    let (mut assembly, mut pool) = open();
    assert!(assembly.assign(ASSIGNED, &set(&[]), &set(&[])));
    assert_eq!(missing(&mut assembly, &mut pool), [(3, Cause::Down), (4, Cause::Down)]);
}

#[test]
fn a_missing_fragment_has_the_cause_for_which_it_was_given_up() {
    type Act = fn(&mut Assembly, &mut Pool);
    let announce: Act = |assembly, _| assembly.announce(1, 0, &announcement(1, 5));
    let expire: Act = |assembly, _| assert!(assembly.expire(&set(&[]), &set(&[])));
    let refuse: Act = |assembly, _| assert!(assembly.expire(&set(&[]), &set(&[0, 1])));
    let damage: Act = |assembly, _| assert!(assembly.give_up_unfinished(1, Cause::Damaged));
    let lose: Act = |assembly, _| assert!(assembly.give_up_unfinished(1, Cause::LostInNetwork));
    let lower: Act = |assembly, _| assembly.give_up(&set(&[1]), Cause::Down);
    let withdraw: Act = |assembly, pool| assert!(assembly.withdraw(1, 9, pool));
    let cases: [(&[Act], Cause); 9] = [
        (&[expire], Cause::Silent),
        (&[refuse], Cause::Refused),
        (&[lower], Cause::Down),
        (&[announce, lower], Cause::Down),
        (&[announce, damage], Cause::Damaged),
        (&[announce, lose], Cause::LostInNetwork),
        (&[announce, withdraw, expire], Cause::LostInNetwork),
        (&[announce, withdraw, lower], Cause::Down),
        (&[lower, announce, withdraw, expire], Cause::Down),
    ];
    let (mut assembly, mut pool) = open();
    for (acts, cause) in cases {
        assert!(assign(&mut assembly));
        assert!(bring(&mut assembly, 0, b"x", &mut pool));
        assembly.arrive(0, at(1));
        acts.iter().for_each(|act| act(&mut assembly, &mut pool));
        assert_eq!(missing(&mut assembly, &mut pool), [(4, cause)]);
        // The next event in the slot knows nothing of this one.
        assembly.close();
        assembly.open(EventId::new(1), 100, at(2));
    }
}

#[test]
#[should_panic(expected = "more bytes than announced")]
fn more_bytes_than_were_announced_are_noticed() {
    let (mut assembly, mut pool) = open();
    assembly.announce(0, 0, &announcement(1, LARGE_FRAGMENT));
    assembly.begin(0, &mut pool);
    assembly.own_memory(0).unwrap().extend_from_slice(&[0; LARGE_FRAGMENT + 1]);
    assembly.invariants();
}

#[test]
#[should_panic(expected = "only what was announced arrives")]
fn a_fragment_from_nowhere_is_noticed() {
    let (mut assembly, _) = open();
    assembly.arrive(1, at(1));
    assembly.invariants();
}
