use evb_core::framing::FrameLayout;

use super::*;
use crate::input::capture::{
    packets::Packets,
    records::Record,
    tests::{
        build::{FIN, RST, SYN},
        flows, frame, layout, plain_layout,
    },
};

const FLOW: fn(u16) -> Flow =
    |port| Flow { is_tcp: true, from: ([10, 0, 0, 1], port).into(), to: ([10, 0, 0, 2], 5000).into() };

/// Takes segments of one flow, each the sequence number, flags and bytes, and returns the payloads
/// of the frames.
struct Taken {
    flows: Flows,
    ready: Ready,
    segments: u64,
}

impl Taken {
    fn new(layout: FrameLayout) -> Self {
        Self { flows: flows(FlowFilter::default(), &layout), ready: Ready::new(), segments: 0 }
    }

    fn take(&mut self, port: u16, sequence: u32, flags: u8, payload: &[u8]) {
        let (begins, ends, resets) = (flags & SYN != 0, flags & FIN != 0, flags & RST != 0);
        let content = Content::Segment(Segment { sequence, begins, ends, resets, payload });
        self.segments += 1;
        self.flows.take(FLOW(port), content, Duration::from_micros(self.segments), &mut self.ready);
        while self.flows.advance(&mut self.ready) {}
    }

    /// Returns the frames that are new.
    fn counters(&mut self) -> Vec<u64> {
        self.ready.drain(..).map(|(_, fragment)| fragment.event.number()).collect()
    }

    fn finish(&mut self) -> (Vec<u64>, Lost) {
        self.flows.finish(Duration::ZERO, &mut self.ready);
        while self.flows.advance(&mut self.ready) {}
        (self.counters(), self.flows.lost)
    }
}

#[test]
fn each_connection_begins_afresh() {
    let mut taken = Taken::new(layout());
    taken.take(24, 99, SYN, b"");
    taken.take(24, 99, SYN, b"");
    taken.take(24, 100, 0, &frame(1, 10));
    taken.take(24, 118, 0, &frame(2, 10)[..9]);
    assert_eq!(taken.counters(), [1]);
    // The board comes back, and the half of a frame joins nothing.
    taken.take(24, 70_000, SYN, b"");
    taken.take(24, 70_001, 0, &frame(3, 10));
    taken.take(24, 70_019, FIN, b"");
    assert_eq!(taken.counters(), [3]);
    // Repeats behind the end are no new connection.
    taken.take(24, 70_001, 0, &frame(3, 10));
    taken.take(24, 70_019, FIN, b"");
    taken.take(24, 70_020, 0, b"");
    // A reset one, of which the capture lacks the begin of the next.
    taken.take(24, 900, SYN, b"");
    taken.take(24, 901, 0, &frame(4, 10));
    taken.take(24, 919, RST, b"");
    taken.take(24, 919, 0, &[b"middle of a frame", &frame(5, 10)[..]].concat());
    let (counters, lost) = taken.finish();
    assert_eq!(counters, [4, 5]);
    assert_eq!((lost.missing, lost.given_up, lost.repeated), (0, 0, 18));
    let losses = lost.losses;
    assert_eq!((losses.cut_short, losses.garbage_bytes), (1, 9 + 17));
}

#[test]
fn bytes_behind_a_gap_are_used_from_the_next_frame_on() {
    let stream: Vec<u8> = (1..=4).flat_map(|counter| frame(counter, 92)).collect();
    let mut taken = Taken::new(layout());
    taken.take(24, 0, SYN, b"");
    taken.take(24, 1, 0, &stream[..150]);
    taken.take(24, 161, 0, &stream[160..]);
    assert_eq!(taken.counters(), [1], "the gap may fill yet");
    let (counters, lost) = taken.finish();
    assert_eq!((counters, lost.missing), (vec![3, 4], 10));
    assert_eq!((lost.losses.cut_short, lost.losses.garbage_bytes), (1, 50 + 40));
    // A gap at the end of a frame shows as well.
    let mut taken = Taken::new(layout());
    taken.take(24, 0, SYN, b"");
    taken.take(24, 1, 0, &stream[..100]);
    taken.take(24, 201, 0, &stream[200..]);
    let (counters, lost) = taken.finish();
    assert_eq!((counters, lost.missing, lost.losses.is_none()), (vec![1, 3, 4], 100, true));
}

