use evb_core::units::{Bytes, Rate};
use proptest::prelude::*;

use super::{ByteMeasure, CELL, PacketCost};

fn cost(mtu: u32, udp: bool) -> PacketCost {
    if udp { PacketCost::udp(mtu, CELL) } else { PacketCost::tcp(mtu, CELL) }
}

#[test]
fn eight_kilobytes_are_six_packets() {
    let cost = PacketCost::tcp(1500, CELL);
    // With the record header, 8192 + 16 = 5 × 1448 + 968 bytes take six frames.
    assert_eq!(cost.buffer(Bytes::new(8192)), Bytes::new(8208 + 6 * 66));
    assert_eq!(cost.line(Bytes::new(8192)), Bytes::new(8208 + 6 * 90));
    // A packet with one lane byte takes a whole buffer cell.
    assert_eq!(cost.buffer(Bytes::new(1)), CELL);
}

#[test]
fn a_chunk_is_full_packets_and_two_fit_what_a_lane_may_hold() {
    let cost = PacketCost::tcp(1500, CELL);
    assert_eq!(cost.chunk(Bytes::mib(1), None), Bytes::new(11 * 1448 - 16));
    assert_eq!(cost.chunk(Bytes::new(117_964), None), Bytes::new(9 * 1448 - 16));
    assert_eq!(cost.chunk(Bytes::ZERO, None), Bytes::new(1448 - 16));
    for budget in (30..1000).map(Bytes::kib) {
        assert!(cost.buffer(cost.chunk(budget, None)) * 2 <= budget / 4, "{budget}");
    }
}

/// Returns the number of packets in a chunk, for a port with a buffer of `kib` KiB and a rate of
/// `gbit` Gbit/s.
fn packets(cost: PacketCost, kib: u64, gbit: u64) -> u64 {
    let link = Rate::from_bits_per_second(gbit * 1_000_000_000);
    let chunk = cost.chunk(cost.budget(Bytes::kib(kib), Some(link), 8), Some(link));
    let packets = (chunk.count() + cost.record_header().count()) / cost.packet_payload().count();
    assert_eq!(chunk, cost.full_packets(packets), "whole packets");
    packets
}

#[test]
fn a_fast_link_has_larger_chunks_that_divide_the_budget() {
    let ordinary = |kib, gbit| packets(cost(1500, false), kib, gbit);
    assert_eq!([ordinary(128, 1), ordinary(512, 1)], [9, 11], "the same chunks as without a known rate");
    // In these four cases, the budget has room for two, seven, three and eight chunks.
    assert_eq!(
        [ordinary(128, 10), ordinary(512, 10), ordinary(256, 25), ordinary(2048, 100)],
        [32, 40, 44, 153]
    );
    assert_eq!(ordinary(128, 100), 32, "never more than half of the budget");
    assert_eq!(packets(cost(1500, true), 128, 10), 32, "chunks of datagrams are limited in the same way");
    assert_eq!(packets(cost(9000, false), 128, 10), 5, "half of a budget of ten packets");
}

