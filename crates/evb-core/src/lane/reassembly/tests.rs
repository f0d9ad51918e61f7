use proptest::prelude::*;

use super::*;

/// Returns the lane's byte at that offset.
fn byte(offset: u64) -> u8 {
    (offset * 31 % 251) as u8
}

fn bytes(range: Range<u64>) -> Vec<u8> {
    range.map(byte).collect()
}

proptest! {
    #[test]
    fn pieces_in_any_order_come_out_in_order(
        pieces in prop::collection::vec((0u64..400, 1u64..60), 1..200),
        window in 64u64..300,
    ) {
        let mut kept = Reassembly::new(Bytes::new(window));
        let mut received = 0;
        for (start, length) in pieces {
            let piece = start..start + length;
            if piece.end <= received {
                continue;
            }
            let piece = piece.start.max(received)..piece.end;
            let fits = piece.end <= received + window;
            prop_assert_eq!(kept.insert(piece.start, &bytes(piece.clone()), received), fits);
            loop {
                let next = kept.next(received).to_vec();
                prop_assert_eq!(&next, &bytes(received..received + next.len() as u64));
                if next.is_empty() {
                    break;
                }
                received += next.len() as u64;
                kept.release(received);
            }
            prop_assert!(kept.here().iter().all(|range| range.start > received));
        }
    }
}

#[test]
fn the_number_of_pieces_is_bounded() {
    let mut kept = Reassembly::new(Bytes::kib(64));
    let taken = (0..5000).filter(|piece| kept.insert(1 + 2 * piece, &[0], 0)).count();
    assert_eq!(taken, MAX_PIECES);
}
