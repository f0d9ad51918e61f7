use evb_core::units::Bytes;
use proptest::prelude::*;

use super::{CELL, PacketCost};

#[test]
fn eight_kilobytes_are_six_packets() {
    let cost = PacketCost::tcp(1500, CELL);
    // 8192 + 16 = 5 × 1448 + 968: six frames.
    assert_eq!(cost.buffer(Bytes::new(8192)), Bytes::new(8208 + 6 * 66));
    assert_eq!(cost.line(Bytes::new(8192)), Bytes::new(8208 + 6 * 90));
    // A byte still takes a cell.
    assert_eq!(cost.buffer(Bytes::new(1)), CELL);
}

#[test]
fn a_chunk_is_full_packets_and_two_fit_what_a_lane_may_hold() {
    let cost = PacketCost::tcp(1500, CELL);
    assert_eq!(cost.chunk(Bytes::mib(1)), Bytes::new(11 * 1448 - 16));
    assert_eq!(cost.chunk(Bytes::new(117_964)), Bytes::new(9 * 1448 - 16));
    assert_eq!(cost.chunk(Bytes::ZERO), Bytes::new(1448 - 16));
    for budget in (30..1000).map(Bytes::kib) {
        assert!(cost.buffer(cost.chunk(budget)) * 2 <= budget / 4, "{budget}");
    }
}

proptest! {
    #[test]
    fn affordable_is_the_most_that_fits(buffer in 0u64..400_000, mtu in 576u32..9001) {
        let cost = PacketCost::tcp(mtu, CELL);
        let lane = cost.affordable(Bytes::new(buffer));
        if lane > Bytes::ZERO {
            prop_assert!(cost.buffer(lane) <= Bytes::new(buffer));
        }
        // One packet more would not fit.
        prop_assert!(cost.buffer(lane + cost.packet_payload()) > Bytes::new(buffer));
    }

    #[test]
    fn more_bytes_never_cost_less(lane in 0u64..100_000) {
        let cost = PacketCost::tcp(1500, CELL);
        prop_assert!(cost.buffer(Bytes::new(lane)) <= cost.buffer(Bytes::new(lane + 1)));
    }
}
