use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use evb_core::{
    event::Event,
    id::{Epoch, EventId, SourceId},
    units::Bytes,
};
use proptest::prelude::*;

use super::EventFile;
use crate::{
    ReadError,
    format::{Flaw, HeaderFlaw},
    index::IndexState,
    samples::{BUILDER, any_event, event, event_of, incomplete, write},
};

const NEVER: u64 = u64::MAX;

fn one_file(dir: &Path, events: &[Event]) -> PathBuf {
    write(dir, BUILDER, NEVER, events).remove(0)
}

/// Returns the readable events of a file, and the errors found between them.
fn all(path: &Path) -> (Vec<Event>, Vec<ReadError>) {
    let file = EventFile::open(path).unwrap();
    let (mut events, mut errors) = (Vec::new(), Vec::new());
    for item in file.events() {
        match item {
            Ok(event) => events.push(event),
            Err(error) => errors.push(error),
        }
    }
    (events, errors)
}

fn poke(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

/// Returns a copy of `bytes` in which the byte at `place` is replaced.
fn with(bytes: &[u8], place: usize, byte: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[place] = byte;
    bytes
}

fn without_index(path: &Path) -> PathBuf {
    let footer = EventFile::open(path).unwrap().footer;
    let copy = path.with_extension("torn.evb");
    fs::write(&copy, &fs::read(path).unwrap()[..footer.offset as usize]).unwrap();
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn events_read_back(events in prop::collection::vec(any_event(), 0..12)) {
        let dir = tempfile::tempdir().unwrap();
        let path = one_file(dir.path(), &events);
        let (read, errors) = all(&path);
        prop_assert!(errors.is_empty(), "{errors:?}");
        prop_assert_eq!(&read, &events);
        let open = EventFile::open(&path).unwrap();
        let scanned = EventFile::open(without_index(&path)).unwrap();
        prop_assert_eq!(open.index_state(), IndexState::Present);
        prop_assert_eq!(scanned.index_state(), IndexState::Absent);
        prop_assert_eq!(open.index_entries(0, 100).unwrap(), scanned.index_entries(0, 100).unwrap());
        for event in &events {
            let found = open.event_in_epoch(event.id, event.epoch).unwrap().unwrap();
            prop_assert_eq!(found.id, event.id);
            prop_assert_eq!(&found, &scanned.event_in_epoch(event.id, event.epoch).unwrap().unwrap());
        }
    }

    #[test]
    fn no_file_content_panics(
        garbage in prop::collection::vec(any::<u8>(), 1..300),
        keep in 0usize..1200,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = one_file(dir.path(), &[event(1, 40), event(2, 3), incomplete(3)]);
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(keep);
        bytes.extend(garbage);
        fs::write(&path, bytes).unwrap();
        if let Ok(file) = EventFile::open(&path) {
            prop_assert!(file.events().count() < 20);
            let _ = file.event(EventId::new(1));
        }
    }
}

#[test]
fn the_highest_epoch_counts_and_absent_events_are_absent() {
    let dir = tempfile::tempdir().unwrap();
    let epoch = |epoch, size| event_of(5, size, Epoch::new(epoch), BUILDER);
    let path = one_file(dir.path(), &[event(7, 1), epoch(9, 2), epoch(4, 3), event(2, 1)]);
    for path in [without_index(&path), path] {
        let file = EventFile::open(path).unwrap();
        assert_eq!(file.event(EventId::new(5)).unwrap(), Some(epoch(9, 2)));
        assert_eq!(file.event_in_epoch(EventId::new(5), Epoch::new(4)).unwrap(), Some(epoch(4, 3)));
        for absent in [0, 1, 3, 6, 8] {
            assert_eq!(file.event(EventId::new(absent)).unwrap(), None);
        }
        assert_eq!(file.event_in_epoch(EventId::new(5), Epoch::new(5)).unwrap(), None);
    }
}

#[test]
fn every_flipped_byte_is_found_and_costs_one_event_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let events = [event(1, 13), incomplete(2), event(3, 0), event(4, 21)];
    let path = one_file(dir.path(), &events);
    let original = fs::read(&path).unwrap();
    let intact = EventFile::open(&path).unwrap();
    let (first, last) =
        (intact.records().next().unwrap().unwrap().offset as usize, intact.footer.offset as usize);
    for place in 0..original.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = original.clone();
            bytes[place] ^= flip;
            fs::write(&path, bytes).unwrap();
            if place < first {
                assert_eq!(EventFile::open(&path).unwrap().recovery(), Some(crate::Recovery::ClosingBlock));
                assert_eq!(all(&path).0, events, "byte {place}");
                continue;
            }
            let (read, errors) = all(&path);
            assert!(read.iter().all(|event| events.contains(event)), "byte {place}: wrong data came out");
            if place < last {
                assert_eq!((read.len(), errors.len()), (3, 1), "byte {place}");
                assert!(matches!(errors[0], ReadError::Damaged { .. }), "byte {place}: {}", errors[0]);
            } else {
                let state = EventFile::open(&path).unwrap().index_state();
                let is_told = state == IndexState::Damaged
                    || matches!(&errors[..], [ReadError::Damaged { flaw: Flaw::Index, .. }]);
                assert!(is_told, "byte {place}: {state:?}, {errors:?}");
                assert_eq!(read.len(), 4, "byte {place}: the index took events with it");
            }
        }
    }
}