/// Without a magic, nothing tells where a frame begins behind a gap, so nothing is guessed.
#[test]
fn without_a_magic_a_gap_ends_the_connection() {
    let plain = |length: usize| [&(length as u16).to_be_bytes()[..], &vec![0; length]].concat();
    let mut taken = Taken::new(plain_layout());
    taken.take(24, 0, SYN, b"");
    taken.take(24, 1, 0, &[plain(8), plain(8)].concat());
    taken.take(24, 31, FIN, &plain(18));
    assert_eq!(taken.counters().len(), 2);
    taken.take(25, 500, 0, &plain(18));
    let (counters, lost) = taken.finish();
    assert_eq!((counters.len(), lost.missing, lost.given_up, lost.losses.garbage_bytes), (0, 10, 2, 40));
    // The next connection is whole again.
    taken.take(24, 900, SYN, b"");
    taken.take(24, 901, 0, &plain(8));
    assert_eq!(taken.counters().len(), 1);
}

#[test]
fn held_bytes_and_connections_have_a_limit() {
    let mut taken = Taken::new(layout());
    let large = frame(7, 60_000);
    taken.take(24, 0, SYN, b"");
    let mut sequence = 2;
    let segments = MAX_HELD / large.len() + 2;
    for _ in 0..segments {
        taken.take(24, sequence, 0, &large);
        sequence += large.len() as u32;
        let held: usize = taken.flows.connections.values().map(Connection::held_memory).sum();
        assert!(held <= MAX_HELD);
    }
    assert_eq!(taken.counters().len(), segments - 1, "a byte is missing, the last frame unconfirmed");
    assert_eq!(taken.flows.lost.missing, 1);
    for port in 1000..2000 {
        taken.take(port, 0, SYN, b"");
        taken.take(port, 1, 0, &frame(1, 10));
        assert!(taken.flows.connections.len() <= MAX_CONNECTIONS);
    }
    assert!(taken.flows.by_flow.len() <= MAX_FLOWS);
    let (counters, lost) = taken.finish();
    let all = 1000 + 1;
    let before = all - MAX_CONNECTIONS;
    assert!(counters.len() == all && before > 0, "frames of ended connections are used: {}", counters.len());
    assert!(lost.losses.is_none());
    assert_eq!((taken.flows.uncounted, taken.flows.used), (0, taken.segments));
    // Flows beyond the limit that are left alone are counted together.
    taken.flows.filter.from.port = Some(24);
    taken.take(2000, 0, SYN, b"");
    assert_eq!((taken.flows.uncounted, taken.flows.used), (1, taken.segments - 1));
}

#[test]
fn a_datagram_costs_no_other() {
    let mut taken = Taken::new(layout());
    let flow = Flow { is_tcp: false, ..FLOW(24) };
    let whole = [frame(1, 5), frame(2, 0)].concat();
    for bytes in [&whole[..], &frame(3, 9)[..12], b"garbage", &whole[..], b""] {
        taken.flows.take(flow, Content::Datagram(bytes), Duration::ZERO, &mut taken.ready);
    }
    assert_eq!(taken.counters(), [1, 2, 1, 2]);
    let losses = taken.flows.losses();
    assert_eq!((losses.cut_short, losses.bad_magics, losses.garbage_bytes), (1, 1, 12 + 7));
    taken.flows.take(flow, Content::Unusable, Duration::ZERO, &mut taken.ready);
    assert_eq!((taken.flows.unusable, taken.flows.used), (1, 6));
}

/// The frames of a connection that is over come before those of the next one.
#[test]
fn a_gap_of_an_old_connection_delays_the_next_one() {
    let mut taken = Taken::new(layout());
    taken.take(24, 0, SYN, b"");
    taken.take(24, 5, 0, &frame(1, 10));
    let segment = Segment { sequence: 1 << 31, payload: &frame(2, 10), ..Segment::default() };
    taken.flows.take(FLOW(24), Content::Segment(segment), Duration::ZERO, &mut taken.ready);
    assert!(taken.ready.is_empty());
    assert_eq!(taken.finish().0, [1, 2]);
}

#[test]
fn any_bytes_are_a_packet_or_none() {
    let mut packets = Packets::new(FlowFilter::default());
    for link in 0..300 {
        for length in 0..64 {
            for byte in [0, 1, 0x45, 0x60, 0x81, 0xff] {
                let bytes = vec![byte; length];
                let link = pcap_parser::Linktype(link);
                packets.read(Record { time: Duration::ZERO, link, bytes: &bytes, is_cut: false });
            }
        }
    }
}
