//! Events and files for tests.

use std::path::{Path, PathBuf};

use evb_core::{
    event::{Alignment, Cause, Event, MissingSource},
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::{Instant, Utc},
    units::Bytes,
};
use proptest::prelude::*;

use crate::{
    format::FormatVersion,
    writer::{EventFileWriter, FileIdentity, FsyncPolicy, WriterOptions},
};

pub(crate) const RUN: RunNumber = RunNumber::new(1);
pub(crate) const RUN_ID: RunId = RunId::new(0x5eed_cafe_0123_4567_89ab_cdef_0000_0001);
pub(crate) const EPOCH: Epoch = Epoch::new(3);
pub(crate) const BUILDER: BuilderId = BuilderId::new(1);

/// Returns the facts about a test's run.
pub(crate) fn identity(builder: BuilderId) -> FileIdentity {
    FileIdentity {
        run: RUN,
        run_id: RUN_ID,
        epoch: EPOCH,
        builder,
        begun: Utc::from_nanos(1_763_000_000_000_000_000),
        sources: (1..=4).map(SourceId::new).collect(),
        ..FileIdentity::default()
    }
}

pub(crate) fn options(rotate_at: u64) -> WriterOptions {
    WriterOptions { rotate_at: Bytes::new(rotate_at), fsync: FsyncPolicy::None, ..WriterOptions::default() }
}

pub(crate) fn options_1(rotate_at: u64) -> WriterOptions {
    WriterOptions { format: FormatVersion::One, ..options(rotate_at) }
}

/// Returns what version 1 of the format keeps of an event.
pub(crate) fn in_version_1(event: &Event) -> Event {
    let mut event = event.clone();
    (event.run_id, event.utc, event.absent) = (RunId::UNKNOWN, Utc::UNKNOWN, Vec::new());
    event.tag = 0;
    event.missing.iter_mut().for_each(|missing| missing.cause = Cause::Unknown);
    with_states(&event, |_| Alignment::Unchecked)
}

/// Returns the event with other states of alignment; `state` gets the place of each fragment.
fn with_states(event: &Event, state: impl Fn(usize) -> Alignment) -> Event {
    let mut other = Event::empty(event.id, event.run, event.epoch, event.builder);
    (other.run_id, other.triggered, other.utc) = (event.run_id, event.triggered, event.utc);
    (other.missing, other.absent) = (event.missing.clone(), event.absent.clone());
    other.tag = event.tag;
    for (place, part) in event.fragments().enumerate() {
        other.add_judged(part.source, part.timestamp, state(place), part.payload.to_vec().into());
        other.set_lost_packets(part.source, part.lost_packets);
    }
    other
}

/// Returns an event with two fragments, of which that of source 2 belongs to another event.
pub(crate) fn misaligned(id: u64) -> Event {
    with_states(&event(id, 5), |place| [Alignment::Agrees, Alignment::Disagrees][place])
}

/// Returns an event with fragments of `size` bytes from sources 1 and 2; the content depends on the
/// event id.
pub(crate) fn event(id: u64, size: usize) -> Event {
    event_of(id, size, EPOCH, BUILDER)
}

/// Returns an event with payloads of this size from two sources.
pub(crate) fn event_of(id: u64, size: usize, epoch: Epoch, builder: BuilderId) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, epoch, builder);
    event.run_id = RUN_ID;
    event.triggered = Instant::from_nanos(id * 1000);
    event.utc = Utc::from_nanos(1_763_000_000_000_000_000 + id * 1000);
    for source in 1..=2 {
        let payload: Vec<u8> = (0..size).map(|byte| (byte as u64 * 31 + id * 7 + source) as u8).collect();
        event.add(SourceId::new(source as u16), Timestamp::new(id << 8), payload.into());
    }
    event
}

/// Returns an event with two fragments of 5 bytes, from sources 1 and 2, and with source 3 missing.
pub(crate) fn incomplete(id: u64) -> Event {
    let mut event = event(id, 5);
    event.missing = vec![MissingSource::new(SourceId::new(3), Cause::Down)];
    event
}

/// Returns an event that is complete without source 4, which is excluded.
pub(crate) fn without_excluded(id: u64) -> Event {
    let mut event = event(id, 5);
    event.absent = vec![MissingSource::new(SourceId::new(4), Cause::Excluded)];
    event
}

/// Copies files into a directory as an operator does who collects them from several places: a
/// writer refuses to write two runs of one number into one directory.
pub(crate) fn together(dir: &Path, write: impl FnOnce(&Path)) {
    let place = tempfile::tempdir().unwrap();
    write(place.path());
    std::fs::create_dir_all(dir).unwrap();
    for file in crate::files_at(place.path()).unwrap() {
        std::fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
    }
}

/// Writes the events to files of one builder, closes the files, and returns their paths.
pub(crate) fn write(dir: &Path, builder: BuilderId, rotate_at: u64, events: &[Event]) -> Vec<PathBuf> {
    let mut writer = EventFileWriter::create(dir, identity(builder), options(rotate_at)).unwrap();
    for event in events {
        writer.append(event).unwrap();
    }
    writer.close().unwrap();
    let files = crate::existing_files(dir, RUN).unwrap();
    let mine = format!("_b{:02}_", builder.number());
    files.into_iter().filter(|path| path.to_str().unwrap().contains(&mine)).collect()
}

prop_compose! {
    /// Draws an event with any content.
    pub(crate) fn any_event()(
        id in any::<u64>(),
        epoch in any::<u64>(),
        triggered in any::<u64>(),
        utc in any::<u64>(),
        tag in prop_oneof![Just(0), any::<u64>()],
        missing in prop::collection::vec(any::<(u16, u8)>(), 0..5),
        absent in prop::collection::vec(any::<(u16, u8)>(), 0..5),
        fragments in prop::collection::vec((any::<u16>(), any::<u64>(), 0u8..4, payload()), 0..6),
    ) -> Event {
        let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(epoch), BUILDER);
        event.triggered = Instant::from_nanos(triggered);
        let entry = |(id, code)| MissingSource::new(SourceId::new(id), Cause::from_code(code));
        (event.run_id, event.utc, event.tag) = (RUN_ID, Utc::from_nanos(utc), tag);
        event.missing = missing.into_iter().map(entry).collect();
        event.absent = absent.into_iter().map(entry).collect();
        for (source, timestamp, code, payload) in fragments {
            let (source, state) = (SourceId::new(source), Alignment::from_code(code));
            event.add_judged(source, Timestamp::new(timestamp), state, payload.into());
        }
        event
    }
}

/// Generates payloads that are mostly small, and sometimes too large for the writer to copy them
/// into its buffer.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..100),
        1 => (any::<u8>(), 10_000usize..90_000).prop_map(|(byte, size)| vec![byte; size]),
    ]
}
