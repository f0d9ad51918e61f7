use proptest::prelude::*;

use super::*;

fn stamp(event: u64, source: u16, place: PatternStart, length: usize) -> Stamp {
    Stamp::new(EventId::new(event), SourceId::new(source), place, length)
}

fn place(event: u64, source: u16, length: usize) -> PatternStart {
    PatternStart::of(EventId::new(event), SourceId::new(source), length)
}

fn written(event: u64, source: u16, length: usize) -> BytesMut {
    let mut payload = BytesMut::new();
    let place = place(event, source, length);
    place.write(length, &mut payload);
    stamp(event, source, place, length).write(&mut payload);
    assert_eq!(payload.len(), length);
    payload
}

#[test]
fn the_stamp_is_laid_out_as_documented() {
    let payload = written(0x0102_0304_0506_0708, 0x090A, 0x1122);
    assert_eq!(&payload[..10], &[8, 7, 6, 5, 4, 3, 2, 1, 0x0A, 9]);
    assert_eq!(&payload[12..20], b"\x22\x11\0\0evbG");
}

#[test]
fn neighbours_differ() {
    for (event, source) in [(1, 2), (2, 1), (2, 2)] {
        assert_ne!(written(1, 1, 4096)[STAMP..], written(event, source, 4096)[STAMP..]);
    }
    let long = written(1, 1, STAMP + 2 * PIECE);
    assert_ne!(long[STAMP..STAMP + PIECE], long[STAMP + PIECE..]);
}

#[test]
fn a_short_payload_begins_as_a_long_one_of_the_same_place() {
    assert_eq!(written(1, 1, 100_000)[STAMP..70_000], written(1, 1, 70_000)[STAMP..]);
}

proptest! {
    #[test]
    fn what_is_written_is_right(event: u64, source: u16, length in 0usize..200_000) {
        let payload = written(event, source, length);
        prop_assert!(stamp(event, source, PatternStart::stamped(&payload), length).is_on(&payload));
        prop_assert_eq!(PatternStart::stamped(&payload).first_difference(&payload), None);
    }

    #[test]
    fn every_changed_byte_is_found(event: u64, source: u16, length in 1usize..100_000, at: proptest::sample::Index, change in 1u8..) {
        let mut payload = written(event, source, length);
        let at = at.index(length);
        payload[at] ^= change;
        let place = place(event, source, length);
        prop_assert_eq!(stamp(event, source, place, length).is_on(&payload), at >= STAMP);
        prop_assert_eq!(place.first_difference(&payload), (at >= STAMP).then_some(at));
    }
}