#[test]
fn all_whole_records_before_a_torn_tail_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let events = [event(1, 13), incomplete(2), event(3, 0), event(4, 21)];
    let path = one_file(dir.path(), &events);
    let original = fs::read(&path).unwrap();
    let ends: Vec<u64> =
        EventFile::open(&path).unwrap().records().map(|record| record.unwrap().end()).collect();
    let footer = *ends.last().unwrap();
    let begin = EventFile::open(&path).unwrap().header_length;
    for length in 0..original.len() as u64 {
        fs::write(&path, &original[..length as usize]).unwrap();
        if length < begin {
            let refused = EventFile::open(&path);
            assert!(
                matches!(refused, Err(ReadError::Header { flaw: HeaderFlaw::Short, .. })),
                "length {length}"
            );
            continue;
        }
        let (read, errors) = all(&path);
        let whole = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(read, events[..whole], "length {length}");
        let boundary = ends.iter().copied().filter(|end| *end <= length).max().unwrap_or(begin);
        // A record and a closing block begin with the same two bytes. If at least four bytes of the
        // index were written, the reader therefore does not take the tail of the file for a torn
        // record.
        if length == boundary || length >= footer + 4 {
            assert!(errors.is_empty(), "length {length}: {errors:?}");
        } else {
            let [ReadError::TornTail { offset, length: torn, .. }] = &errors[..] else {
                panic!("length {length}: {errors:?}")
            };
            assert_eq!((*offset, torn.count()), (boundary, length - boundary));
        }
    }
}

/// Returns the bytes of a closed file with two events, the offset of the last record, and the
/// offset of the index.
fn closed_file(dir: &Path) -> (Vec<u8>, usize, usize) {
    let path = one_file(dir, &[event(1, 13), event(2, 21)]);
    let file = EventFile::open(&path).unwrap();
    let last = file.records().last().unwrap().unwrap().offset as usize;
    (fs::read(&path).unwrap(), last, file.footer.offset as usize)
}

#[test]
fn nothing_behind_the_records_passes_for_an_index_that_is_not_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, last, index) = closed_file(&dir.path().join("one"));
    let other = fs::read(one_file(&dir.path().join("other"), &[event(3, 100)])).unwrap();
    let whole = |more: &[u8]| [&bytes, more].concat();
    let records = |more: &[u8]| [&bytes[..index], more].concat();
    let path = dir.path().join("joined.evb");
    for (what, content, events) in [
        ("another file", whole(&other), 2),
        ("the same records", whole(&bytes[..index]), 4),
        ("garbage", whole(b"garbage"), 2),
        ("zeros", whole(&[0; 64]), 2),
        ("a mark and garbage", records(b"EVX2 and something"), 2),
        ("a mark and zeros", records(&[b"EVX2".as_slice(), &[0; 60]].concat()), 2),
        ("a shorter index", with(&bytes[..index + 16 + 24], index + 8, 1), 2),
        ("a flipped entry", with(&bytes[..bytes.len() - 1], index + 20, bytes[index + 20] ^ 1), 2),
        ("a mark over a record", with(&bytes[..index], last + 2, b'X'), 1),
    ] {
        fs::write(&path, content).unwrap();
        let (read, errors) = all(&path);
        let twice = [event(1, 13), event(2, 21), event(1, 13), event(2, 21)];
        assert_eq!(read, twice[..events], "{what}");
        let [ReadError::Damaged { flaw: Flaw::Index, .. }] = &errors[..] else {
            panic!("{what}: {errors:?}")
        };
    }
}

