use bytes::BytesMut;

use super::{FromBuilder, StreamReader};
use crate::{
    lane::StreamFault,
    wire::record::{RecordError, RecordHeader, encode_commit},
};

#[test]
fn records_may_arrive_in_pieces_of_any_length() {
    let mut sent = BytesMut::new();
    sent.extend_from_slice(&RecordHeader::Grant { end: 700 }.encode());
    encode_commit(100, &[200..300, 400..500], &mut sent);
    encode_commit(500, &[], &mut sent);
    sent.extend_from_slice(&RecordHeader::Grant { end: 900 }.encode());
    for length in 1..=sent.len() {
        let (mut reader, mut ranges, mut read) = (StreamReader::default(), Vec::new(), Vec::new());
        for piece in sent.chunks(length) {
            reader.read_target().extend_from_slice(piece);
            while let Some(record) = reader.next_record(&mut ranges).unwrap() {
                let ranges =
                    if matches!(record, FromBuilder::Commit { .. }) { ranges.clone() } else { vec![] };
                read.push((record, ranges));
            }
        }
        let expected = [
            (FromBuilder::Grant { end: 700 }, vec![]),
            (FromBuilder::Commit { offset: 100 }, vec![200..300, 400..500]),
            (FromBuilder::Commit { offset: 500 }, vec![]),
            (FromBuilder::Grant { end: 900 }, vec![]),
        ];
        assert_eq!(read, expected, "pieces of {length} bytes");
        assert!(reader.buffer.is_empty());
    }
}

#[test]
fn bytes_that_are_not_for_a_source_end_the_lane() {
    let next = |bytes: &[u8]| {
        let mut reader = StreamReader::default();
        reader.read_target().extend_from_slice(bytes);
        reader.next_record(&mut Vec::new())
    };
    let data = RecordHeader::Data { length: 1, offset: 0 };
    assert_eq!(next(&data.encode()), Err(StreamFault::WrongDirection(data)));
    assert_eq!(next(&[99; 16]), Err(StreamFault::Record(RecordError::Flags(99))));
}
