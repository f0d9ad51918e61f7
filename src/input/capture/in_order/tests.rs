use proptest::prelude::*;

use super::*;

/// Takes segments, each an offset and bytes, and returns the bytes in order, with `-` for each
/// missing byte.
fn ordered(first: u32, segments: &[(u32, &[u8])], end: Option<u32>) -> (String, u64) {
    let mut order = InOrder::new(first);
    let mut text = Vec::new();
    let mut add = |piece: Option<Piece>| {
        match piece {
            Some(Piece::Bytes(bytes)) => text.extend(bytes),
            Some(Piece::Missing(count)) => text.extend(vec![b'-'; count as usize]),
            None => return false,
        }
        true
    };
    for (offset, bytes) in segments {
        let place = order.place(first.wrapping_add(*offset)).unwrap();
        let next = Payload::copy_from_slice(order.take(place, bytes, false));
        add(Some(Piece::Bytes(next)));
        while add(order.held(false)) {}
    }
    if let Some(end) = end {
        order.end_at(order.place(first.wrapping_add(end)).unwrap());
    }
    while add(order.held(true)) {}
    assert_eq!(order.held_memory(), 0);
    (String::from_utf8(text).unwrap(), order.repeated)
}

#[test]
fn segments_come_in_order_once() {
    for first in [0, 1, 1000, u32::MAX, u32::MAX - 2, u32::MAX / 2] {
        let one = |segments: &[(u32, &[u8])]| ordered(first, segments, None);
        assert_eq!(one(&[(0, b"ab"), (2, b"cd")]), ("abcd".into(), 0));
        assert_eq!(one(&[(2, b"cd"), (0, b"ab")]), ("abcd".into(), 0));
        assert_eq!(one(&[(4, b"ef"), (2, b"cd"), (0, b"ab")]), ("abcdef".into(), 0));
        // Sent again, in part and as a whole.
        assert_eq!(one(&[(0, b"ab"), (0, b"ab"), (1, b"bcd"), (2, b"c")]), ("abcd".into(), 4));
        assert_eq!(one(&[(2, b"c"), (2, b"cde"), (2, b"cd"), (0, b"abcdef")]), ("abcdef".into(), 6));
        // Never sent.
        assert_eq!(one(&[(0, b"ab"), (4, b"ef"), (6, b"gh")]), ("ab--efgh".into(), 0));
        assert_eq!(ordered(first, &[(0, b"ab"), (3, b"d")], Some(6)), ("ab-d--".into(), 0));
        assert_eq!(ordered(first, &[(0, b"ab")], Some(2)), ("ab".into(), 0));
    }
}

#[test]
fn a_far_segment_is_of_another_connection() {
    let order = InOrder::new(5);
    assert!(order.place(5).is_some_and(|place| order.begins_at(place)));
    for near in [6, 5 + (1 << 30), 0, 0_u32.wrapping_sub(1 << 19)] {
        assert!(order.place(near).is_some(), "{near}");
    }
    for far in [6 + (1 << 30), 1 << 31, 0_u32.wrapping_sub(1 << 21)] {
        assert!(order.place(far).is_none(), "{far}");
    }
}

#[test]
fn what_is_held_is_measured() {
    let mut order = InOrder::new(0);
    let place = order.place(100).unwrap();
    order.take(place, b"abc", false);
    assert_eq!(order.held_memory(), BESIDE + 3);
    order.take(place, b"abcdef", false);
    assert_eq!(order.held_memory(), BESIDE + 6);
    order.take(place, b"ab", false);
    assert_eq!((order.held_memory(), order.held(false)), (BESIDE + 6, None));
    // Bytes that come while earlier ones cannot be used yet are held, too.
    assert!(order.take(order.place(0).unwrap(), b"now", true).is_empty());
    assert_eq!(order.held(false), Some(Piece::Bytes("now".into())));
    assert_eq!(order.held(true), Some(Piece::Missing(97)));
    assert_eq!(order.held(true), Some(Piece::Bytes("abcdef".into())));
    assert_eq!((order.held(true), order.held_memory()), (None, 0));
    order.end_at(order.place(106).unwrap());
    assert!(order.is_at_end());
    assert!(
        order.is_behind_end(order.place(107).unwrap()) && !order.is_behind_end(order.place(106).unwrap())
    );
}

proptest! {
    #[test]
    fn any_pieces_in_any_order_are_the_stream(
        first: u32, pieces in prop::collection::vec((0_usize..200, 1_usize..60), 0..60),
    ) {
        let stream: Vec<u8> = (0..260_usize).map(|at| b'a' + (at % 26) as u8).collect();
        let segments: Vec<(u32, &[u8])> =
            pieces.iter().map(|(at, length)| (*at as u32, &stream[*at..at + length])).collect();
        let (text, _) = ordered(first, &segments, None);
        prop_assert!(text.len() <= stream.len());
        for (at, byte) in text.bytes().enumerate() {
            let was_sent = pieces.iter().any(|(from, length)| (*from..from + length).contains(&at));
            prop_assert_eq!(byte, if was_sent { stream[at] } else { b'-' });
        }
        let sent = pieces.iter().map(|(at, length)| at + length).max().unwrap_or(0);
        prop_assert_eq!(text.len(), sent);
    }
}
