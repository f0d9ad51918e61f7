use std::{
    fs,
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use evb_core::{
    event::Event,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber},
    units::Bytes,
};
use proptest::prelude::*;

use super::{
    EventFileWriter, FileIdentity, FsyncPolicy, WriterOptions,
    disk::{Disk, LocalDisk, Storage},
};
use crate::{
    CreateError, EventFile, EventRefusal, IndexState, VerifyOptions, WriteError, existing_files,
    format::MAX_RECORDS,
    highest_run,
    samples::{BUILDER, RUN, event, event_of, identity, options, write},
    verify,
};

/// A file system that accepts only a limited number of further bytes.
#[derive(Clone, Debug, Default)]
struct FullDisk {
    left: Arc<AtomicU64>,
    /// True if files can be neither truncated nor synced.
    broken: Arc<AtomicBool>,
    syncs: Arc<AtomicU64>,
    synced: Arc<Mutex<Vec<PathBuf>>>,
}

#[derive(Debug)]
struct FullStorage(Box<dyn Storage>, FullDisk);

impl Disk for FullDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Storage>> {
        Ok(Box::new(FullStorage(LocalDisk.create(path)?, self.clone())))
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.syncs.fetch_add(1, Relaxed);
        self.synced.lock().unwrap().push(dir.to_owned());
        LocalDisk.sync_dir(dir)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        LocalDisk.remove(path)
    }
}

impl Storage for FullStorage {
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let left = self.1.left.load(Relaxed) as usize;
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        if left == 0 {
            return Err(io::Error::from_raw_os_error(28));
        }
        let written = self.0.write_vectored(&[IoSlice::new(&first[..first.len().min(left)])])?;
        self.1.left.fetch_sub(written as u64, Relaxed);
        Ok(written)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.1.broken.load(Relaxed) {
            Err(io::Error::from_raw_os_error(5))
        } else {
            self.0.truncate(length)
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.syncs.fetch_add(1, Relaxed);
        if self.1.broken.load(Relaxed) { Err(io::Error::from_raw_os_error(5)) } else { self.0.sync() }
    }

    fn named_length(&self) -> io::Result<Option<u64>> {
        self.0.named_length()
    }
}

fn writer_on(disk: &FullDisk, dir: &Path, options: WriterOptions) -> Result<EventFileWriter, CreateError> {
    EventFileWriter::begin(dir.to_owned(), identity(BUILDER), false, options, Box::new(disk.clone()))
}

/// Returns a writer whose commits survive a power cut, on a simulated disk with 1 MiB of free
/// space.
fn syncing(dir: &Path) -> (FullDisk, EventFileWriter) {
    let disk = FullDisk::default();
    disk.left.store(1 << 20, Relaxed);
    let options =
        WriterOptions { rotate_at: Bytes::MAX, fsync: FsyncPolicy::Commit, ..WriterOptions::default() };
    let writer = writer_on(&disk, dir, options).unwrap();
    (disk, writer)
}

fn read_all(dir: &Path) -> Vec<Event> {
    let files = existing_files(dir, RUN).unwrap();
    let events = files.iter().flat_map(|path| {
        let file = EventFile::open(path).unwrap();
        file.events().map(|event| event.unwrap()).collect::<Vec<_>>()
    });
    events.collect()
}

#[test]
fn committed_events_survive_without_close() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
    let events = [event(1, 10), event(2, 100_000), event(3, 10)];
    for event in &events {
        writer.append(event).unwrap();
    }
    writer.commit().unwrap();
    writer.append(&event(4, 10)).unwrap();
    assert_eq!(writer.written().events, 3);
    drop(writer);
    assert_eq!(read_all(dir.path()), events);
}

#[test]
fn a_writer_may_live_on_a_thread_of_its_own() {
    fn is_send<T: Send>() {}
    is_send::<EventFileWriter>();
}

#[test]
fn files_rotate_between_records_and_stay_below_the_size() {
    let dir = tempfile::tempdir().unwrap();
    let events: Vec<Event> = (1..=100).map(|id| event(id, id as usize * 3)).collect();
    let files = write(dir.path(), BUILDER, 4096, &events);
    assert!(files.len() > 8, "{files:?}");
    for (sequence, path) in files.iter().enumerate() {
        assert!(fs::metadata(path).unwrap().len() <= 4096, "{path:?}");
        let file = EventFile::open(path).unwrap();
        assert_eq!(file.header().sequence as usize, sequence);
        assert_eq!(file.index_state(), IndexState::Present);
    }
    assert_eq!(read_all(dir.path()), events);
}

