//! Fuzz target for event files: arbitrary bytes, and arbitrary bytes with corrected checksums.

pub mod files;

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use evb::input::Replay;
use evb_core::{event::Event, fragment::Checksum, id::SourceId};
use evb_file::{
    Batch, Batches, EventFile, EventStream, IndexState, ReadAhead, Selection, VerifyOptions, dump,
    format::{FormatVersion, INDEX_MAGIC, INDEX_MAGIC_1},
    verify,
};

use files::mend;

/// Path of the file that the fuzzed bytes are written to: in `/dev/shm`, which is memory, if this
/// folder exists.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("evb-fuzz-{}.evb", std::process::id()))
});

/// Reads the bytes as an event file with every reader, first unchanged and then with corrected
/// checksums.
///
/// # Panics
/// Panics if two readers contradict each other.
pub fn check(data: &[u8]) {
    read(data);
    let mut mended = data.to_vec();
    if mend(&mut mended).is_some() {
        read(&mended);
    }
}

fn read(bytes: &[u8]) {
    fs::write(&*PLACE, bytes).expect("room for a small file");
    if let Ok(file) = EventFile::open(&*PLACE).map(Arc::new) {
        walk(&file, bytes.len());
        in_batches(&file, bytes);
        let replayed = Replay::recorded(&PLACE, SourceId::new(1), &Selection::default());
        assert!(replayed.is_ok_and(|replay| replay.len() > 0) || file.path() == &*PLACE);
    }
    as_stream(bytes);
    let report = verify(std::slice::from_ref(&PLACE), &VerifyOptions::default());
    assert!(report.is_ok_and(|report| !report.to_string().is_empty()));
    fs::remove_file(&*PLACE).expect("our own file");
}

fn as_stream(bytes: &[u8]) {
    let Ok(mut stream) = EventStream::new(bytes, "a stream") else { return };
    let mut end = stream.header_bytes().len() as u64;
    while let Some(record) = stream.next() {
        match record {
            Ok(record) => {
                assert_eq!((record.offset, record.length.count()), (end, stream.bytes().len() as u64));
                end += record.length.count();
                if let Ok(event) = stream.event() {
                    look_at(&event);
                    assert_eq!(event.fragments().len(), record.fragments.len());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn walk(file: &EventFile, length: usize) {
    let (mut intact, mut end) = (0, 0);
    for record in file.records() {
        match record {
            Ok(record) => {
                assert!(record.offset >= end && record.offset + record.length.count() <= length as u64);
                end = record.offset + record.length.count();
                intact += 1;
                if let Ok(event) = file.read(&record) {
                    look_at(&event);
                    assert_eq!(event.fragments().len(), record.fragments.len());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    file.events().flatten().for_each(|event| look_at(&event));
    let entries = file.index_entries(0, 10).unwrap_or_default();
    if file.index_state() != IndexState::Present {
        assert_eq!(file.index_len().ok(), Some(intact));
    }
    for entry in entries {
        if let Ok(event) = file.event_at(entry) {
            assert_eq!((event.id, event.epoch), (entry.event, entry.epoch));
        }
        let _ = file.event(entry.event);
        let _ = file.event_in_epoch(entry.event, entry.epoch);
    }
    dump::list(file, dump::ListOptions { fragments: true, epochs: None }, &mut std::io::sink())
        .expect("a file in memory");
}

/// Reads the file in batches, from memory, by reading and on two threads, and compares with the
/// iterator.
fn in_batches(file: &Arc<EventFile>, bytes: &[u8]) {
    let (mut events, mut findings) = (Vec::new(), Vec::new());
    for item in file.events() {
        match item {
            Ok(event) => events.push((event.id.number(), event.payload_size().count())),
            Err(error) => findings.push(error.to_string()),
        }
    }
    let (mut from_memory, mut by_reading, mut memory) =
        (Batches::new(&**file), Batches::new(&**file), Vec::new());
    let in_memory = std::iter::from_fn(|| from_memory.next_in(bytes, 3));
    let read = std::iter::from_fn(|| by_reading.read_next(&mut memory, 3));
    let threads = const { NonZeroUsize::new(2).unwrap() };
    let ahead = ReadAhead::new(Arc::clone(file), Arc::<[u8]>::from(bytes), 3, threads);
    for batches in [in_memory.collect::<Vec<_>>(), read.collect(), ahead.collect()] {
        let found: Vec<_> = batches.iter().flat_map(rows).collect();
        let told = batches.iter().flat_map(|batch| &batch.findings).map(ToString::to_string);
        assert_eq!((found, told.collect::<Vec<_>>()), (events.clone(), findings.clone()));
    }
}

/// Returns the id and the payload size of each event of a batch.
fn rows(batch: &Batch) -> impl Iterator<Item = (u64, u64)> + '_ {
    batch.events.iter().zip(batch.first_fragments.windows(2)).map(|(event, rows)| {
        let lengths = &batch.lengths[rows[0] as usize..rows[1] as usize];
        (*event, lengths.iter().map(|length| u64::from(*length)).sum())
    })
}

fn look_at(event: &Event) {
    event.fragments().for_each(|fragment| assert_eq!(Checksum::of(fragment.payload), fragment.checksum));
    dump::hex(event, &mut std::io::sink()).expect("a sink takes all");
}

/// Returns the seed corpus, of both versions: a closed event file, a file without an index, a file
/// truncated within a record, a file without events, and a closed one whose header is damaged.
///
/// # Panics
/// Panics if the file system has no room for a small file.
pub fn seeds() -> Vec<Vec<u8>> {
    let folder = PLACE.with_extension("seeds");
    let of = |format| {
        let closed = files::closed(&folder, 3, format);
        let index = closed.windows(8).rposition(|bytes| is_index(bytes)).expect("a closed file");
        let mut damaged = closed.clone();
        damaged[17] ^= 1;
        let torn = closed[..index - 7].to_vec();
        [closed[..index].to_vec(), torn, files::closed(&folder, 0, format), damaged, closed]
    };
    [FormatVersion::One, FormatVersion::Two].into_iter().flat_map(of).collect()
}

/// Returns true for the beginning of an index: the magic number and the length of an entry.
fn is_index(bytes: &[u8]) -> bool {
    [INDEX_MAGIC_1, INDEX_MAGIC].iter().any(|magic| bytes.starts_with(magic)) && bytes[4..] == [24, 0, 0, 0]
}
