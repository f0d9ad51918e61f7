use evb_core::id::{BuilderId, Epoch, RunNumber, SourceId};
use proptest::prelude::*;

use super::{
    FORMAT_VERSION, FileHeader, FileTag, Flaw, HeaderFlaw, MAX_CREATOR, MAX_HEADER, Prefix, RECORD_PREFIX,
    encode_head, record_size,
};
use crate::samples::{any_event, event};
use evb_core::fragment::Checksum;

fn header() -> FileHeader {
    FileHeader {
        run: RunNumber::new(12),
        epoch: Epoch::new(5),
        builder: Some(BuilderId::new(2)),
        sequence: 1,
        created_unix_ns: 99,
        sources: vec![SourceId::new(1), SourceId::new(7), SourceId::new(9)],
        creator: "test µ".to_owned(),
    }
}

fn read(bytes: &[u8]) -> Result<FileHeader, HeaderFlaw> {
    let length = FileHeader::length(bytes)? as usize;
    Ok(FileHeader::decode(bytes.get(..length).ok_or(HeaderFlaw::Short)?)?.0)
}

#[test]
fn header_reads_back() {
    for builder in [Some(BuilderId::new(0)), Some(BuilderId::new(2)), None] {
        let header = FileHeader { builder, ..header() };
        let (bytes, _) = header.encode();
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(read(&bytes), Ok(header));
    }
}

#[test]
fn header_layout_is_as_documented() {
    let (bytes, tag) = header().encode();
    assert_eq!(bytes.len(), 80);
    assert_eq!(&bytes[..8], b"\x89EVB\r\n\x1a\n");
    assert_eq!(&bytes[8..16], &[1, 0, 0, 0, 80, 0, 0, 0]);
    assert_eq!(&bytes[16..24], &[12, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(&bytes[56..62], &[1, 0, 7, 0, 9, 0]);
    assert_eq!(&bytes[62..69], "test µ".as_bytes());
    assert_eq!(&bytes[72..], &tag.0.number().to_le_bytes());
}

#[test]
fn header_refuses_other_files_and_versions() {
    assert_eq!(read(b"#!/bin/sh\necho hello, hello"), Err(HeaderFlaw::Magic));
    assert_eq!(read(b""), Err(HeaderFlaw::Short));
    assert_eq!(read(b"\x89EV"), Err(HeaderFlaw::Short));
    let (mut bytes, _) = header().encode();
    bytes[8] = FORMAT_VERSION as u8 + 1;
    assert_eq!(read(&bytes), Err(HeaderFlaw::Version(FORMAT_VERSION + 1)));
}

#[test]
fn every_flipped_bit_of_a_header_is_found() {
    let (bytes, _) = header().encode();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn largest_header_is_within_the_limit_and_long_creators_are_cut() {
    let sources = (0..=u16::MAX).map(SourceId::new).collect();
    let header = FileHeader { sources, creator: "µ".repeat(MAX_CREATOR), ..header() };
    let (bytes, _) = header.encode();
    assert!(bytes.len() as u64 <= MAX_HEADER);
    assert_eq!(read(&bytes).unwrap().creator.len(), MAX_CREATOR);
}

#[test]
fn records_belong_to_their_file() {
    let (tag, other) = (FileTag(Checksum::of(b"this")), FileTag(Checksum::of(b"that")));
    let (event, mut head) = (event(1, 10), Vec::new());
    let size = record_size(&event).unwrap();
    encode_head(&event, size, tag, &mut head);
    let prefix = Prefix::decode(&head[..RECORD_PREFIX], size).unwrap();
    assert!(prefix.record(0, &head, tag).is_ok());
    assert_eq!(prefix.record(0, &head, other), Err(Flaw::HeadChecksum));
}

#[test]
fn flags_that_contradict_or_have_no_meaning_are_refused() {
    let (tag, event, mut head) = (FileTag(Checksum::of(b"this")), event(1, 10), Vec::new());
    let size = record_size(&event).unwrap();
    encode_head(&event, size, tag, &mut head);
    let content = head.len() - 8;
    for flags in [1, 2, 0x80] {
        head[46] = flags;
        let sealed = tag.seal(Checksum::of(&head[..content]));
        head[content..].copy_from_slice(&sealed.to_le_bytes());
        let prefix = Prefix::decode(&head[..RECORD_PREFIX], size).unwrap();
        assert_eq!(prefix.record(0, &head, tag), Err(Flaw::Reserved));
    }
}

proptest! {
    #[test]
    fn record_heads_read_back(event in any_event()) {
        let (tag, mut head) = (FileTag(Checksum::of(b"tag")), Vec::new());
        let size = record_size(&event).unwrap();
        encode_head(&event, size, tag, &mut head);
        let prefix = Prefix::decode(&head[..RECORD_PREFIX], size).unwrap();
        prop_assert_eq!(prefix.head_length, head.len() as u64);
        prop_assert_eq!(prefix.length, size);
        let record = prefix.record(64, &head, tag).unwrap();
        prop_assert_eq!(record.event, event.id);
        prop_assert_eq!(record.triggered, event.triggered);
        prop_assert_eq!(&record.missing, &event.missing);
        prop_assert_eq!(record.payload_size(), event.payload_size());
        prop_assert_eq!(record.end(), 64 + size);
        prop_assert!(matches!(Prefix::decode(&head[..RECORD_PREFIX], size - 8), Err(Flaw::PastEnd)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), available in any::<u64>()) {
        let _ = read(&bytes);
        let _ = FileHeader::decode(&bytes);
        if let Ok(prefix) = Prefix::decode(&bytes, available) {
            let _ = prefix.record(0, &bytes, FileTag(Checksum::default()));
        }
    }
}