#[test]
fn records_behind_an_index_that_is_not_theirs_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (mut bytes, last, _) = closed_file(dir.path());
    // The first of two records now begins with the magic number of an index, and the second record
    // is intact.
    let first = EventFile::open(dir.path().join("run000001_b01_0000.evb")).unwrap().header_length as usize;
    bytes[first + 2] = b'X';
    let path = dir.path().join("overwritten.evb");
    for length in [bytes.len(), bytes.len() - 1, bytes.len() - 30] {
        fs::write(&path, &bytes[..length]).unwrap();
        let (read, errors) = all(&path);
        assert_eq!(read, [event(2, 21)], "{length}: {errors:?}");
        let [ReadError::Damaged { offset, length: skipped, .. }] = &errors[..] else { panic!("{errors:?}") };
        assert_eq!((*offset, skipped.count()), (first as u64, (last - first) as u64));
    }
}

#[test]
fn an_index_that_a_power_cut_leaves_half_written_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _, index) = closed_file(dir.path());
    let path = dir.path().join("cut.evb");
    for kept in index + 16..bytes.len() {
        for length in [kept, kept + 3, bytes.len()].map(|length| length.min(bytes.len())) {
            let mut cut = bytes[..kept].to_vec();
            cut.resize(length, 0);
            fs::write(&path, cut).unwrap();
            let (read, errors) = all(&path);
            assert_eq!((read.len(), errors.len()), (2, 0), "{kept} of {length}: {errors:?}");
        }
    }
}

#[test]
fn a_trailer_that_points_into_the_records_takes_none_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = one_file(dir.path(), &[event(1, 0), event(2, 0), event(3, 0)]);
    let file = EventFile::open(&path).unwrap();
    let records: Vec<u64> = file.records().map(|record| record.unwrap().offset).collect();
    let reachable =
        records.iter().filter(|offset| (file.footer.offset - **offset).is_multiple_of(24)).count();
    assert!(reachable > 0, "records of {} B", records[1] - records[0]);
    for offset in records {
        poke(&path, file.length - 24, &offset.to_le_bytes());
        let (read, _) = all(&path);
        assert_eq!(read.len(), 3, "to byte {offset}");
    }
}

#[test]
fn zeros_that_a_power_cut_leaves_are_a_torn_tail() {
    let dir = tempfile::tempdir().unwrap();
    let path = without_index(&one_file(dir.path(), &[event(1, 13)]));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() + 1_000_000).unwrap();
    let (read, errors) = all(&path);
    assert_eq!(read, [event(1, 13)]);
    assert!(matches!(&errors[..], [ReadError::TornTail { .. }]), "{errors:?}");
}

#[test]
fn reading_goes_on_after_a_damaged_region_of_any_size() {
    let dir = tempfile::tempdir().unwrap();
    let events: Vec<Event> = (1..=300).map(|id| event(id, 1000)).collect();
    let path = one_file(dir.path(), &events);
    for path in [without_index(&path), path] {
        // The 200 kB of garbage begin with the magic number of a record, and are larger than one
        // read of the file.
        poke(&path, 10_003, &b"EVR2EVX2".repeat(25_000));
        let (read, errors) = all(&path);
        assert!(matches!(&errors[..], [ReadError::Damaged { .. }, ..]) && errors.len() <= 2, "{errors:?}");
        assert!(read.len() >= 200 - 2, "{}", read.len());
        assert_eq!(read.last(), events.last());
        assert!(read.iter().all(|event| events.contains(event)));
    }
}

#[test]
fn damage_before_a_damaged_index_is_no_torn_tail() {
    let dir = tempfile::tempdir().unwrap();
    let path = one_file(dir.path(), &[event(1, 13), event(2, 13)]);
    let file = EventFile::open(&path).unwrap();
    let last = file.records().last().unwrap().unwrap();
    poke(&path, last.offset + 16, b"x");
    poke(&path, file.length - 1, b"x");
    let (read, errors) = all(&path);
    assert_eq!(read, [event(1, 13)]);
    let [ReadError::Damaged { offset, length, .. }] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((*offset, *length), (last.offset, last.length));
}