proptest! {
    #[test]
    fn chunks_leave_little_of_the_budget_over(kib in 64u64..4096, gbit in 10u64..401, udp: bool) {
        let cost = cost(1500, udp);
        let chunk = cost.full_packets(packets(cost, kib, gbit));
        let budget = cost.budget(Bytes::kib(kib), Some(Rate::from_bits_per_second(gbit * 1_000_000_000)), 8);
        let charge = cost.buffer(chunk);
        let turns = budget.count() / charge.count();
        prop_assert!(turns >= 2);
        prop_assert!(charge * turns >= budget * 3 / 4, "{turns} of {charge} in {budget}");
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

#[test]
fn a_lane_over_udp_has_its_header_in_each_segment_and_none_in_front() {
    let cost = PacketCost::udp(1500, CELL);
    assert_eq!((cost.packet_payload(), cost.record_header()), (Bytes::new(1432), Bytes::ZERO));
    // A full packet of 1514 bytes has 14 (Ethernet), 20 (IPv4), 8 (UDP) and 40 (evb) bytes of
    // headers; on the line, check sequence, preamble and gap add 24.
    assert_eq!((cost.packet_buffer(), cost.packet_line()), (Bytes::new(1514), Bytes::new(1538)));
    assert_eq!(cost.full_packets(3), Bytes::new(3 * 1432));
    assert_eq!(cost.buffer(Bytes::new(1432)), Bytes::new(1514));
    assert_eq!(cost.buffer(Bytes::new(1433)), Bytes::new(1514) + CELL);
    assert_eq!(cost.line(Bytes::new(1433)), Bytes::new(1538 + 83 + 24));
    assert_eq!(PacketCost::udp(9000, CELL).packet_payload(), Bytes::new(8932));
    assert_eq!(PacketCost::udp(0, CELL).packet_payload(), Bytes::new(576 - 68));
    assert_eq!(cost.over_tcp(), PacketCost::tcp(1500, CELL));
}

#[test]
fn measures_have_words() {
    assert_eq!(ByteMeasure::ALL.map(ByteMeasure::word), ["line", "buffer"]);
    for measure in ByteMeasure::ALL {
        assert_eq!(ByteMeasure::from_word(measure.word()), Some(measure));
    }
    assert_eq!(ByteMeasure::from_word("wire"), None);
}

#[test]
fn rates_of_full_packets_by_other_measures() {
    use ByteMeasure::{Buffer, Line};
    let mbit = |rate: u64| Rate::from_bits_per_second(rate * 1_000_000);
    let (tcp, udp) = (PacketCost::tcp(1500, CELL), PacketCost::udp(1500, CELL));
    assert_eq!(tcp.rate_in(mbit(1538), Line, Buffer), mbit(1514));
    assert_eq!(tcp.rate_in(mbit(1514), Buffer, Line), mbit(1538));
    assert_eq!(tcp.rate_in(mbit(1514), Buffer, Buffer), mbit(1514));
    assert_eq!(PacketCost::tcp(9000, CELL).rate_in(mbit(9038), Line, Buffer), mbit(9014));
    assert_eq!(
        (tcp.payload_rate(mbit(1538), Line), tcp.payload_rate(mbit(1514), Buffer)),
        (mbit(1448), mbit(1448))
    );
    assert_eq!(udp.payload_rate(mbit(1538), Line), mbit(1432));
    assert_eq!(tcp.rate_in(Rate::from_bits_per_second(u64::MAX), Buffer, Line).bits_per_second(), u64::MAX);
}

#[test]
fn announcements_have_packets_of_their_own_over_udp_only() {
    let (announced, lane) = (Bytes::new(40), Bytes::new(1432 - 40));
    assert_eq!(PacketCost::tcp(1500, CELL).train_wire(announced, lane).buffer, Bytes::new(1448 + 66));
    let wire = PacketCost::udp(1500, CELL).train_wire(announced, lane);
    assert_eq!((wire.buffer, wire.line), (Bytes::new(1432 + 2 * 82), Bytes::new(1432 + 2 * 106)));
    let alone = PacketCost::udp(1500, CELL).train_wire(Bytes::ZERO, lane);
    assert_eq!(alone.line, Bytes::new(1392 + 106));
}

proptest! {
    /// Checks that the kernel accepts the longest train in one send, and would not accept one
    /// segment more.
    #[test]
    fn one_send_takes_the_longest_train(mtu in 576u32..65_536) {
        let cost = PacketCost::udp(mtu, CELL);
        let segment = cost.packet_payload().count();
        prop_assert!(cost.longest_train().count().is_multiple_of(segment));
        let segments = cost.longest_train().count() / segment;
        let takes = |segments: u64| segments <= 64 && segments * (segment + 40) <= 65_507;
        prop_assert!(takes(segments) && !takes(segments + 1));
    }

    /// Checks that a train consists of full packets, and that one packet more would exceed the
    /// limit.
    #[test]
    fn trains_are_full_packets(bytes in 2000u64..400_000, mtu in 576u32..9001, udp: bool) {
        let cost = cost(mtu, udp);
        for measure in [ByteMeasure::Line, ByteMeasure::Buffer] {
            let stream = cost.train(Bytes::new(bytes), measure) + cost.record_header();
            prop_assert!(stream.count().is_multiple_of(cost.packet_payload().count()));
            let more = cost.wire(stream + cost.packet_payload()).by(measure);
            prop_assert!(more > Bytes::new(bytes));
            let is_one = stream == cost.packet_payload();
            prop_assert!(is_one || cost.wire(stream).by(measure) <= Bytes::new(bytes));
        }
    }

    #[test]
    fn affordable_is_the_most_that_fits(buffer in 0u64..400_000, mtu in 576u32..9001, udp: bool) {
        let cost = cost(mtu, udp);
        let lane = cost.affordable(Bytes::new(buffer));
        if lane > Bytes::ZERO {
            prop_assert!(cost.buffer(lane) <= Bytes::new(buffer));
        }
        // With one packet more, the grant would cost more than `buffer`.
        prop_assert!(cost.buffer(lane + cost.packet_payload()) > Bytes::new(buffer));
    }

    #[test]
    fn announcing_large_fragments_is_what_the_margin_is_for(lane in 0u64..100_000, udp: bool) {
        let announcing = |fragment| cost(1500, udp).announcing(Bytes::new(lane), fragment);
        prop_assert_eq!([announcing(0), announcing(1152), announcing(64_016)], [Bytes::ZERO; 3]);
        // Three announcements of 24 bytes are charged for every 108 lane bytes, less a 16th of the
        // lane bytes.
        let (three, margin) = (lane * 72 / 108, lane / 16);
        prop_assert_eq!(announcing(108), Bytes::new(three - margin));
    }

    #[test]
    fn more_bytes_never_cost_less(lane in 0u64..100_000, udp: bool) {
        let cost = cost(1500, udp);
        prop_assert!(cost.buffer(Bytes::new(lane)) <= cost.buffer(Bytes::new(lane + 1)));
    }
}
