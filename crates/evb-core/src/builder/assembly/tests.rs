use super::*;
use crate::builder::tests::{announcement, at};

fn assigned(sources: usize) -> Assigned {
    Assigned {
        triggered: at(0),
        utc: Utc::UNKNOWN,
        expected: SourceSet::first(sources),
        epoch: Epoch::new(1),
    }
}

/// Opens event 1 of two sources in a slot.
fn open() -> (Assembly, Pool) {
    let mut assembly = Assembly::default();
    assembly.open(EventId::new(1), 2, 100, at(0));
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
    assert!(assembly.assign(assigned(2), &SourceSet::first(2)));
    assert!(bring(&mut assembly, 0, b"small", &mut pool));
    assembly.arrive(0, at(1));
    assert!(!assembly.is_over());
    assert!(bring(&mut assembly, 1, &large, &mut pool));
    assembly.arrive(1, at(2));
    assembly.invariants();
    assert!(assembly.is_over());
    assembly.end();
    assembly.invariants();
    let mut event = Event::default();
    assembly.fill(&mut event, &sources, &mut pool);
    assembly.invariants();
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
    assert!(assembly.assign(assigned(2), &all));
    for (epoch, known) in [(3, 3), (2, 3)] {
        assert!(!assembly.assign(Assigned { epoch: Epoch::new(epoch), ..assigned(1) }, &all));
        assert_eq!(assembly.assigned().map(|known| known.epoch), Some(Epoch::new(known)));
    }
    assert_eq!(assembly.awaits(), all);
}

#[test]
fn what_is_here_is_not_given_up() {
    let (mut assembly, mut pool) = open();
    assert!(assembly.assign(assigned(2), &SourceSet::first(2)));
    assert!(bring(&mut assembly, 0, b"x", &mut pool));
    assembly.arrive(0, at(1));
    assembly.give_up(&SourceSet::first(2));
    assembly.invariants();
    assert!(assembly.is_over());
    assert_eq!(assembly.missing(), SourceSet::from_iter([1]));
    assert!(!assembly.give_up_unfinished(0) && !assembly.give_up_unfinished(1), "source 1 announced nothing");
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
