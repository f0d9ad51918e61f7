use std::{
    fs::{self, File},
    num::NonZeroUsize,
    path::Path,
    sync::Arc,
};

use evb_core::{
    event::{Alignment, Cause, Event, MissingSource},
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    time::{Instant, Utc},
    units::Bytes,
};
use proptest::prelude::*;

use super::{
    super::EventFile,
    Batch, Batches, READ, ReadAhead,
    ahead::head_from,
    part::{Memory, head_at},
};
use crate::{
    EventFileWriter, ReadError,
    format::{Flaw, encode_head, record_size},
    samples::{BUILDER, any_event, event, identity, incomplete, options, write},
};

/// Returns the events of a batch in the form of the other reader.
fn events_of(batch: &Batch, data: &[u8]) -> Vec<Event> {
    assert_eq!(batch.first_missing.len(), batch.len() + 1);
    assert_eq!(batch.first_fragments.len(), batch.len() + 1);
    let event = |row: usize| {
        let id = EventId::new(batch.events[row]);
        let (run, epoch) = (RunNumber::new(batch.runs[row]), Epoch::new(batch.epochs[row]));
        let mut event = Event::empty(id, run, epoch, BuilderId::new(batch.builders[row]));
        (event.run_id, event.utc) = (batch.run_ids[row], Utc::from_nanos(batch.utc[row]));
        event.triggered = Instant::from_nanos(batch.triggered[row]);
        event.tag = batch.tags[row];
        let missing = batch.first_missing[row] as usize..batch.first_missing[row + 1] as usize;
        event.missing = batch.missing[missing.clone()]
            .iter()
            .zip(&batch.causes[missing])
            .map(|(id, code)| MissingSource::new(SourceId::new(*id), Cause::from_code(*code)))
            .collect();
        let absent = batch.first_absent[row] as usize..batch.first_absent[row + 1] as usize;
        event.absent = batch.absent[absent.clone()]
            .iter()
            .zip(&batch.absent_causes[absent])
            .map(|(id, code)| MissingSource::new(SourceId::new(*id), Cause::from_code(*code)))
            .collect();
        for part in batch.first_fragments[row] as usize..batch.first_fragments[row + 1] as usize {
            let (begin, length) = (batch.offsets[part] as usize, batch.lengths[part] as usize);
            let payload = data[begin..begin + length].to_vec();
            let timestamp = Timestamp::new(batch.timestamps[part]);
            let (source, state) =
                (SourceId::new(batch.sources[part]), Alignment::from_code(batch.alignments[part]));
            event.add_judged(source, timestamp, state, payload.into());
        }
        event
    };
    (0..batch.len()).map(event).collect()
}

/// Events and findings of a file.
type Content = (Vec<Event>, Vec<String>);

fn one_by_one(file: &EventFile) -> Content {
    let (mut events, mut findings) = (Vec::new(), Vec::new());
    for item in file.events() {
        match item {
            Ok(event) => events.push(event),
            Err(error) => findings.push(format!("{error:?}")),
        }
    }
    (events, findings)
}

fn gather(content: &mut Content, batch: &Batch, data: &[u8], most: usize) {
    assert!(batch.len() <= most && !(batch.is_empty() && batch.findings.is_empty()));
    content.0.extend(events_of(batch, data));
    content.1.extend(batch.findings.iter().map(|error| format!("{error:?}")));
}

fn mapped(file: &EventFile, memory: &[u8], most: usize) -> Content {
    let (mut batches, mut content) = (Batches::new(file), Content::default());
    while let Some(batch) = batches.next_in(memory, most) {
        gather(&mut content, &batch, &memory[batch.start as usize..batch.end as usize], most);
    }
    content
}

fn read(file: &EventFile, most: usize) -> Content {
    let (mut batches, mut memory) = (Batches::new(file), Vec::new());
    let mut content = Content::default();
    while let Some(batch) = batches.read_next(&mut memory, most) {
        assert_eq!(memory.len() as u64, batch.end - batch.start);
        gather(&mut content, &batch, &memory, most);
    }
    content
}

fn ahead(file: &Arc<EventFile>, memory: &Arc<[u8]>, threads: NonZeroUsize, most: usize) -> Content {
    let mut content = Content::default();
    for batch in ReadAhead::new(Arc::clone(file), Arc::clone(memory), most, threads) {
        gather(&mut content, &batch, &memory[batch.start as usize..batch.end as usize], most);
    }
    content
}

/// Compares both ways to read batches with the iterator over events.
fn same(path: &Path, data: &[u8], what: &str) {
    fs::write(path, data).unwrap();
    let Ok(file) = EventFile::open(path) else { return };
    let expected = one_by_one(&file);
    for most in [1, 2, 1000] {
        assert_eq!(mapped(&file, data, most), expected, "{what}, {most} events at a time, in memory");
        assert_eq!(read(&file, most), expected, "{what}, {most} events at a time, read");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn batches_have_the_events_of_the_iterator(events in prop::collection::vec(any_event(), 0..12)) {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), BUILDER, u64::MAX, &events).remove(0);
        let file = EventFile::open(&path).unwrap();
        for most in [1, 5, 1000] {
            prop_assert_eq!(mapped(&file, &fs::read(&path).unwrap(), most), (events.clone(), vec![]));
            prop_assert_eq!(read(&file, most), (events.clone(), vec![]));
        }
    }
}

