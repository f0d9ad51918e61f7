use std::{
    fs,
    path::{Path, PathBuf},
};

use evb_core::{event::Event, fragment::Timestamp, id::SourceId, rng::Rng, time::Utc, units::Bytes};

use super::{super::EventFile, Recovery};
use crate::{
    EventFileWriter, FileIdentity, IndexState, ReadError,
    format::{FileHeader, HeaderFlaw},
    samples::{
        BUILDER, EPOCH, RUN, RUN_ID, event, identity, incomplete, options, options_1, without_excluded,
    },
};

fn events() -> Vec<Event> {
    let mut events: Vec<Event> = (5..25).map(|id| event(id, id as usize * 5)).collect();
    events.extend([event(1, 0), incomplete(2), without_excluded(3), event(4, 2000)]);
    events
}

/// Writes a file of a run that has names, a kind and a comment.
fn file(dir: &Path, events: &[Event], is_closed: bool) -> PathBuf {
    let identity = FileIdentity {
        kind: "cosmics".to_owned(),
        comment: "a test".to_owned(),
        source_names: [(SourceId::new(1), "tracker".to_owned())].into(),
        ..identity(BUILDER)
    };
    let mut writer = EventFileWriter::create(dir, identity, options(u64::MAX)).unwrap();
    events.iter().for_each(|event| writer.append(event).unwrap());
    writer.commit().unwrap();
    let path = writer.path();
    if is_closed {
        writer.close().unwrap();
    }
    path
}

fn read(file: &EventFile) -> (Vec<Event>, Vec<ReadError>) {
    let (events, errors): (Vec<_>, Vec<_>) = file.events().partition(Result::is_ok);
    let errors = errors.into_iter().filter_map(Result::err).collect();
    (events.into_iter().filter_map(Result::ok).collect(), errors)
}

fn recovered(path: &Path) -> (FileHeader, Option<Recovery>, Vec<Event>, Vec<ReadError>) {
    let file = EventFile::open(path).unwrap();
    let (events, errors) = read(&file);
    (file.header().clone(), file.recovery(), events, errors)
}

#[test]
fn the_closing_block_has_the_whole_header() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &events(), true);
    let (header, _, all, _) = recovered(&path);
    let original = fs::read(&path).unwrap();
    let length = EventFile::open(&path).unwrap().header_length as usize;
    let mut damaged = original.clone();
    damaged[..length].fill(0);
    fs::write(&path, &damaged).unwrap();
    let (found, recovery, events, errors) = recovered(&path);
    assert_eq!((found, recovery, events), (header, Some(Recovery::ClosingBlock), all));
    assert!(errors.is_empty(), "{errors:?}");
    let file = EventFile::open(&path).unwrap();
    assert_eq!(file.index_state(), IndexState::Present, "the rest of the block is intact, too");
    // An entry of the index is damaged, which harms the copy of the header as little.
    let entry = file.footer.offset as usize + 20;
    damaged[entry] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let file = EventFile::open(&path).unwrap();
    assert_eq!((file.recovery(), file.index_state()), (Some(Recovery::ClosingBlock), IndexState::Damaged));
    assert_eq!(read(&file).0.len(), 24);
}

#[test]
fn records_tell_their_run_and_builder() {
    let dir = tempfile::tempdir().unwrap();
    for count in [1, 24] {
        let path = file(&dir.path().join(count.to_string()), &events()[..count], false);
        let mut bytes = fs::read(&path).unwrap();
        bytes[..50].fill(0xff);
        fs::write(&path, bytes).unwrap();
        let (header, recovery, read, errors) = recovered(&path);
        assert_eq!((recovery, read.len(), errors.len()), (Some(Recovery::Records), count, 0));
        assert_eq!((header.run, header.builder, header.epoch), (RUN, Some(BUILDER), EPOCH));
        assert_eq!(header.run_id.short(), RUN_ID.short());
        assert_eq!(&header.run_id.to_bytes()[4..], &[0; 12]);
        assert!(header.sources.is_empty() && header.kind.is_empty() && header.begun == Utc::UNKNOWN);
    }
}

#[test]
fn a_closing_block_that_lost_its_copy_is_a_damaged_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &events(), true);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[20] ^= 1;
    bytes[end - 60] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let file = EventFile::open(&path).unwrap();
    assert_eq!((file.recovery(), file.index_state()), (Some(Recovery::Records), IndexState::Damaged));
    assert_eq!((read(&file).0.len(), read(&file).1.len()), (24, 0));
    // Without the trailer too, the records end at the mark of the block.
    bytes[end - 1] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let file = EventFile::open(&path).unwrap();
    assert_eq!((file.recovery(), file.index_state()), (Some(Recovery::Records), IndexState::Absent));
    assert_eq!(read(&file).0.len(), 24);
}

