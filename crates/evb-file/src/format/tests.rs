use evb_core::{
    alignment::Episode,
    event::{Alignment, Event},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    ledger::OwingChange,
    time::Utc,
};
use proptest::prelude::*;

use super::{
    FileHeader, FileTag, Flaw, FormatVersion, HeaderFlaw, MAX_CREATOR, MAX_HEADER, Prefix, Record,
    encode_head, record_size, reseal, section,
};
use crate::samples::{RUN_ID, any_event, event, in_version_1, incomplete, misaligned, without_excluded};
use evb_core::fragment::Checksum;

const VERSIONS: [FormatVersion; 2] = [FormatVersion::One, FormatVersion::Two];

fn tag(of: &[u8], version: FormatVersion) -> FileTag {
    FileTag { checksum: Checksum::of(of), version, run_id: RUN_ID, owner: None }
}

/// Returns the head of an event's record, and the record's size.
fn head_of(event: &Event, tag: FileTag) -> (Vec<u8>, u64) {
    let (size, mut head) = (record_size(event, tag.version).unwrap(), Vec::new());
    encode_head(event, size, &tag, &mut head);
    (head, size)
}

fn decoded(head: &[u8], size: u64, tag: FileTag) -> Result<Record, Flaw> {
    Prefix::decode(&head[..tag.version.record_prefix()], size, tag)?.record(64, head, tag)
}

/// Corrects the checksum of a head.
fn sealed(mut head: Vec<u8>, tag: FileTag) -> Vec<u8> {
    let content = head.len() - 8;
    let checksum = tag.seal(Checksum::of(&head[..content]));
    head[content..].copy_from_slice(&checksum.to_le_bytes());
    head
}

fn header_1() -> FileHeader {
    FileHeader {
        version: FormatVersion::One,
        run: RunNumber::new(12),
        epoch: Epoch::new(5),
        builder: Some(BuilderId::new(2)),
        sequence: 1,
        created_unix_ns: 99,
        sources: vec![SourceId::new(1), SourceId::new(7), SourceId::new(9)],
        creator: "test µ".to_owned(),
        ..FileHeader::default()
    }
}

fn header() -> FileHeader {
    FileHeader {
        version: FormatVersion::Two,
        run_id: RUN_ID,
        begun: Utc::from_nanos(77),
        clock_synchronised: Some(false),
        kind: "cosmics".to_owned(),
        comment: "a test".to_owned(),
        source_names: [(SourceId::new(7), "veto".to_owned()), (SourceId::new(9), "ν".to_owned())].into(),
        builder_names: [(BuilderId::new(2), "two".to_owned())].into(),
        ..header_1()
    }
}

fn read(bytes: &[u8]) -> Result<FileHeader, HeaderFlaw> {
    let length = FileHeader::length(bytes)? as usize;
    Ok(FileHeader::decode(bytes.get(..length).ok_or(HeaderFlaw::Short)?)?.0)
}

#[test]
fn header_reads_back() {
    for builder in [Some(BuilderId::new(0)), Some(BuilderId::new(2)), None] {
        let episode = Episode { source: SourceId::new(7), shift: Some(-2), ..Episode::default() };
        let change = OwingChange::exclude(SourceId::new(7), EventId::new(5), "no \"power\"");
        let known = FileHeader { episodes: vec![episode], changes: vec![change], ..header() };
        for header in [header_1(), header(), known, FileHeader { version: FormatVersion::Two, ..header_1() }]
        {
            let header = FileHeader { builder, ..header };
            let (bytes, _) = header.encode();
            assert_eq!(bytes.len() % 8, 0);
            assert_eq!(read(&bytes), Ok(header));
        }
    }
}