#[test]
fn batches_have_the_findings_of_the_iterator() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, &[event(1, 5), incomplete(2), event(3, 0)]).remove(0);
    let (data, copy) = (fs::read(&path).unwrap(), dir.path().join("copy.evb"));
    for place in 0..data.len() {
        same(&copy, &data[..place], &format!("cut at {place}"));
        let mut flipped = data.clone();
        flipped[place] ^= 0x10;
        same(&copy, &flipped, &format!("bit of {place} flipped"));
        let (before, after) = data.split_at(place);
        same(&copy, &[before, &vec![0; after.len()]].concat(), &format!("zeros from {place}"));
        let marked = [before, b"EVX2", after.get(4..).unwrap_or_default()].concat();
        same(&copy, &marked, &format!("mark of an index at {place}"));
        same(&copy, &[&data, before].concat(), &format!("the first {place} bytes again"));
        same(&copy, &[&data, after].concat(), &format!("all from {place} again"));
    }
}

#[test]
fn a_record_may_be_longer_than_a_read() {
    let dir = tempfile::tempdir().unwrap();
    let large = READ as usize / 2 + 4096;
    let events = [event(1, 100), event(2, large), event(3, 100), event(4, large), event(5, 100)];
    let path = write(dir.path(), BUILDER, u64::MAX, &events).remove(0);
    let file = EventFile::open(&path).unwrap();
    assert_eq!(read(&file, 1000), (events.to_vec(), vec![]));

    let small = EventFile::open(&path).unwrap().with_record_limit(Bytes::mib(1));
    let (events, findings) = read(&small, 1000);
    assert_eq!(events.iter().map(|event| event.id.number()).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(findings, one_by_one(&small).1);
    assert_eq!(findings.len(), 2);
}

#[test]
fn a_file_that_shrinks_ends_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let events: Vec<Event> = (1..=20).map(|id| event(id, 100)).collect();
    let mut writer = EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
    for event in &events {
        writer.append(event).unwrap();
    }
    writer.commit().unwrap();
    let (path, file) = (writer.path(), EventFile::open(writer.path()).unwrap());
    let middle = file.records().nth(10).unwrap().unwrap().offset;
    let whole = fs::read(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(middle + 8).unwrap();

    let mut batches = Batches::new(&file);
    let batch = batches.read_next(&mut Vec::new(), 1000).unwrap();
    assert!(matches!(batch.findings[..], [ReadError::File(_)]), "{batch:?}");
    let batch = Batches::new(&file).next_in(&whole[..middle as usize], 1000).unwrap();
    assert_eq!(batch.len(), 10);
    let mut short = Batches::new(&file);
    assert_eq!(short.next_in(&whole[..100], 1000).unwrap().findings.len(), 1);
    assert!(short.next_in(&whole[..100], 1000).is_none());
}

#[test]
fn memory_that_differs_from_the_file_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, &[event(1, 5), event(2, 5)]).remove(0);
    let (file, mut memory) = (EventFile::open(&path).unwrap(), fs::read(&path).unwrap());
    let second = file.records().nth(1).unwrap().unwrap().offset;
    memory[second as usize + 20] ^= 1;
    let batch = Batches::new(&file).next_in(&memory, 1000).unwrap();
    assert_eq!(batch.events, [1]);
    match &batch.findings[..] {
        [ReadError::Damaged { offset, flaw, .. }] => {
            assert_eq!((*offset, *flaw), (second, Flaw::HeadChecksum));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_threads_find_the_same_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let events: Vec<_> = (1..=300).map(|id| event(id, 20_000)).collect();
    let path = write(dir.path(), BUILDER, u64::MAX, &events).remove(0);
    let mut memory = fs::read(&path).unwrap();
    let whole = memory.len();
    for place in [whole / 5, whole / 2, whole * 9 / 10] {
        memory[place] ^= 1;
    }
    fs::write(&path, &memory).unwrap();
    let file = EventFile::open(&path).unwrap();
    let (file, memory) = (Arc::new(file), Arc::from(memory));
    let expected = one_by_one(&file);
    assert_eq!((expected.0.len(), expected.1.len()), (297, 3));
    for threads in [1, 2, 3, 8] {
        let threads = NonZeroUsize::new(threads).unwrap();
        assert_eq!(ahead(&file, &memory, threads, 50), expected, "{threads} threads");
    }
}

#[test]
fn threads_start_for_a_file_of_several_pieces_and_again_after_damage() {
    let dir = tempfile::tempdir().unwrap();
    let events: Vec<_> = (1..=300).map(|id| event(id, 1000)).collect();
    let path = write(dir.path(), BUILDER, u64::MAX, &events).remove(0);
    let mut memory = fs::read(&path).unwrap();
    let damaged = EventFile::open(&path).unwrap().records().nth(100).unwrap().unwrap().offset;
    memory[damaged as usize + 24] ^= 1;
    let (file, memory) = (Arc::new(EventFile::open(&path).unwrap()), Arc::<[u8]>::from(memory));
    let mut reader = ReadAhead::new(file, memory, 10, NonZeroUsize::new(2).unwrap());
    let (mut threads, mut found) = (Vec::new(), 0);
    while let Some(batch) = reader.next() {
        found += batch.len();
        threads.push(reader.has_threads());
    }
    assert_eq!(found, 299);
    let changes = threads.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(threads[0] && changes == 3, "on, off at the damage, on, off at the end: {threads:?}");
}

/// Reads a file with several threads in all sizes of batches, and compares with the iterator over
/// events.
fn same_in_parts(path: &Path, data: &[u8], what: &str) {
    fs::write(path, data).unwrap();
    let (file, data) = (Arc::new(EventFile::open(path).unwrap()), Arc::from(data));
    let expected = one_by_one(&file);
    for (threads, most) in [(2, 100), (3, 70), (4, 1), (2, 30), (8, 20), (2, 1000)] {
        let content = ahead(&file, &data, NonZeroUsize::new(threads).unwrap(), most);
        // A comparison of megabytes would print them.
        assert_eq!(content.1, expected.1, "{what}, {threads} threads, {most} at a time");
        assert!(content == expected, "{what}, {threads} threads, {most} at a time: other events");
    }
}

#[test]
fn parts_of_a_damaged_file_give_the_same_as_one_thread() {
    let dir = tempfile::tempdir().unwrap();
    // The sizes differ, so the batches overfill and have parts that are dropped.
    let events: Vec<_> =
        (1..=250).map(|id| event(id, 10 * (id as usize % 17) * (id as usize / 50 + 1))).collect();
    let path = write(dir.path(), BUILDER, u64::MAX, &events).remove(0);
    let (data, copy) = (fs::read(&path).unwrap(), dir.path().join("copy.evb"));
    let records: Vec<_> =
        EventFile::open(&path).unwrap().records().map(|item| item.unwrap().offset).collect();
    assert!(data.len() > 100_000);
    same_in_parts(&copy, &data, "whole");
    same_in_parts(&copy, &data[..data.len() - 4], "no index");
    for (first, second) in [(0, 249), (1, 70), (80, 81), (125, 126), (200, 240)] {
        let mut broken = data.clone();
        for record in [first, second] {
            broken[records[record] as usize + 24] ^= 1;
        }
        same_in_parts(&copy, &broken, &format!("heads {first} and {second}"));
        let (begin, end) = (records[first] as usize, records[second] as usize);
        let zeros = [&data[..begin], &vec![0; end - begin], &data[end..]].concat();
        same_in_parts(&copy, &zeros, &format!("zeros from {first} to {second}"));
        let repeated = [&data[..end], &data[begin..]].concat();
        same_in_parts(&copy, &repeated, &format!("{first} to {second} twice"));
        same_in_parts(&copy, &data[..end + 5], &format!("cut in {second}"));
        let shifted = [&data[..begin], &[7; 3], &data[begin..]].concat();
        same_in_parts(&copy, &shifted, &format!("3 bytes before {first}"));
    }
    // The damage is at each border of two parts once.
    for (row, record) in records.iter().enumerate() {
        let mut broken = data.clone();
        broken[*record as usize + 24] ^= 1;
        same_in_parts(&copy, &broken, &format!("head {row}"));
    }
}

#[test]
fn records_in_payloads_are_no_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
    writer.commit().unwrap();
    let path = writer.path();
    // The records in the payloads have the tag of the file, as no payload from outside has.
    let tag = EventFile::open(&path).unwrap().tag();
    let mut records = Vec::new();
    for id in 1000..1100 {
        let inner = event(id, 52);
        encode_head(&inner, record_size(&inner, tag.version).unwrap(), &tag, &mut records);
        inner.fragments().for_each(|fragment| records.extend_from_slice(fragment.payload));
    }
    let whole = records.repeat(2);
    for id in 1..=61 {
        let mut outer = event(id, 8);
        outer.add(SourceId::new(3), Timestamp::new(0), whole.clone().into());
        writer.append(&outer).unwrap();
    }
    writer.close().unwrap();
    let data = fs::read(&path).unwrap();
    let inside = data.len() / 2 / 8 * 8;
    let file = EventFile::open(&path).unwrap();
    let memory = Memory { bytes: &data, at: 0 };
    let fake = head_from(&file, memory, inside as u64, data.len() as u64).unwrap();
    assert!(head_at(&file, memory, fake).unwrap().event.number() >= 1000, "the test has no fake start");
    same_in_parts(&dir.path().join("copy.evb"), &data, "records in payloads");
}