#[test]
fn the_file_inside_a_payload_is_not_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let inner = fs::read(file(&dir.path().join("inner"), &events()[..3], true)).unwrap();
    let mut outer = event(1, 300);
    outer.add(SourceId::new(3), Timestamp::default(), inner.into());
    let path = file(&dir.path().join("outer"), &[outer, event(2, 300), event(3, 3000)], false);
    let mut bytes = fs::read(&path).unwrap();
    let first = EventFile::open(&path).unwrap().header_length as usize;
    // With the header, the head of the record around the inner file is lost.
    bytes[first - 20..first + 20].fill(0);
    fs::write(&path, bytes).unwrap();
    let (_, recovery, found, _) = recovered(&path);
    assert_eq!(recovery, Some(Recovery::Records));
    assert_eq!(found.iter().map(|event| event.id.number()).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn other_files_and_those_of_version_1_are_refused_as_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.evb");
    let flaw = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        match EventFile::open(&path) {
            Err(ReadError::Header { flaw, .. }) => flaw,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(flaw(&[7; 10_000]), HeaderFlaw::Magic);
    assert_eq!(flaw(b""), HeaderFlaw::Short);
    let mut writer =
        EventFileWriter::create(dir.path().join("old"), identity(BUILDER), options_1(u64::MAX)).unwrap();
    // The payload is a file of version 2, whose records could be taken for those of the file.
    let inner = fs::read(file(&dir.path().join("inner"), &events(), false)).unwrap();
    let mut outer = event(1, 3);
    outer.add(SourceId::new(3), Timestamp::default(), inner.into());
    writer.append(&outer).unwrap();
    let old = writer.path();
    writer.close().unwrap();
    let mut bytes = fs::read(old).unwrap();
    bytes[20] ^= 1;
    assert_eq!(flaw(&bytes), HeaderFlaw::Checksum);
    // A header of a later version is intact.
    let mut bytes = fs::read(file(&dir.path().join("new"), &events(), true)).unwrap();
    let length = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
    bytes[8] = 3;
    let checksum = evb_core::fragment::Checksum::of(&bytes[..length - 8]).number();
    bytes[length - 8..length].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(flaw(&bytes), HeaderFlaw::Version(3));
}

/// Damages 1 to 64 bytes at 1000 random places of files of all kinds. Every event whose own bytes
/// are whole is read, and the damage is told.
#[test]
fn damage_anywhere_costs_no_event_whose_bytes_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (number, (count, is_closed)) in
        [(24, true), (24, false), (1, true), (1, false), (0, true)].into_iter().enumerate()
    {
        let path = file(&dir.path().join(number.to_string()), &events()[..count], is_closed);
        let records: Vec<_> = EventFile::open(&path).unwrap().records().map(Result::unwrap).collect();
        files.push((fs::read(&path).unwrap(), records));
    }
    let path = dir.path().join("damaged.evb");
    let mut rng = Rng::new(35);
    let mut kinds = [0; 4];
    for round in 0..1000 {
        let (original, records) = &files[rng.below(files.len() as u64) as usize];
        let (mut bytes, size) = (original.clone(), 1 + rng.below(64) as usize);
        // Half of the damage is where headers, heads and closing blocks are.
        let start = match rng.below(2) {
            0 => rng.below(bytes.len() as u64) as usize,
            _ => {
                let places = records.iter().map(|record| record.offset as usize);
                let places: Vec<usize> =
                    places.chain([0, 100, bytes.len().saturating_sub(100), bytes.len() - 30]).collect();
                places[rng.below(places.len() as u64) as usize] + rng.below(30) as usize
            }
        };
        let end = (start + size).min(bytes.len());
        bytes[start.min(end)..end].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        let changed =
            |from: u64, to: u64| original[from as usize..to as usize] != bytes[from as usize..to as usize];
        let whole: Vec<u64> = records
            .iter()
            .filter(|record| !changed(record.offset, record.end()))
            .map(|record| record.event.number())
            .collect();
        fs::write(&path, &bytes).unwrap();
        let what = format!("round {round}: bytes {start} to {end} of {}", original.len());
        let file = match EventFile::open(&path) {
            Ok(file) => file,
            Err(error) => {
                assert!(matches!(error, ReadError::Header { .. }) && whole.is_empty(), "{what}: {error}");
                kinds[0] += 1;
                continue;
            }
        };
        let (events, errors) = read(&file);
        assert_eq!(
            events.iter().map(|event| event.id.number()).collect::<Vec<_>>(),
            whole,
            "{what}: {errors:?}"
        );
        let is_closed = original.ends_with(b"EVB-END\n");
        let is_told = file.recovery().is_some()
            || !errors.is_empty()
            || (file.index_state() != IndexState::Present && is_closed);
        assert_eq!(is_told, bytes != *original, "{what}");
        kinds[match file.recovery() {
            Some(Recovery::Records) => 1,
            Some(Recovery::ClosingBlock) => 2,
            None => 3,
        }] += 1;
        assert_eq!(file.size(), Bytes::new(original.len() as u64));
    }
    assert!(kinds.iter().all(|count| *count > 10), "the test must reach all cases: {kinds:?}");
}

#[test]
fn a_record_in_the_payload_of_another_file_is_none_of_this() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &events(), true);
    let whole = EventFile::open(&path).unwrap();
    let records: Vec<_> = whole.records().map(Result::unwrap).collect();
    let bytes = fs::read(&path).unwrap();
    let (first, last) = (&records[0], &records[records.len() - 1]);
    let copied = &bytes[first.offset as usize..first.end() as usize];
    let mut stray = Event::empty(event(1, 0).id, RUN, EPOCH, BUILDER);
    stray.run_id = RUN_ID;
    stray.add(SourceId::new(1), Timestamp::new(1), copied.to_vec().into());
    let other = file(&dir.path().join("other"), &[stray], false);
    let stray = EventFile::open(&other).unwrap().records().next().unwrap().unwrap();
    let mut made = vec![0; 64];
    made.extend(&fs::read(&other).unwrap()[stray.offset as usize..stray.end() as usize]);
    made.extend(&bytes[first.offset as usize..last.end() as usize]);
    fs::write(&path, made).unwrap();
    let (_, recovery, found, errors) = recovered(&path);
    let ids = |events: &[Event]| events.iter().map(|event| event.id.number()).collect::<Vec<_>>();
    assert_eq!((ids(&found), recovery), (ids(&events()), Some(Recovery::Records)), "{errors:?}");
}
