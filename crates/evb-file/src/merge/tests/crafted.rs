//! Files that contradict themselves, with right checksums.

use std::{fs, path::Path};

use evb_core::id::{EventId, RunNumber};

use super::{super::few_of_each_file, all, builder, merge, read};
use crate::{
    EventFile, EventFileWriter, IndexState,
    format::{encode_head, record_size},
    index::IndexEntry,
    samples::{BUILDER, EPOCH, event_of, identity, options, options_1, write},
};

/// Replaces the closing block of a file by one whose checksum is right, and whose index lacks the
/// event.
fn hide(path: &Path, event: u64) {
    with_index(path, |entries| entries.retain(|entry| entry.event.number() != event));
}

/// Replaces the closing block of a file by one with other entries, whose checksum is right.
fn with_index(path: &Path, change: impl FnOnce(&mut Vec<IndexEntry>)) {
    let file = EventFile::open(path).unwrap();
    let mut entries = file.index_entries(0, usize::MAX).unwrap();
    change(&mut entries);
    let end = file.records().last().unwrap().unwrap().end();
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(end as usize);
    file.block()
        .write(&mut entries, end, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<(), ()>(())
        })
        .unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_index_hides_no_event() {
    for format in [options_1(u64::MAX), options(u64::MAX)] {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("in"), dir.path().join("out"));
        let mut writer = EventFileWriter::create(&input, identity(BUILDER), format).unwrap();
        for id in 1..=10 {
            writer.append(&event_of(id, 40, EPOCH, BUILDER)).unwrap();
        }
        let path = writer.path();
        writer.close().unwrap();
        assert!(EventFile::open(&path).unwrap().has_whole_index().unwrap());
        hide(&path, 5);
        let file = EventFile::open(&path).unwrap();
        assert_eq!((file.index_state(), file.has_whole_index().unwrap()), (IndexState::Present, false));
        assert_eq!((file.index_len().unwrap(), file.events().count()), (10, 10));
        assert!(file.event(EventId::new(5)).unwrap().is_some());
        let report = merge(&[input], &all(), &out, options(u64::MAX)).unwrap();
        assert_eq!((report.written.events, report.damaged.total), (10, 1), "{report:?}");
        assert!(report.damaged.first[0].contains("the index does not match"), "{report:?}");
    }
}

#[test]
fn an_index_adds_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    // The payload of event 2 ends with a record that has the file's tag.
    let first = event_of(1, 0, EPOCH, BUILDER);
    let path = write(&input, BUILDER, u64::MAX, &[first, event_of(2, 200, EPOCH, BUILDER)]).remove(0);
    let file = EventFile::open(&path).unwrap();
    let size = record_size(&event_of(9, 0, EPOCH, BUILDER), file.tag().version).unwrap();
    let mut inner = Vec::new();
    encode_head(&event_of(9, 0, EPOCH, BUILDER), size, &file.tag(), &mut inner);
    let second = file.records().last().unwrap().unwrap();
    let at = second.payload_offset().next_multiple_of(8);
    let hidden = IndexEntry { event: EventId::new(9), epoch: EPOCH, offset: at };
    let mut bytes = fs::read(&path).unwrap();
    bytes[at as usize..][..inner.len()].copy_from_slice(&inner);
    fs::write(&path, bytes).unwrap();
    let whole = fs::read(&path).unwrap();
    for what in ["twice", "hidden"] {
        fs::write(&path, &whole).unwrap();
        with_index(&path, |entries| entries.push(if what == "twice" { entries[0] } else { hidden }));
        assert_eq!(EventFile::open(&path).unwrap().index_len().unwrap(), 2, "{what}");
        let _ = fs::remove_dir_all(&out);
        let report = merge(std::slice::from_ref(&input), &all(), &out, options(u64::MAX)).unwrap();
        let told = report.damaged.first.join(" ");
        assert!(told.contains("the index does not match"), "{what}: {report:?}");
        assert_eq!(
            (report.written.events, report.duplicates),
            (1, 0),
            "{what}: event 2 is damaged: {report:?}"
        );
    }
}

#[test]
fn bytes_between_records_that_no_index_names_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let path = write(&input, BUILDER, u64::MAX, &[1, 2].map(|id| event_of(id, 40, EPOCH, BUILDER))).remove(0);
    let file = EventFile::open(&path).unwrap();
    let second = file.records().last().unwrap().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(second.end() as usize);
    bytes.splice(second.offset as usize..second.offset as usize, [b'x'; 64]);
    let mut entries = file.index_entries(0, 2).unwrap();
    entries[1].offset += 64;
    let write = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok::<(), ()>(())
    };
    file.block().write(&mut entries, second.end() + 64, write).unwrap();
    fs::write(&path, bytes).unwrap();
    let report = merge(&[input], &all(), &out, options(u64::MAX)).unwrap();
    assert_eq!(report.written.events, 2);
    assert!(report.damaged.first.iter().any(|told| told.contains("64 B skipped")), "{report:?}");
}

#[test]
fn a_record_of_another_run_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let path = write(&input, BUILDER, u64::MAX, &[event_of(1, 0, EPOCH, BUILDER)]).remove(0);
    let (mut bytes, tag) = EventFile::open(&path).unwrap().header().encode();
    let mut strays = [2, 3, 4].map(|id| event_of(id, 0, EPOCH, BUILDER));
    (strays[1].run, strays[2].builder) = (RunNumber::new(9), builder(9));
    for event in &strays {
        encode_head(event, record_size(event, tag.version).unwrap(), &tag, &mut bytes);
    }
    fs::write(&path, bytes).unwrap();
    write(&input, builder(2), u64::MAX, &[event_of(6, 40, EPOCH, builder(2))]);
    let report = merge(&[input], &all(), &out, options(u64::MAX)).unwrap();
    let ids: Vec<u64> = read(&out).iter().map(|event| event.id.number()).collect();
    assert_eq!((&ids[..], report.damaged.total), (&[2, 6][..], 2), "{report:?}");
    assert!(
        report.damaged.first[0].contains("the record belongs to another run or builder than the file"),
        "{report:?}"
    );
}

#[test]
fn much_damage_in_one_file_hides_no_other_file() {
    let mut damage: Vec<String> = (0..12).map(|at| format!("a.evb at byte {at}: damaged record")).collect();
    damage.push("b.evb at byte 7: torn tail".to_owned());
    damage.push("c.evb: the header is damaged".to_owned());
    let shown = few_of_each_file(&damage);
    assert_eq!(
        (shown.len(), &shown[10..]),
        (12, &["b.evb at byte 7: torn tail", "c.evb: the header is damaged"][..])
    );
}
