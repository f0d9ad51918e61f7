//! Fuzz target for lane records, fragment headers and connection preambles.

use bytes::BytesMut;
use evb_core::{
    fragment::{Checksum, Timestamp},
    id::EventId,
    wire::{
        preamble::{ConnectionKind, PREAMBLE_LENGTH, Spoken, check_preamble, preamble, protected_preamble},
        record::{
            ANNOUNCEMENT, Announcement, COMMIT_RANGE, MAX_ANNOUNCEMENTS, MAX_COMMIT_RANGES, MAX_DATA,
            RECORD_HEADER, RecordHeader, decode_fragment_header, decode_range, encode_commit,
            encode_fragment_header,
        },
    },
};

const KINDS: [ConnectionKind; 2] = [ConnectionKind::Control, ConnectionKind::Lane];
const SPOKEN: [Spoken; 2] = [Spoken::Clear, Spoken::Noise];

/// Decodes the bytes as lane records, as a fragment header and as a preamble. Encoding a decoded
/// value must give the same bytes.
///
/// # Panics
/// Panics if the encoded bytes differ from the decoded ones.
pub fn check(data: &[u8]) {
    let mut rest = data;
    while let Some(after) = record(rest) {
        rest = after;
    }
    if let Some(header) = data.first_chunk() {
        let (event, checksum) = decode_fragment_header(header);
        assert_eq!(encode_fragment_header(event, checksum), *header);
    }
    if let Some(bytes) = data.first_chunk::<PREAMBLE_LENGTH>() {
        let fits = KINDS.map(|kind| check_preamble(*bytes, kind).is_ok());
        let ours = |kind| SPOKEN.iter().any(|spoken| protected_preamble(kind, *spoken) == *bytes);
        assert_eq!(fits, KINDS.map(ours));
    }
}

/// Decodes the lane record at the start of `bytes`, and returns the bytes behind it.
fn record(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<RECORD_HEADER>()?;
    let header = RecordHeader::decode(*head).ok()?;
    assert_eq!(header.encode(), *head);
    let (body, after) = rest.split_at_checked(header.body())?;
    if let RecordHeader::Announce { count, .. } = header {
        assert!((1..=MAX_ANNOUNCEMENTS).contains(&count.into()));
        let (items, odd) = body.as_chunks::<ANNOUNCEMENT>();
        assert!(items.len() == usize::from(count) && odd.is_empty());
        for item in items {
            let mut again = BytesMut::new();
            Announcement::decode(item).encode(&mut again);
            // The last four bytes of an announcement are reserved, so they may differ.
            assert_eq!(again[..ANNOUNCEMENT - 4], item[..ANNOUNCEMENT - 4]);
        }
    }
    if let RecordHeader::Commit { count, offset } = header {
        assert!(usize::from(count) <= MAX_COMMIT_RANGES);
        let ranges: Result<Vec<_>, _> = body.as_chunks::<COMMIT_RANGE>().0.iter().map(decode_range).collect();
        if let Ok(ranges) = ranges {
            assert!(ranges.iter().all(|range| range.start < range.end));
            let mut again = BytesMut::new();
            encode_commit(offset, &ranges, &mut again);
            assert_eq!(again[..], bytes[..RECORD_HEADER + body.len()]);
        }
    }
    if let RecordHeader::Data { length, .. } = header {
        assert!((1..=MAX_DATA).contains(&length));
        return after.get((length as usize).min(after.len())..);
    }
    Some(after)
}

/// Returns the seed corpus: lane records of several types in one input, and a preamble of each kind
/// of connection.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut lane = BytesMut::new();
    lane.extend_from_slice(&RecordHeader::Announce { count: 2, offset: 25 }.encode());
    for (event, length) in [(42, 100), (43, 0)] {
        let (event, timestamp) = (EventId::new(event), Timestamp::new(7));
        Announcement { event, timestamp, length, lost_packets: 0 }.encode(&mut lane);
    }
    lane.extend_from_slice(&RecordHeader::Data { length: 16, offset: 25 }.encode());
    lane.extend_from_slice(&encode_fragment_header(EventId::new(42), Checksum::of(b"payload")));
    lane.extend_from_slice(&RecordHeader::Grant { end: 157 }.encode());
    encode_commit(25, &[41..141, 300..400], &mut lane);
    let mut seeds = vec![lane.to_vec()];
    seeds.extend(KINDS.map(|kind| preamble(kind).to_vec()));
    seeds
}