#[test]
fn an_event_larger_than_a_file_has_one_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let events = [event(1, 10), event(2, 50_000), event(3, 10)];
    assert_eq!(write(dir.path(), BUILDER, 4096, &events).len(), 3);
    assert_eq!(read_all(dir.path()), events);
}

#[test]
fn no_file_has_more_records_than_a_reader_takes_an_index_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
    let mut empty = Event::empty(EventId::FIRST, RUN, crate::samples::EPOCH, BUILDER);
    for id in 1..=MAX_RECORDS as u64 + 1 {
        empty.id = EventId::new(id);
        writer.append(&empty).unwrap();
    }
    writer.close().unwrap();
    let files = existing_files(dir.path(), RUN).unwrap();
    let first = EventFile::open(&files[0]).unwrap();
    assert_eq!((first.index_state(), first.index_len().unwrap()), (IndexState::Present, MAX_RECORDS));
    assert_eq!(EventFile::open(&files[1]).unwrap().index_len().unwrap(), 1);
}

#[test]
fn a_builder_that_was_killed_goes_on_behind_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let create = || EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
    let mut killed = create();
    killed.append(&event(1, 1)).unwrap();
    killed.commit().unwrap();
    std::mem::forget(killed);
    // The file ends inside its header, as if its writer had been killed just after creating it.
    fs::write(dir.path().join("run000001_b01_0001.evb"), b"\x89EVB").unwrap();
    let mut back = create();
    back.append(&event(2, 1)).unwrap();
    back.close().unwrap();
    let names: Vec<_> = existing_files(dir.path(), RUN).unwrap();
    assert!(names[2].ends_with("run000001_b01_0002.evb"), "{names:?}");
    assert_eq!(fs::read(&names[1]).unwrap(), b"\x89EVB");
    let ids = |path: &Path| -> Vec<u64> {
        EventFile::open(path).unwrap().events().map(|event| event.unwrap().id.number()).collect()
    };
    assert_eq!((ids(&names[0]), ids(&names[2])), (vec![1], vec![2]));
}

#[test]
fn a_run_that_was_taken_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), BUILDER, u64::MAX, &[event(1, 1)]);
    // The supervisor is another one now, but the run is the same.
    let later = FileIdentity { epoch: Epoch::new(77), ..identity(BUILDER) };
    let writer = EventFileWriter::create(dir.path(), later, options(u64::MAX)).unwrap();
    writer.close_or_remove().unwrap();
    let other = FileIdentity { run_id: RunId::new(77 << 96), ..identity(BUILDER) };
    let refused = EventFileWriter::create(dir.path(), other, options(u64::MAX)).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, CreateError::Exists { .. }));
    assert!(text.contains("run000001_b01_0000.evb") && text.contains("choose another run number"), "{text}");
    assert_eq!(read_all(dir.path()).len(), 1, "the file in the way was touched");
    EventFileWriter::create(dir.path(), identity(BuilderId::new(2)), options(u64::MAX)).unwrap();
    assert_eq!(existing_files(dir.path(), RUN).unwrap().len(), 2);
    assert_eq!(highest_run(dir.path()).unwrap(), Some(RunNumber::new(1)));
    assert_eq!(highest_run(&dir.path().join("none")).unwrap(), None);
}

#[test]
fn of_a_run_that_never_began_no_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let begin = || EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
    begin().close_or_remove().unwrap();
    assert!(existing_files(dir.path(), RUN).unwrap().is_empty());
    let mut writer = begin();
    writer.append(&event(1, 1)).unwrap();
    assert_eq!(writer.close_or_remove().unwrap().events, 1);
    assert_eq!(read_all(dir.path()), [event(1, 1)]);
}

#[test]
fn a_file_that_is_removed_is_noticed_and_another_one_begun() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    let mut writer = EventFileWriter::create(&inner, identity(BUILDER), options(u64::MAX)).unwrap();
    writer.append(&event(1, 10)).unwrap();
    writer.commit().unwrap();
    fs::remove_dir_all(&inner).unwrap();
    writer.append(&event(2, 10)).unwrap();
    let error = writer.commit().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("run000001_b01_0000.evb") && text.contains("os error 2"), "{text}");
    assert_eq!(error.not_accepted(), [EventId::new(2)]);
    writer.append(&event(2, 10)).unwrap();
    writer.commit().unwrap();
    assert_eq!(read_all(&inner), [event(2, 10)]);
    assert_eq!(writer.close().unwrap().events, 1);
}

