use evb_core::units::Bytes;
use proptest::prelude::*;

use super::{ByteMeasure, CELL, PacketCost};

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

#[test]
fn what_a_write_is_on_the_wire() {
    let cost = PacketCost::tcp(1500, CELL);
    let wire = cost.wire(Bytes::new(1448));
    assert_eq!((wire.buffer, wire.line), (Bytes::new(1514), Bytes::new(1538)));
    let wire = cost.wire(Bytes::new(1449));
    assert_eq!((wire.buffer, wire.line), (Bytes::new(1514 + 67), Bytes::new(1538 + 91)));
    assert_eq!(wire.by(ByteMeasure::Line), wire.line);
    assert_eq!(cost.wire(Bytes::ZERO).line, Bytes::ZERO);
    assert_eq!(cost.wire(Bytes::MAX).line, Bytes::MAX);
    assert_eq!(cost.buffer(Bytes::MAX), Bytes::MAX);
    assert!((cost.line_factor() - 1538.0 / 1448.0).abs() < 1e-12);
}

#[test]
fn a_window_is_full_packets_within_its_share() {
    let cost = PacketCost::tcp(1500, CELL);
    assert_eq!(cost.window(Bytes::new(14_745)), Bytes::new(9 * 1448 - 16));
    assert!(cost.buffer(cost.window(Bytes::new(14_745))) <= Bytes::new(14_745));
    assert_eq!(cost.window(Bytes::ZERO), Bytes::new(1448 - 16));
}

proptest! {
    /// A train is as long as it may be, and its packets are full.
    #[test]
    fn trains_are_full_packets(bytes in 2000u64..400_000, mtu in 576u32..9001) {
        let cost = PacketCost::tcp(mtu, CELL);
        for measure in [ByteMeasure::Line, ByteMeasure::Buffer] {
            let stream = cost.train(Bytes::new(bytes), measure) + Bytes::new(16);
            prop_assert!(stream.count().is_multiple_of(cost.packet_payload().count()));
            let more = cost.wire(stream + cost.packet_payload()).by(measure);
            prop_assert!(more > Bytes::new(bytes));
            let is_one = stream == cost.packet_payload();
            prop_assert!(is_one || cost.wire(stream).by(measure) <= Bytes::new(bytes));
        }
    }

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
