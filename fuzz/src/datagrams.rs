//! Fuzz target for the UDP datagrams of lanes: header, checksum, and the records in a datagram.

use evb_core::{
    id::{BuilderId, Epoch, SourceId},
    wire::{
        datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind},
        record::{RecordHeader, encode_resend, next_record},
    },
};

/// Decodes the bytes as a datagram twice: unchanged, and with a corrected checksum. Encoding the
/// decoded header must give the same bytes.
///
/// # Panics
/// Panics if the encoded bytes differ from the decoded ones.
pub fn check(data: &[u8]) {
    open(data);
    let Some((_, body)) = data.split_at_checked(DATAGRAM_HEADER) else { return };
    let mended = header(data).seal([body]);
    let whole = [&mended[..], body].concat();
    assert!(DatagramHeader::open(&whole).is_ok());
    open(&whole);
}

fn open(bytes: &[u8]) {
    let (header, mut body) = match DatagramHeader::open(bytes) {
        Ok(opened) => opened,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(header.seal([body])[..], bytes[..DATAGRAM_HEADER]);
    while let Ok(Some((record, items))) = next_record(&mut body) {
        assert_eq!(items.len(), record.body());
    }
}

/// Decodes the header of a datagram without checking its checksum.
fn header(bytes: &[u8]) -> DatagramHeader {
    let number = |at: usize, length: usize| {
        bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let kinds = [DatagramKind::Data, DatagramKind::Records, DatagramKind::Probe, DatagramKind::ProbeReply];
    DatagramHeader {
        kind: kinds[usize::from(bytes[1] % 4)],
        request: number(2, 2) as u16,
        association: Association {
            epoch: Epoch::new(number(8, 8)),
            source: SourceId::new(number(16, 2) as u16),
            builder: BuilderId::new(number(18, 2) as u16),
            connection: number(20, 4) as u32,
        },
        sequence: number(24, 4) as u32,
        heard: number(28, 4) as u32,
        offset: number(32, 8),
    }
}

/// Returns the seed corpus: a datagram of lane data, one of records, and a probe.
pub fn seeds() -> Vec<Vec<u8>> {
    let blank = header(&[1; DATAGRAM_HEADER]);
    let mut records = bytes::BytesMut::new();
    records.extend_from_slice(&RecordHeader::Grant { end: 2000 }.encode());
    encode_resend(3, &[16..48, 100..116], &mut records);
    records.extend_from_slice(&RecordHeader::Announced { offset: 48 }.encode());
    records.extend_from_slice(&RecordHeader::Reannounce { offset: 48 }.encode());
    [(DatagramKind::Data, &[7; 100][..]), (DatagramKind::Records, &records), (DatagramKind::Probe, &[])]
        .map(|(kind, body)| [&DatagramHeader { kind, ..blank }.seal([body])[..], body].concat())
        .to_vec()
}
