use std::time::Duration;

use super::*;
use crate::input::capture::tests::build::{TCP, UDP, *};

fn record(link: i32, bytes: &[u8]) -> Record<'_> {
    Record { time: Duration::ZERO, link: Linktype(link), bytes, is_cut: false }
}

/// Returns the flow and the payload of a datagram.
fn read(packets: &mut Packets, record: Record<'_>) -> Option<(String, Vec<u8>)> {
    let (flow, content) = packets.read(record)?;
    let payload = match content {
        Content::Datagram(payload) => payload.to_vec(),
        Content::Segment(segment) => [b"segment ", segment.payload].concat(),
        Content::Unusable => b"unusable".to_vec(),
    };
    Some((flow.to_string(), payload))
}

fn one(link: i32, bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    read(&mut Packets::new(FlowFilter::default()), record(link, bytes))
}

#[test]
fn all_links_carry_the_same_packets() {
    let four = ipv4(UDP, &udp(b"data"));
    let six = ipv6(UDP, &udp(b"data"));
    let below = |link: i32, ip: &[u8]| match link {
        1 => ethernet(ip),
        113 => sll(ip),
        276 => sll2(ip),
        0 | 108 => [&[0, 0, 0, 2], ip].concat(),
        _ => ip.to_vec(),
    };
    let (by_four, by_six) = (
        "UDP from 10.0.0.1:24 to 10.0.0.2:5000",
        "UDP from [101:101:101:101:101:101:101:101]:24 to [202:202:202:202:202:202:202:202]:5000",
    );
    for link in [1, 113, 276, 0, 108, 101, 12, 14, 228] {
        assert_eq!(one(link, &below(link, &four)), Some((by_four.into(), b"data".to_vec())), "{link}");
    }
    for link in [1, 0, 108, 101, 229] {
        assert_eq!(one(link, &below(link, &six)), Some((by_six.into(), b"data".to_vec())), "{link}");
    }
    assert_eq!(one(1, &vlan(&four)), Some((by_four.into(), b"data".to_vec())));
    let mut packets = Packets::new(FlowFilter::default());
    assert_eq!(read(&mut packets, record(147, &four)), None);
    assert_eq!(packets.unknown_link, Some(147));
}

#[test]
fn segments_have_their_flags() {
    let frame = ethernet(&ipv4(TCP, &tcp(7, SYN | FIN, b"data")));
    let mut packets = Packets::new(FlowFilter::default());
    let (flow, content) = packets.read(record(1, &frame)).unwrap();
    let Content::Segment(segment) = content else { panic!("{content:?}") };
    assert!(flow.is_tcp);
    assert_eq!(segment, Segment { sequence: 7, begins: true, ends: true, resets: false, payload: b"data" });
    let reset = ipv4(TCP, &tcp(7, RST, b""));
    let (_, content) = packets.read(record(101, &reset)).unwrap();
    assert!(matches!(content, Content::Segment(Segment { resets: true, begins: false, .. })));
}

#[test]
fn a_packet_that_is_not_whole_is_unusable() {
    let whole = ipv4(UDP, &udp(b"data"));
    for length in 24..whole.len() {
        assert_eq!(one(101, &whole[..length]).map(|found| found.1), Some(b"unusable".to_vec()), "{length}");
    }
    for length in 0..24 {
        assert_eq!(one(101, &whole[..length]), None, "{length}");
    }
    // The length of the datagram is more than the packet has.
    let mut wrong = whole.clone();
    wrong[20 + 5] += 1;
    assert_eq!(one(101, &wrong).map(|found| found.1), Some(b"unusable".to_vec()));
    // The packet of a segment that the network card splits has no length.
    let mut large = ipv4(TCP, &tcp(1, 0, b"data"));
    large[2..4].fill(0);
    assert_eq!(one(101, &large).map(|found| found.1), Some(b"segment data".to_vec()));
    let mut packets = Packets::new(FlowFilter::default());
    let cut = Record { is_cut: true, ..record(101, &large) };
    assert_eq!(read(&mut packets, cut).map(|found| found.1), Some(b"unusable".to_vec()));
    large[3] = 10;
    assert_eq!(one(101, &large), None, "a length that cannot be");
    // Only padding was cut.
    let cut = Record { is_cut: true, ..record(101, &whole) };
    assert_eq!(read(&mut packets, cut).map(|found| found.1), Some(b"data".to_vec()));
}

#[test]
fn fragments_are_joined_in_any_order() {
    let payload: Vec<u8> = (0..=99).collect();
    for parts in [ipv4_fragments(7, &udp(&payload), 32), ipv6_fragments(7, &udp(&payload), 32)] {
        assert_eq!(parts.len(), 4);
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
            let mut packets = Packets::new(FlowFilter::default());
            for repeats in [1, 2] {
                let mut found = Vec::new();
                for part in order {
                    for _ in 0..repeats {
                        found.extend(read(&mut packets, record(101, &parts[part])));
                    }
                }
                let expected = if repeats == 1 { vec![payload.clone()] } else { vec![] };
                assert_eq!(found.into_iter().map(|one| one.1).collect::<Vec<_>>(), expected);
            }
            packets.reassembly.finish();
            assert_eq!((packets.reassembly.unfinished, packets.parts), (0, 3 + 8));
        }
    }
    // Fragments of other hosts are left alone.
    let filter = FlowFilter { from: "10.0.0.9".parse().unwrap(), ..FlowFilter::default() };
    let mut packets = Packets::new(filter);
    for part in ipv4_fragments(7, &udp(&payload), 32) {
        assert_eq!(read(&mut packets, record(101, &part)), None);
    }
    packets.reassembly.finish();
    assert_eq!((packets.reassembly.unfinished, packets.parts), (0, 0));
}

#[test]
fn headers_of_ipv6_and_tags_are_passed_over() {
    let datagram = udp(b"data");
    let options = |next: u8, count: u8| [&[next, count][..], &vec![0; usize::from(count) * 8 + 6]].concat();
    let authentication = [&[UDP, 4, 0, 0][..], &[0; 20]].concat();
    let whole = [&options(60, 0)[..], &options(43, 2), &options(51, 1), &authentication, &datagram].concat();
    let packet = ipv6(0, &whole);
    assert_eq!(one(101, &packet).map(|found| found.1), Some(b"data".to_vec()));
    for length in 0..packet.len() {
        let found = one(101, &packet[..length]).map(|found| found.1);
        assert!(found.is_none_or(|payload| payload == b"unusable"), "{length}");
    }
    // A fragment that is the whole datagram.
    let alone = ipv6(44, &[&[UDP, 0, 0, 0, 0, 0, 0, 9][..], &datagram].concat());
    assert_eq!(one(101, &alone).map(|found| found.1), Some(b"data".to_vec()));
    // Headers without end, and tags without end.
    assert_eq!(one(101, &ipv6(0, &[0; 400])), None);
    assert_eq!(one(1, &[&[0; 12][..], &[0x81, 0, 0, 7].repeat(50)].concat()), None);
}