#[test]
fn event_files_inside_payloads_are_not_mistaken_for_records() {
    let dir = tempfile::tempdir().unwrap();
    let inner = fs::read(one_file(&dir.path().join("inner"), &[event(77, 8), event(78, 8)])).unwrap();
    let mut outer = event(1, 0);
    outer.add(SourceId::new(3), evb_core::fragment::Timestamp::default(), inner.into());
    let path = one_file(dir.path(), &[outer, event(2, 5)]);
    let first = EventFile::open(&path).unwrap().records().next().unwrap().unwrap().offset;
    poke(&path, first + 16, &[0xff; 4]);
    let (read, errors) = all(&path);
    assert_eq!(read, [event(2, 5)]);
    assert_eq!(errors.len(), 1);
}

#[test]
fn lying_lengths_are_refused_before_anything_is_allocated() {
    let dir = tempfile::tempdir().unwrap();
    let path = one_file(dir.path(), &[event(1, 13), event(2, 13)]);
    let original = fs::read(&path).unwrap();
    let first = EventFile::open(&path).unwrap().header_length;
    for (place, lie) in
        [(4, u32::MAX), (4, 81), (8, u32::MAX), (12, u32::MAX), (68, u32::MAX), (68, 65_537), (12, 255)]
    {
        fs::write(&path, &original).unwrap();
        poke(&path, first + place, &lie.to_le_bytes());
        let (read, errors) = all(&path);
        assert_eq!(read, [event(2, 13)]);
        let flaw = match &errors[..] {
            [ReadError::Damaged { flaw, .. }] => *flaw,
            other => panic!("{other:?}"),
        };
        assert!(matches!(flaw, Flaw::Lengths | Flaw::PastEnd), "{flaw}");
    }
}

#[test]
fn records_above_the_limit_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = one_file(dir.path(), &[event(1, 5000), event(2, 5)]);
    let file = EventFile::open(path).unwrap().with_record_limit(Bytes::kib(4));
    let items: Vec<_> = file.events().collect();
    assert!(matches!(&items[0], Err(ReadError::TooLarge { event, .. }) if event.number() == 1), "{items:?}");
    assert_eq!(*items[1].as_ref().unwrap(), event(2, 5));
}

/// Each 72 bytes of a hostile file are the front of a head of 65 536 fragments, whose checksum
/// would take 1.6 MB to compute. The record behind them is found, and the file takes no longer than
/// a small multiple of a good file of its size.
#[test]
fn heads_that_take_long_are_not_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = one_file(dir.path(), &[event(1, 100)]);
    let file = EventFile::open(&path).unwrap();
    let (header, records) = (file.header_length as usize, file.footer.offset as usize);
    let bytes = fs::read(&path).unwrap();
    let head = 80 + 24 * 65_536_u64;
    let mut cell = bytes[header..header + 72].to_vec();
    cell[4..8].copy_from_slice(&(head as u32).to_le_bytes());
    cell[8..16].copy_from_slice(&head.to_le_bytes());
    cell[68..72].copy_from_slice(&65_536_u32.to_le_bytes());
    let zeros = vec![0; head as usize];
    let hostile = dir.path().join("hostile.evb");
    fs::write(&hostile, [&bytes[..header], &cell.repeat(56_000), &zeros, &bytes[header..records]].concat())
        .unwrap();
    let good = one_file(&dir.path().join("good"), &[event(1, 5_600_000)]);

    let timed = |path: &Path| {
        let began = std::time::Instant::now();
        let found = all(path);
        (began.elapsed(), found)
    };
    let (usual, _) = timed(&good);
    let (took, (events, errors)) = timed(&hostile);
    assert_eq!(events, [event(1, 100)]);
    assert!(matches!(errors[..], [ReadError::Damaged { flaw: Flaw::HeadChecksum, .. }]), "{errors:?}");
    assert!(took < 20 * usual + std::time::Duration::from_secs(1), "{took:?}, a good file {usual:?}");
    // Lookups do not follow such heads either: an index that leads to them is not used.
    assert_eq!(EventFile::open(&hostile).unwrap().event(EventId::new(1)).unwrap(), Some(event(1, 100)));
}
