#![expect(clippy::single_range_in_vec_init, reason = "commits of one range are meant")]

use bytes::BytesMut;

use super::OutgoingLane;
use crate::{
    fragment::{Checksum, Fragment, Timestamp},
    id::EventId,
    lane::outgoing::Parked,
    wire::record::{Announcement, decode_fragment_header},
};

fn fragment(event: u64, length: usize) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::new(event), vec![event as u8; length])
}

/// A lane on which `count` fragments of 84 bytes (100 with their header) are promised, announced and granted.
fn promised(count: u64) -> OutgoingLane {
    let mut lane = OutgoingLane::default();
    for event in 1..=count {
        let Fragment { event, timestamp, .. } = fragment(event, 84);
        lane.promise(Announcement { event, timestamp, length: 84 });
    }
    lane.announce(&mut BytesMut::new());
    lane.handle_grant(100 * count).unwrap();
    lane
}

/// Hands out up to so many bytes, and makes what is in them.
fn send(lane: &mut OutgoingLane, limit: u64) -> Vec<u8> {
    let range = lane.take(limit).unwrap().range;
    while let Some((offset, event)) = lane.unmade(&range) {
        lane.fulfil(offset, Some(fragment(event.number(), 84)));
    }
    let mut slices = Vec::with_capacity(64);
    assert_eq!(lane.gather(range.clone(), &mut slices), range.end - range.start);
    slices.iter().flat_map(|slice| slice.to_vec()).collect()
}

fn unmake(lane: &mut OutgoingLane) -> Vec<u8> {
    let mut released = vec![];
    lane.unmake_sent(|payload| released.push(payload[0]));
    released
}

#[test]
fn a_promise_is_announced_and_kept_or_found_damaged() {
    let mut outgoing = OutgoingLane::default();
    let kept = fragment(1, 84);
    for event in 1..=3 {
        let Fragment { timestamp, .. } = kept;
        outgoing.promise(Announcement { event: EventId::new(event), timestamp, length: 84 });
    }
    assert_eq!((outgoing.ready(), outgoing.held_bytes().count(), outgoing.held_fragments()), (300, 252, 3));
    assert_eq!(outgoing.announce(&mut BytesMut::new()), 3);
    outgoing.handle_reconnect(0, 300).expect("a promise can still be kept after a reconnect");
    outgoing.handle_grant(300).unwrap();
    let range = outgoing.take(300).unwrap().range;
    assert_eq!(outgoing.unmade(&(0..100)), Some((0, EventId::new(1))));
    assert!(outgoing.fulfil(0, Some(kept.clone())));
    assert_eq!(outgoing.unmade(&(0..100)), None);
    assert_eq!(outgoing.unmade(&range), Some((100, EventId::new(2))));
    assert!(!outgoing.fulfil(100, None));
    assert!(!outgoing.fulfil(200, Some(fragment(3, 83))));
    assert_eq!(outgoing.unmade(&range), None);
    let mut slices = Vec::with_capacity(16);
    assert_eq!(outgoing.gather(range, &mut slices), 300);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    for (lane, is_right) in bytes.chunks(100).zip([true, false, false]) {
        let (_, checksum) = decode_fragment_header(lane.first_chunk().unwrap());
        assert_eq!(Checksum::of(&lane[16..]) == checksum, is_right);
    }
    assert_eq!(&bytes[16..100], &kept.payload[..]);
}

#[test]
fn what_left_whole_is_made_again_only_if_it_must_leave_again() {
    let mut lane = promised(4);
    let first = send(&mut lane, 250);
    assert_eq!(unmake(&mut lane), [1, 2], "half of the third is still to leave");
    let third = [&first[200..], &send(&mut lane, 50)].concat();
    assert_eq!((unmake(&mut lane), unmake(&mut lane)), (vec![3], vec![]), "each once");
    assert_eq!((lane.held_fragments(), lane.held_bytes().count()), (4, 336), "it answers for all of them");
    lane.handle_commit(100, &[], |_, _| panic!("its payload is not here")).unwrap();
    lane.handle_reconnect(150, 400).unwrap();
    lane.handle_grant(300).unwrap();
    assert_eq!(lane.unmade(&(150..300)), Some((100, EventId::new(2))));
    let again = send(&mut lane, 150);
    assert_eq!((&again[..50], &again[50..]), (&first[150..200], &third[..]));
    assert_eq!(unmake(&mut lane), [2, 3]);
}

/// The connection broke before it was seen that all had left.
#[test]
fn what_was_not_let_go_is_let_go_over_the_next_connection() {
    let mut lane = promised(2);
    send(&mut lane, 200);
    lane.handle_reconnect(200, 200).unwrap();
    assert_eq!(unmake(&mut lane), [1, 2]);
}

#[test]
fn what_was_let_go_is_committed_once_and_moves_to_another_builder_as_a_promise() {
    let mut lane = promised(3);
    lane.append(fragment(4, 84));
    send(&mut lane, 300);
    assert_eq!(unmake(&mut lane), [1, 2, 3]);
    for _ in 0..2 {
        lane.handle_commit(0, &[100..200], |_, _| panic!("its payload is not here")).unwrap();
        assert_eq!((lane.held_fragments(), lane.held_bytes().count()), (3, 252));
    }
    assert_eq!(lane.unmade(&(0..300)), Some((0, EventId::new(1))));
    assert!(lane.handle_reconnect(150, 300).is_err(), "the second is committed: nobody asks for it again");
    let events: Vec<_> = lane.held_events().map(EventId::number).collect();
    assert_eq!(events, [1, 3, 4]);
    let parked: Vec<_> = lane.into_uncommitted().collect();
    assert!(
        matches!(&parked[..], [Parked::Promise(_), Parked::Promise(_), Parked::Fragment(_)]),
        "{parked:?}"
    );
}

#[test]
fn what_was_pushed_is_kept_until_it_is_committed() {
    let mut lane = OutgoingLane::default();
    (1..=2).for_each(|event| lane.append(fragment(event, 84)));
    lane.announce(&mut BytesMut::new());
    lane.handle_grant(200).unwrap();
    send(&mut lane, 200);
    assert!(unmake(&mut lane).is_empty());
    let mut released = 0;
    lane.handle_commit(200, &[], |_, _| released += 1).unwrap();
    assert_eq!(released, 2);
}
