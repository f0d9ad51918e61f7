//! Events and files for tests.

use std::path::{Path, PathBuf};

use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    time::Instant,
    units::Bytes,
};
use proptest::prelude::*;

use crate::writer::{EventFileWriter, FileIdentity, FsyncPolicy, WriterOptions};

pub(crate) const RUN: RunNumber = RunNumber::new(1);
pub(crate) const EPOCH: Epoch = Epoch::new(3);
pub(crate) const BUILDER: BuilderId = BuilderId::new(1);

pub(crate) fn identity(builder: BuilderId) -> FileIdentity {
    FileIdentity { run: RUN, epoch: EPOCH, builder, sources: (1..=4).map(SourceId::new).collect() }
}

pub(crate) fn options(rotate_at: u64) -> WriterOptions {
    WriterOptions { rotate_at: Bytes::new(rotate_at), fsync: FsyncPolicy::None }
}

/// Returns an event with fragments of `size` bytes from sources 1 and 2; the content depends on the
/// event id.
pub(crate) fn event(id: u64, size: usize) -> Event {
    event_of(id, size, EPOCH, BUILDER)
}

pub(crate) fn event_of(id: u64, size: usize, epoch: Epoch, builder: BuilderId) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, epoch, builder);
    event.triggered = Instant::from_nanos(id * 1000);
    for source in 1..=2 {
        let payload: Vec<u8> = (0..size).map(|byte| (byte as u64 * 31 + id * 7 + source) as u8).collect();
        event.add(SourceId::new(source as u16), Timestamp::new(id << 8), payload.into());
    }
    event
}

/// Returns an event with two fragments of 5 bytes, from sources 1 and 2, and with source 3 missing.
pub(crate) fn incomplete(id: u64) -> Event {
    let mut event = event(id, 5);
    event.missing = vec![MissingSource::new(SourceId::new(3), Cause::Unknown)];
    event
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
    pub(crate) fn any_event()(
        id in any::<u64>(),
        epoch in any::<u64>(),
        triggered in any::<u64>(),
        missing in prop::collection::vec(any::<u16>(), 0..5),
        fragments in prop::collection::vec((any::<u16>(), any::<u64>(), payload()), 0..6),
    ) -> Event {
        let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(epoch), BUILDER);
        event.triggered = Instant::from_nanos(triggered);
        event.missing = missing.into_iter().map(|id| MissingSource::new(SourceId::new(id), Cause::Unknown)).collect();
        for (source, timestamp, payload) in fragments {
            event.add(SourceId::new(source), Timestamp::new(timestamp), payload.into());
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
