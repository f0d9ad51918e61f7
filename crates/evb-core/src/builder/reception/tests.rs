use super::*;
use crate::{
    builder::{
        assembly::LARGE_FRAGMENT,
        tests::{announcement, at, config, on_the_lane},
    },
    index::LaneIndex,
    wire::record::next_record,
};

/// Returns the lane of source 1, and slots for its events. `announce` grants each fragment at once.
fn reception() -> (Reception, Slots) {
    let mut reception =
        Reception::new(LaneIndex::new(0), Bytes::mib(1), LaneReport { source: 1, ..LaneReport::default() });
    reception.connect();
    (reception, Slots::new(&config(1, 2)))
}

fn announce(reception: &mut Reception, slots: &mut Slots, event: u64, length: usize) {
    let start = reception.incoming().ready();
    reception.announce(start, [announcement(event, length)].into_iter(), slots, at(0)).unwrap();
    let (start, end) = (reception.incoming().granted(), reception.incoming().ready());
    reception.grant(&Grant { lane: LaneIndex::new(0), start, end, request: 0 }, at(0));
}

#[test]
fn bytes_are_taken_fragment_by_fragment() {
    let (mut reception, mut slots) = reception();
    announce(&mut reception, &mut slots, 1, 3);
    announce(&mut reception, &mut slots, 1, 2);
    announce(&mut reception, &mut slots, 2, 4);
    let lane = [on_the_lane(1, b"one"), on_the_lane(1, b"tw"), on_the_lane(2, b"four")].concat();
    let mut taken = Vec::new();
    let mut rest = &lane[..lane.len() - 1];
    while !rest.is_empty() {
        let (count, progress) = reception.take(rest, &mut slots).unwrap();
        reception.invariants();
        taken.push((count, progress));
        rest = &rest[count..];
    }
    let slot = slots.find(crate::id::EventId::new(1)).unwrap();
    let expected = [
        (19, LaneEffect::Whole { slot, is_intact: true }),
        (18, LaneEffect::Discarded),
        (19, LaneEffect::Partial),
    ];
    assert_eq!(taken, expected);
    let counters = reception.counters();
    assert_eq!((counters.fragments, counters.payload_bytes, counters.duplicate), (1, 3, 1));
    assert!(matches!(reception.take(b"??", &mut slots), Ok((1, LaneEffect::Whole { is_intact: false, .. }))));
    assert_eq!(reception.counters().crc_errors, 1);
    assert!(matches!(reception.take(b"?", &mut slots), Err(LaneError::NotGranted { .. })));
}

#[test]
fn a_large_fragment_is_read_into_its_own_memory() {
    let ((mut reception, mut slots), payload) = (reception(), vec![9; LARGE_FRAGMENT]);
    announce(&mut reception, &mut slots, 1, payload.len());
    let lane = on_the_lane(1, &payload);
    assert!(reception.spare_memory(&mut slots).is_none(), "the fragment's header comes first");
    assert!(matches!(reception.take(&lane[..HEADER], &mut slots), Ok((HEADER, LaneEffect::Partial))));
    let (memory, room) = reception.spare_memory(&mut slots).unwrap();
    assert_eq!(room, payload.len());
    memory.extend_from_slice(&payload);
    assert!(matches!(
        reception.fill(payload.len(), &mut slots),
        Some(LaneEffect::Whole { is_intact: true, .. })
    ));
    assert!(reception.fill(1, &mut slots).is_none());
}

#[test]
fn grants_and_commits_are_said_once() {
    let (mut reception, mut slots) = reception();
    let said = |reception: &mut Reception| {
        let (mut ranges, mut into, mut said) = (Vec::new(), BytesMut::new(), Vec::new());
        reception.write_records(&mut ranges, &mut into);
        let mut records = &into[..];
        while let Some((record, _)) = next_record(&mut records).unwrap() {
            said.push(record);
        }
        said
    };
    assert!(matches!(said(&mut reception)[..], [RecordHeader::Commit { offset: 0, .. }]));
    announce(&mut reception, &mut slots, 1, 3);
    assert_eq!(said(&mut reception), [RecordHeader::Grant { end: 19 }]);
    reception.take(&on_the_lane(1, b"one"), &mut slots).unwrap();
    assert_eq!(said(&mut reception), []);
    reception.settle(0);
    assert!(matches!(said(&mut reception)[..], [RecordHeader::Commit { offset: 19, .. }]));
    assert_eq!(said(&mut reception), []);
}

#[test]
fn a_lane_is_broken_until_it_is_back_or_all_is_here() {
    let ((mut reception, mut slots), patience) = (reception(), Duration::from_millis(5));
    announce(&mut reception, &mut slots, 1, 3);
    reception.disconnect(at(1));
    assert!(!reception.is_broken(patience, at(5)) && reception.is_broken(patience, at(6)));
    reception.connect();
    assert!(!reception.is_broken(patience, at(6)));
    reception.disconnect(at(7));
    assert!(reception.is_broken(patience, at(7)), "no byte arrived in the meantime");
    reception.connect();
    assert_eq!(reception.note_received(), 0);
    reception.disconnect(at(8));
    assert!(!reception.is_broken(patience, at(12)));
}

#[test]
fn another_process_begins_at_0_and_is_counted_on() {
    let (mut reception, mut slots) = reception();
    announce(&mut reception, &mut slots, 1, 3);
    reception.take(&on_the_lane(1, b"one"), &mut slots).unwrap();
    reception.restart(Incarnation::new(2));
    assert_eq!(reception.incarnation(), Incarnation::new(2));
    let LaneState { received, announced, committed } = reception.connect();
    assert_eq!((received, announced, committed), (0, 0, 0));
    assert_eq!((reception.counters().fragments, reception.counters().source), (1, 1));
}
