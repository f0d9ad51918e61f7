use proptest::prelude::*;

use super::*;

fn pattern(event: u64, source: u16, length: usize) -> Pattern {
    Pattern::of(EventId::new(event), SourceId::new(source), length)
}

fn written(event: u64, source: u16, length: usize) -> BytesMut {
    let mut payload = BytesMut::new();
    let checksum = pattern(event, source, length).write(length, &mut payload);
    assert_eq!(payload.len(), length);
    assert_eq!(checksum, Checksum::of(&payload));
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

proptest! {
    #[test]
    fn what_is_written_is_right(event: u64, source: u16, length in 0usize..200_000) {
        let payload = written(event, source, length);
        let pattern = pattern(event, source, length);
        prop_assert!(pattern.has_stamp(&payload));
        prop_assert_eq!(pattern.first_difference(&payload), None);
    }

    #[test]
    fn every_changed_byte_is_found(event: u64, source: u16, length in 1usize..100_000, at: proptest::sample::Index, change in 1u8..) {
        let mut payload = written(event, source, length);
        let at = at.index(length);
        payload[at] ^= change;
        let pattern = pattern(event, source, length);
        prop_assert_eq!(pattern.has_stamp(&payload), at >= STAMP);
        prop_assert_eq!(pattern.first_difference(&payload), (at >= STAMP).then_some(at));
    }
}