#[test]
fn foreign_events_are_refused_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
    writer.append(&event(1, 1)).unwrap();
    let mut foreign = event(2, 1);
    foreign.run = RunNumber::new(9);
    let refused = writer.append(&foreign).unwrap_err();
    assert!(matches!(refused, WriteError::Refused { why: EventRefusal::Run { .. }, .. }));
    assert_eq!(refused.not_accepted(), [EventId::new(2)]);
    let foreign = event_of(3, 1, crate::samples::EPOCH, BuilderId::new(2));
    assert!(matches!(
        writer.append(&foreign),
        Err(WriteError::Refused { why: EventRefusal::Builder { .. }, .. })
    ));
    assert_eq!(writer.close().unwrap().events, 1);
    assert_eq!(read_all(dir.path()), [event(1, 1)]);
}

#[test]
fn errors_name_file_and_number() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FullDisk::default();
    disk.left.store(200, Relaxed);
    let mut writer = writer_on(&disk, dir.path(), options(u64::MAX)).unwrap();
    writer.append(&event(1, 100)).unwrap();
    writer.append(&event(2, 100)).unwrap();
    let text = writer.commit().unwrap_err().to_string();
    assert!(text.contains("run000001_b01_0000.evb") && text.contains("os error 28"), "{text}");
    assert!(text.contains("2 events (1 to 2) are not in the file"), "{text}");
}

#[test]
fn a_file_that_cannot_be_begun_is_not_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FullDisk::default();
    disk.left.store(20, Relaxed);
    assert!(matches!(writer_on(&disk, dir.path(), options(u64::MAX)), Err(CreateError::File(_))));
    disk.left.store(2000, Relaxed);
    writer_on(&disk, dir.path(), options(u64::MAX)).unwrap().close().unwrap();
}

#[test]
fn fsync_reaches_file_and_directory_before_commit_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut writer) = syncing(dir.path());
    assert_eq!(disk.syncs.load(Relaxed), 2, "header and directory");
    writer.append(&event(1, 10)).unwrap();
    assert_eq!(disk.syncs.load(Relaxed), 2);
    writer.commit().unwrap();
    assert_eq!(disk.syncs.load(Relaxed), 3);
    writer.commit().unwrap();
    assert_eq!(disk.syncs.load(Relaxed), 3, "nothing to sync");

    // After a failed fsync, the content of the disk is unknown, so the event is not accepted and
    // may be appended again.
    writer.append(&event(2, 10)).unwrap();
    disk.broken.store(true, Relaxed);
    assert_eq!(writer.commit().unwrap_err().not_accepted(), [EventId::new(2)]);
    // The file could not be truncated either, so the writer accepts no event until truncating it
    // succeeds.
    assert_eq!(writer.append(&event(3, 10)).unwrap_err().not_accepted(), [EventId::new(3)]);
    disk.broken.store(false, Relaxed);
    writer.append(&event(2, 10)).unwrap();
    writer.close().unwrap();
    assert_eq!(read_all(dir.path()), [event(1, 10), event(2, 10)]);
}