#[test]
fn header_layout_is_as_documented() {
    let (bytes, tag) = header_1().encode();
    assert_eq!(bytes.len(), 80);
    assert_eq!(&bytes[..8], b"\x89EVB\r\n\x1a\n");
    assert_eq!(&bytes[8..16], &[1, 0, 0, 0, 80, 0, 0, 0]);
    assert_eq!(&bytes[16..24], &[12, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(&bytes[56..62], &[1, 0, 7, 0, 9, 0]);
    assert_eq!(&bytes[62..69], "test µ".as_bytes());
    assert_eq!(&bytes[72..], &tag.checksum.number().to_le_bytes());

    let (bytes, tag) = header().encode();
    assert_eq!(&bytes[8..16], &[2, 0, 0, 0, bytes.len() as u8, 0, 0, 0]);
    assert_eq!(&bytes[16..24], &[12, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(&bytes[24..40], &RUN_ID.to_bytes());
    assert_eq!(&bytes[24..28], &[0x5e, 0xed, 0xca, 0xfe]);
    assert_eq!(&bytes[40..56], &[5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(&bytes[56..80], &[99, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[80..88], &[1, 0, 7, 0, 9, 0, 0, 0]);
    assert_eq!(&bytes[88..96], &[1, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(&bytes[96..104], "test µ\0".as_bytes());
    assert_eq!(&bytes[104..120], b"\x02\0\0\0\x07\0\0\0cosmics\0");
    assert_eq!(&bytes[120..136], b"\x03\0\0\0\x06\0\0\0a test\0\0");
    assert_eq!(&bytes[136..160], b"\x04\0\0\0\x0e\0\0\0\x07\0\x04\0veto\x09\0\x02\0\xce\xbd\0\0");
    assert_eq!(&bytes[160..176], b"\x05\0\0\0\x07\0\0\0\x02\0\x03\0two\0");
    assert_eq!(&bytes[176..], &tag.checksum.number().to_le_bytes());
}

#[test]
fn record_layout_is_as_documented() {
    let tag = tag(b"this", FormatVersion::Two);
    let mut event = incomplete(9);
    event.absent = without_excluded(9).absent;
    let (bytes, size) = head_of(&event, tag);
    assert_eq!((bytes.len(), size), (72 + 2 * 24 + 2 * 16 + 8, 160 + 16));
    assert_eq!(&bytes[..16], b"EVR2\xa0\0\0\0\xb0\0\0\0\0\0\0\0");
    assert_eq!(&bytes[16..24], &9u64.to_le_bytes());
    assert_eq!(&bytes[24..32], &event.epoch.number().to_le_bytes());
    assert_eq!(&bytes[32..40], &event.triggered.as_nanos().to_le_bytes());
    assert_eq!(&bytes[40..48], &event.utc.as_nanos().to_le_bytes());
    assert_eq!(&bytes[48..56], &tag.checksum.number().to_le_bytes());
    assert_eq!(&bytes[56..72], b"\x01\0\0\0\x5e\xed\xca\xfe\x01\0\x01\0\x02\0\0\0");
    assert_eq!(&bytes[72..80], b"\x01\0\0\0\x05\0\0\0");
    assert_eq!(&bytes[120..136], b"\x01\0\x01\0\x04\0\0\0\x03\0\x01\0\0\0\0\0");
    assert_eq!(&bytes[136..152], b"\x02\0\x01\0\x04\0\0\0\x04\0\x10\0\0\0\0\0");
    assert_eq!(&bytes[152..], &Checksum::of(&bytes[..152]).number().to_le_bytes());
}

#[test]
fn header_refuses_other_files_and_versions() {
    assert_eq!(read(b"#!/bin/sh\necho hello, hello"), Err(HeaderFlaw::Magic));
    assert_eq!(read(b""), Err(HeaderFlaw::Short));
    assert_eq!(read(b"\x89EV"), Err(HeaderFlaw::Short));
    let (mut bytes, _) = header().encode();
    bytes[8] = 3;
    assert_eq!(read(&bytes), Err(HeaderFlaw::Version(3)));
}

/// Returns the header with one more section, or with another flag, and with a right checksum.
fn extended(flags: u16, kind: u16, is_required: bool, body: &[u8]) -> Vec<u8> {
    let (mut bytes, _) = header().encode();
    bytes.truncate(bytes.len() - 8);
    bytes[10..12].copy_from_slice(&flags.to_le_bytes());
    section::push(&mut bytes, 0, kind, is_required, body);
    let length = bytes.len() as u32 + 8;
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    let checksum = Checksum::of(&bytes);
    bytes.extend(checksum.number().to_le_bytes());
    bytes
}

#[test]
fn unknown_sections_and_flags_of_a_header_are_skipped_or_refused() {
    assert_eq!(read(&extended(0, 9, false, b"new")), Ok(header()));
    assert_eq!(read(&extended(0, 9, true, b"new")), Err(HeaderFlaw::UnknownSection(9)));
    assert_eq!(read(&extended(0x8001, 9, true, b"new")), Err(HeaderFlaw::UnknownFlags(0x8000)));
    // Types must ascend, and known sections have the stated content.
    assert_eq!(read(&extended(0, 5, false, b"\x03\0\x01\0x")), Err(HeaderFlaw::Content));
    assert_eq!(read(&extended(0, 1, false, b"twice")), Err(HeaderFlaw::Content));
}

#[test]
fn every_flipped_bit_of_a_header_is_found() {
    for header in [header_1(), header()] {
        let (bytes, _) = header.encode();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn largest_header_is_within_the_limit_and_long_texts_are_cut() {
    let sources: Vec<_> = (0..=u16::MAX).map(SourceId::new).collect();
    let source_names = sources.iter().map(|id| (*id, "ν".repeat(4000))).collect();
    let header = FileHeader { sources, creator: "µ".repeat(MAX_CREATOR), source_names, ..header() };
    for version in VERSIONS {
        let (bytes, _) = FileHeader { version, ..header.clone() }.encode();
        assert!(bytes.len() as u64 <= MAX_HEADER, "{}", bytes.len());
        assert_eq!(read(&bytes).unwrap().creator.len(), MAX_CREATOR);
    }
}

#[test]
fn records_belong_to_their_file() {
    for (version, flaw) in VERSIONS.into_iter().zip([Flaw::HeadChecksum, Flaw::Tag]) {
        let (this, other) = (tag(b"this", version), tag(b"that", version));
        let (mut head, size) = head_of(&event(1, 10), this);
        assert!(decoded(&head, size, this).is_ok());
        assert_eq!(decoded(&head, size, other), Err(flaw));
        if version == FormatVersion::Two {
            reseal(&mut head, other);
            assert_eq!(decoded(&head, size, other), decoded(&head_of(&event(1, 10), this).0, size, this));
        }
    }
}

#[test]
fn flags_that_contradict_or_have_no_meaning_are_refused() {
    let first = tag(b"this", FormatVersion::One);
    let (mut head, size) = head_of(&event(1, 10), first);
    for flags in [1, 2, 0x80] {
        head[46] = flags;
        for owner in [None, Some((RunNumber::new(77), None))] {
            let first = FileTag { owner, ..first };
            let found = decoded(&sealed(head.clone(), first), size, first);
            assert_eq!(found, Err(Flaw::Reserved), "also of another run");
        }
    }
    let second = tag(b"this", FormatVersion::Two);
    let (mut head, size) = head_of(&event(1, 10), second);
    head[66] = 1;
    assert_eq!(decoded(&sealed(head.clone(), second), size, second), Err(Flaw::Reserved));
    head[67] = 0x80;
    let refused = decoded(&sealed(head, second), size, second).unwrap();
    assert_eq!(refused.refusal, Some(Flaw::UnknownFlags(0x8000)));
}

/// Returns the head of an event's record with one more section, and the size of the record.
fn head_with(event: &Event, kind: u16, is_required: bool, body: &[u8], tag: FileTag) -> (Vec<u8>, u64) {
    let (mut head, size) = head_of(event, tag);
    let before = head.len() as u64;
    head.truncate(head.len() - 8);
    section::push(&mut head, 0, kind, is_required, body);
    head.extend([0; 8]);
    let size = size + head.len() as u64 - before;
    let length = head.len() as u32;
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..16].copy_from_slice(&size.to_le_bytes());
    (sealed(head, tag), size)
}

#[test]
fn unknown_sections_of_a_record_are_skipped_or_refused() {
    let tag = tag(b"this", FormatVersion::Two);
    let with = |kind, is_required, body: &[u8]| {
        let (head, size) = head_with(&incomplete(1), kind, is_required, body, tag);
        decoded(&head, size, tag)
    };
    let skipped = with(9, false, b"something new").unwrap();
    assert_eq!((skipped.refusal, skipped.missing), (None, incomplete(1).missing));
    assert_eq!(with(9, true, b"new").unwrap().refusal, Some(Flaw::UnknownSection(9)));
    // Known sections have the stated length: a tag has 8 bytes, and each fragment a number of lost
    // packets.
    for (kind, length) in [(3, 8), (4, 8)] {
        assert_eq!(with(kind, false, &vec![1; length]).unwrap().refusal, None);
        assert_eq!(with(kind, false, &vec![1; length - 4]), Err(Flaw::Lengths));
    }
    assert_eq!(with(2, true, &[1; 6]), Err(Flaw::Lengths));
    assert_eq!(with(1, true, &[1; 4]), Err(Flaw::Lengths), "a section occurs once");
}

#[test]
fn states_of_alignment_are_in_version_2_only() {
    let states = |bytes: Vec<u8>, size, tag| {
        let record = decoded(&sealed(bytes, tag), size, tag).unwrap();
        record.fragments.iter().map(|entry| entry.alignment).collect::<Vec<_>>()
    };
    let here = tag(b"this", FormatVersion::Two);
    let (mut bytes, size) = head_of(&misaligned(1), here);
    assert_eq!((bytes[74], bytes[74 + 24]), (1, 2), "as documented");
    bytes[74] = 77;
    assert_eq!(states(bytes, size, here), [Alignment::Unknown, Alignment::Disagrees], "of a later version");
    let old = tag(b"this", FormatVersion::One);
    let (mut bytes, size) = head_of(&misaligned(1), old);
    assert_eq!((bytes[58], bytes[58 + 24]), (0, 0));
    bytes[58] = 2;
    assert_eq!(states(bytes, size, old), [Alignment::Unchecked; 2], "version 1 has no such field");
}

#[test]
fn a_record_of_another_run_keeps_its_first_digits() {
    let other = FileTag { run_id: RunId::new(7 << 96), ..tag(b"this", FormatVersion::Two) };
    let (head, size) = head_of(&event(1, 10), other);
    let here = FileTag { run_id: RUN_ID, ..other };
    assert_eq!(decoded(&head, size, here).unwrap().run_id, RunId::new(7 << 96));
    assert_eq!(decoded(&head_of(&event(1, 10), here).0, size, here).unwrap().run_id, RUN_ID);
}

proptest! {
    #[test]
    fn record_heads_read_back(event in any_event()) {
        for version in VERSIONS {
            let tag = tag(b"tag", version);
            let (head, size) = head_of(&event, tag);
            let event = if version == FormatVersion::One { in_version_1(&event) } else { event.clone() };
            let start = &head[..version.record_prefix()];
            let prefix = Prefix::decode(start, size, tag).unwrap();
            prop_assert_eq!(prefix.head_length, head.len() as u64);
            prop_assert_eq!(prefix.length, size);
            let record = prefix.record(64, &head, tag).unwrap();
            prop_assert_eq!(record.event, event.id);
            prop_assert_eq!((record.triggered, record.utc), (event.triggered, event.utc));
            prop_assert_eq!(&record.missing, &event.missing);
            prop_assert_eq!(&record.absent, &event.absent);
            prop_assert_eq!(record.tag, event.tag);
            prop_assert_eq!(record.payload_size(), event.payload_size());
            prop_assert_eq!(record.end(), 64 + size);
            let states = event.fragments().map(|part| part.alignment);
            prop_assert!(record.fragments.iter().map(|entry| entry.alignment).eq(states));
            prop_assert!(matches!(Prefix::decode(start, size - 8, tag), Err(Flaw::PastEnd)));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), available in any::<u64>()) {
        let _ = read(&bytes);
        let _ = FileHeader::decode(&bytes);
        for version in VERSIONS {
            let tag = tag(b"tag", version);
            if let Ok(prefix) = Prefix::decode(&bytes, available, tag) {
                let _ = prefix.record(0, &bytes, tag);
            }
        }
    }
}
