use proptest::prelude::*;

use super::*;

fn header() -> DatagramHeader {
    DatagramHeader {
        kind: DatagramKind::Data,
        request: 7,
        association: Association {
            epoch: Epoch::new(0x0102_0304_0506_0708),
            source: SourceId::new(3),
            builder: BuilderId::new(1),
            connection: 0xdead_beef,
        },
        sequence: 41,
        heard: 12,
        offset: 100,
    }
}

fn datagram(header: &DatagramHeader, body: &[u8]) -> Vec<u8> {
    [&header.seal([body])[..], body].concat()
}

#[test]
fn what_is_sealed_opens() {
    for kind in [DatagramKind::Data, DatagramKind::Records, DatagramKind::Probe, DatagramKind::ProbeReply] {
        let header = DatagramHeader { kind, ..header() };
        let bytes = datagram(&header, b"123456789");
        assert_eq!(DatagramHeader::open(&bytes), Ok((header, &b"123456789"[..])));
    }
}

#[test]
fn beside_a_tag_there_is_no_checksum_and_none_is_looked_at() {
    let bare = [&header().encode()[..], b"123456789"].concat();
    assert_eq!(bare[CHECKSUM], [0; 4]);
    assert_eq!(DatagramHeader::open(&bare), Err(DatagramError::Checksum));
    let mut sealed = datagram(&header(), b"123456789");
    for bytes in [&bare, &sealed] {
        assert_eq!(DatagramHeader::decode(bytes), Ok((header(), &b"123456789"[..])));
    }
    DatagramHeader::blank_checksum(&mut sealed);
    assert_eq!(sealed, bare);
    let mut short = [1; 5];
    DatagramHeader::blank_checksum(&mut short);
    assert_eq!((short, DatagramHeader::decode(&short)), ([1; 5], Err(DatagramError::Foreign { length: 5 })));
}

#[test]
fn the_checksum_is_the_one_of_iscsi() {
    // This is the standard check value of CRC-32C.
    let digest = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, b"123456789");
    assert_eq!(digest, 0xe306_9283);
}

#[test]
fn pieces_of_a_body_are_one_body() {
    let whole = header().seal([&b"123456789"[..]]);
    assert_eq!(header().seal([&b"1234"[..], b"", b"56789"]), whole);
}

#[test]
fn any_single_flipped_bit_is_seen() {
    let good = datagram(&header(), b"0123456789abcdef");
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(DatagramHeader::open(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn sequences_wrap_around() {
    assert!(is_after(1, 0) && is_after(0, u32::MAX) && is_after(5, u32::MAX - 5));
    assert!(!is_after(0, 0) && !is_after(u32::MAX, 0));
}

proptest! {
    #[test]
    fn foreign_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(DatagramHeader::open(&bytes).is_err());
    }
}