#[test]
fn all_new_directories_survive_a_power_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut writer) = syncing(&dir.path().join("a/b/c"));
    let expected = ["", "a", "a/b", "a/b/c"].map(|made| dir.path().join(made));
    let synced = || {
        let mut synced = std::mem::take(&mut *disk.synced.lock().unwrap());
        synced.sort();
        synced
    };
    assert_eq!(synced(), expected);
    // The directory is removed while the run continues.
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    writer.append(&event(1, 10)).unwrap();
    assert_eq!(synced(), expected);
    writer.close().unwrap();
    assert_eq!(read_all(&dir.path().join("a/b/c")), [event(1, 10)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// The disk becomes full at a random byte in a record, header or index, with small and large
    /// events. Each time, the caller appends the events that the error names again, and goes on.
    #[test]
    fn a_full_disk_costs_nothing_but_time(
        gifts in prop::collection::vec(prop_oneof![1u64..3000, 1u64..150_000], 1..40),
        large in prop::collection::vec(any::<bool>(), 12),
        rotate_at in prop_oneof![Just(u64::MAX), 1000u64..100_000],
        batch in 1usize..5,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let disk = FullDisk::default();
        disk.left.store(500, Relaxed);
        let mut writer = writer_on(&disk, dir.path(), options(rotate_at)).unwrap();
        let all: Vec<Event> =
            large.iter().zip(1..).map(|(large, id)| event(id, if *large { 20_000 } else { 40 })).collect();
        let mut gifts = gifts.into_iter();
        for events in all.chunks(batch) {
            let mut to_do: Vec<Event> = events.to_vec();
            while !to_do.is_empty() {
                let mut appended = 0;
                let outcome = to_do.iter().try_for_each(|event| {
                    appended += 1;
                    writer.append(event)
                });
                let Err(error) = outcome.and_then(|()| writer.commit()) else { break };
                let refused = error.not_accepted().to_vec();
                to_do = to_do
                    .into_iter()
                    .enumerate()
                    .filter(|(place, event)| *place >= appended || refused.contains(&event.id))
                    .map(|(_, event)| event)
                    .collect();
                // `read_all` checks that all records in the files are whole after the failed write.
                let _ = read_all(dir.path());
                disk.left.store(gifts.next().unwrap_or(1_000_000), Relaxed);
            }
        }
        disk.left.store(1_000_000, Relaxed);
        let written = writer.close().unwrap();
        prop_assert_eq!(written.events, 12);
        prop_assert_eq!(read_all(dir.path()), all);
        let files = existing_files(dir.path(), RUN).unwrap();
        let bytes: u64 = files.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        prop_assert_eq!(written.bytes.count(), bytes);
        prop_assert_eq!(written.files as usize, files.len());
        let verified = verify(&files, &VerifyOptions::default()).unwrap();
        prop_assert!(verified.is_clean() && verified.runs[0].without_index.total == 0, "{}", verified);
    }
}

/// Another program removes the file, or cuts it to a length, while it is being written.
#[derive(Clone, Copy, Debug)]
enum Meddled {
    Removed,
    Cut(u64),
}

proptest! {
    /// Whatever another program does to the file, the writer names all stored events that are gone,
    /// keeps those whose records are whole, and goes on in another file.
    #[test]
    fn removed_and_cut_files_cost_named_events(
        sizes in prop::collection::vec(0_usize..3000, 2..40),
        every in 1_usize..6,
        meddlings in prop::collection::btree_map(0_usize..40, prop_oneof![
            Just(Meddled::Removed),
            (0_u64..40_000).prop_map(Meddled::Cut),
        ], 0..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = EventFileWriter::create(dir.path(), identity(BUILDER), options(u64::MAX)).unwrap();
        let (mut gone, mut waiting) = (Vec::new(), Vec::new());
        let sized = |id: u64| event(id, sizes[id as usize - 1]);
        for id in 1..=sizes.len() as u64 {
            match meddlings.get(&(id as usize)) {
                // The file may have been removed before.
                Some(Meddled::Removed) => drop(fs::remove_file(writer.path())),
                Some(Meddled::Cut(length)) => {
                    if let Ok(file) = fs::OpenOptions::new().write(true).open(writer.path()) {
                        file.set_len((*length).min(file.metadata().unwrap().len())).unwrap();
                    }
                }
                None => {}
            }
            waiting.push(id);
            let last = id as usize == sizes.len();
            if !last && !(id as usize).is_multiple_of(every) {
                continue;
            }
            // As the builder does: what was not accepted is written again.
            while !waiting.is_empty() {
                let written = waiting.iter().try_for_each(|id| writer.append(&sized(*id)));
                match written.and_then(|()| writer.commit()) {
                    Ok(()) => waiting.clear(),
                    Err(error) => {
                        gone.extend(error.gone().iter().map(|event| event.number()));
                        let first = error.not_accepted().first().map_or(u64::MAX, |event| event.number());
                        waiting.retain(|id| *id >= first);
                    }
                }
            }
        }
        writer.close().unwrap();
        let mut found = Vec::new();
        for path in existing_files(dir.path(), RUN).unwrap() {
            // Of a file that was cut within its header, nothing is left.
            let Ok(file) = EventFile::open(&path) else { continue };
            for event in file.events() {
                let event = event.unwrap();
                prop_assert_eq!(&event, &sized(event.id.number()));
                found.push(event.id.number());
            }
        }
        let expected: Vec<u64> = (1..=sizes.len() as u64).filter(|id| !gone.contains(id)).collect();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}
