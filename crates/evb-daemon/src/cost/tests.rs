use evb_core::units::Bytes;

use super::{CELL, buffer_bytes, full_payload, line_bytes};

const MTU: Bytes = Bytes::new(1500);

#[test]
fn a_full_packet_costs_its_frame() {
    assert_eq!(full_payload(MTU), Bytes::new(1448));
    assert_eq!(buffer_bytes(Bytes::new(1448), MTU, CELL), Bytes::new(1514));
    assert_eq!(line_bytes(Bytes::new(1448), MTU), Bytes::new(1538));
}

#[test]
fn a_small_packet_costs_a_cell_and_the_shortest_frame() {
    assert_eq!(buffer_bytes(Bytes::new(1), MTU, CELL), Bytes::new(256));
    assert_eq!(line_bytes(Bytes::new(1), MTU), Bytes::new(67 + 24));
    assert_eq!(buffer_bytes(Bytes::ZERO, MTU, CELL), Bytes::ZERO);
}

#[test]
fn bursts_are_cut_into_packets() {
    assert_eq!(buffer_bytes(Bytes::new(1449), MTU, CELL), Bytes::new(1514 + 256));
    // 64 KiB: 45 full packets and 376 bytes.
    assert_eq!(buffer_bytes(Bytes::kib(64), MTU, CELL), Bytes::new(45 * 1514 + 376 + 66));
}

#[test]
fn an_absurd_burst_saturates() {
    assert_eq!(buffer_bytes(Bytes::MAX, MTU, CELL), Bytes::MAX);
    assert_eq!(line_bytes(Bytes::MAX, Bytes::ZERO), Bytes::MAX);
}
