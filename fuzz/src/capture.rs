//! Fuzz target for captures of packets: pcap and pcapng files, and the packets in them.

use evb::input::fuzzing::capture;
use evb_core::{fragment::Checksum, units::Bytes};

use crate::stream_frames::{LAYOUT, layout};

const MAX_FRAGMENT: Bytes = Bytes::new(1000);

/// Decodes a file of the bytes; the first bytes choose the layout.
///
/// # Panics
/// Panics if a fragment is too large, if the fragments have more bytes than the file, or if the
/// counts are wrong.
pub fn check(data: &[u8]) {
    let Some((chosen, file)) = data.split_first_chunk::<LAYOUT>() else { return };
    let Ok((fragments, counts)) = capture(file, &layout(chosen), MAX_FRAGMENT) else { return };
    for fragment in &fragments {
        assert!(fragment.size() <= MAX_FRAGMENT);
        assert_eq!(fragment.checksum, Checksum::of(&fragment.payload));
    }
    let bytes: usize = fragments.iter().map(|fragment| fragment.payload.len()).sum();
    assert!(bytes <= file.len());
    assert_eq!(counts.frames, fragments.len() as u64);
    assert!(counts.used + counts.others <= counts.packets);
}

/// Returns the seed corpus: both formats, with datagrams, connections and fragments of IP.
pub fn seeds() -> Vec<Vec<u8>> {
    let usual = [3, 0xeb, 4 << 2, 0x10, 0x21, 0, 0, 16];
    let frame =
        |counter: u8, payload: &[u8]| [&[0xeb, payload.len() as u8, 0, counter][..], payload].concat();
    let stream = [frame(1, b"one"), frame(2, &[2; 40]), frame(3, b"")].concat();
    let packets = vec![
        ethernet(&ipv4(17, 0, 0, &udp(&stream))),
        ethernet(&ipv4(17, 7, 0x2000, &udp(&stream)[..16])),
        ethernet(&ipv4(17, 7, 2, &udp(&stream)[16..])),
        ethernet(&ipv4(6, 0, 0, &tcp(9, 2, b""))),
        ethernet(&ipv4(6, 0, 0, &tcp(30, 0x10, &stream[20..]))),
        ethernet(&ipv4(6, 0, 0, &tcp(10, 0x10, &stream[..20]))),
        ethernet(&ipv4(6, 0, 0, &tcp(10 + stream.len() as u32, 1, b""))),
        [&[0; 12][..], &[0x81, 0, 0, 7, 0x86, 0xdd], &ipv6(17, &udp(&stream))].concat(),
    ];
    let with = |file: Vec<u8>| [&usual[..], &file].concat();
    vec![with(pcap(&packets)), with(pcapng(&packets))]
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 0xffff, 1]);
    for packet in packets {
        let length = packet.len() as u32;
        file.extend(words(&[1, 0, length, length]));
        file.extend(packet);
    }
    file
}

fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28, 1, 20, 1, 0, 20]);
    for packet in packets {
        let (length, padded) = (packet.len() as u32, packet.len().next_multiple_of(4));
        let block = 32 + padded as u32;
        file.extend(words(&[6, block, 0, 0, 1, length, length]));
        file.extend(packet);
        file.resize(file.len() + padded - packet.len(), 0);
        file.extend(words(&[block]));
    }
    file
}

fn ethernet(ip: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[8, 0], ip].concat()
}

fn ipv4(number: u8, id: u16, offset: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let head = [&[0x45, 0][..], &length.to_be_bytes(), &id.to_be_bytes(), &offset.to_be_bytes()].concat();
    [&head[..], &[64, number, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2], payload].concat()
}

fn ipv6(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[number, 64], &[1; 32], payload].concat()
}

fn udp(payload: &[u8]) -> Vec<u8> {
    [&[0, 24, 0, 25][..], &(8 + payload.len() as u16).to_be_bytes(), &[0, 0], payload].concat()
}

fn tcp(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 24, 0, 25][..], &sequence.to_be_bytes(), &[0; 4], &[0x50, flags, 1, 0, 0, 0, 0, 0], payload]
        .concat()
}
