use bytes::BytesMut;

use super::StreamReader;
use crate::{
    fragment::{Fragment, Timestamp},
    id::EventId,
    index::LaneIndex,
    lane::StreamFault,
    source::{
        SourceCore,
        tests::{FOUR, at, decisions, source},
    },
    wire::record::{RecordError, RecordHeader, encode_commit},
};

const LANE: LaneIndex = LaneIndex::new(0);

/// Bytes of a fragment on the lane.
const FRAGMENT: u64 = 16 + 84;

/// Returns a source that has announced ten fragments, and has sent five of them.
fn sending() -> SourceCore {
    let mut core = source(false);
    core.handle_lane_connected(LANE, 0, 0).unwrap();
    core.handle_decisions(&decisions(1, &[FOUR; 10])).unwrap();
    for event in (1..=10).map(EventId::new) {
        core.push(Fragment::new(event, Timestamp::default(), vec![7; 84]), at(0)).unwrap();
    }
    for turn in 0..100 {
        core.announce(LANE, at(turn * 100), &mut BytesMut::new());
    }
    core.handle_grant(LANE, 5 * FRAGMENT).unwrap();
    while core.take(LANE, u64::MAX).is_some() {}
    core
}

#[test]
fn records_may_arrive_in_pieces_of_any_length() {
    let mut sent = BytesMut::new();
    sent.extend_from_slice(&RecordHeader::Grant { end: 7 * FRAGMENT }.encode());
    encode_commit(FRAGMENT, &[2 * FRAGMENT..3 * FRAGMENT, 4 * FRAGMENT..5 * FRAGMENT], &mut sent);
    encode_commit(2 * FRAGMENT, &[], &mut sent);
    sent.extend_from_slice(&RecordHeader::Grant { end: 9 * FRAGMENT }.encode());
    for length in 1..=sent.len() {
        let (mut core, mut reader, mut granted) = (sending(), StreamReader::default(), vec![]);
        for piece in sent.chunks(length) {
            reader.read_target().extend_from_slice(piece);
            reader.filled(&mut core, LANE).unwrap();
            granted.push(core.granted(LANE) / FRAGMENT);
        }
        assert!(granted.is_sorted() && granted.iter().all(|end| [5, 7, 9].contains(end)), "{granted:?}");
        let held: Vec<u64> = core.held_events(LANE).map(EventId::number).collect();
        assert_eq!(granted.last(), Some(&9), "pieces of {length} bytes");
        assert_eq!(held, [4, 6, 7, 8, 9, 10], "pieces of {length} bytes");
        assert!(reader.buffer.is_empty());
    }
}

#[test]
fn bytes_that_are_not_for_a_source_end_the_lane() {
    let read = |bytes: &[u8]| {
        let mut reader = StreamReader::default();
        reader.read_target().extend_from_slice(bytes);
        reader.filled(&mut sending(), LANE)
    };
    let data = RecordHeader::Data { length: 1, offset: 0 };
    assert_eq!(read(&data.encode()), Err(StreamFault::WrongDirection(data)));
    assert_eq!(read(&[99; 16]), Err(StreamFault::Record(RecordError::Flags(99))));
    let grant = RecordHeader::Grant { end: 10 * FRAGMENT + 1 };
    assert!(matches!(read(&grant.encode()), Err(StreamFault::Lane(_))), "more than was announced");
}
