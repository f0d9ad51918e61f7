//! The golden files: small event files of today's writer, which every later version must read in
//! the same way. They are committed, with their listing.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    time::Instant,
    units::Bytes,
};
use evb_file::{EventFile, EventFileWriter, FileIdentity, FsyncPolicy, WriterOptions};

use super::{
    listing::{compare, of_rust},
    program::Program,
};
use crate::repo;

const FOLDERS: [&str; 2] = ["clean", "damaged"];
const RUN: RunNumber = RunNumber::new(7);

/// Returns the folder of the golden files.
pub(super) fn folder() -> PathBuf {
    repo::root().join("bindings/c/tests/file/golden")
}

/// Writes the golden files and their listing.
pub(super) fn write(scratch: &Path) -> Result<()> {
    for name in FOLDERS {
        let (made, kept) = (scratch.join(name), folder().join(name));
        fs::create_dir_all(&made)?;
        match name {
            "clean" => clean(&made)?,
            _ => damaged(&made)?,
        }
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept)?;
        for file in evb_file::files_at(&made)? {
            fs::copy(&file, kept.join(file.file_name().context("a file without a name")?))?;
        }
    }
    Ok(fs::write(folder().join("listing.txt"), of_rust(&folder(), &FOLDERS)?)?)
}

/// Checks that the Rust reader still lists the golden files as it did when they were written.
pub(super) fn check_rust() -> Result<()> {
    compare(&expected()?, &of_rust(&folder(), &FOLDERS)?).context("golden files")
}

/// Checks that a C++ program lists the golden files as the Rust reader does.
pub(super) fn check(program: &Program, options: &[&str]) -> Result<()> {
    compare(&expected()?, &program.list(&folder(), options, &FOLDERS)?)
        .with_context(|| format!("golden files, {program}"))
}

/// Checks that a C++ program lists a file on standard input as it lists the file itself.
pub(super) fn check_standard_input(program: &Program) -> Result<()> {
    for folder in FOLDERS.map(|name| folder().join(name)) {
        for file in evb_file::files_at(&folder)? {
            let path = file.to_string_lossy();
            let named = program.list(Path::new("."), &[], &[&path])?;
            let (before_verify, _) = named.split_once("verify\n").context("a listing without `verify`")?;
            let expected = before_verify.replace(&*path, "-");
            compare(&expected, &program.list_piped(&file)?)
                .with_context(|| format!("standard input: {path}"))?;
        }
    }
    Ok(())
}

fn expected() -> Result<String> {
    let path = folder().join("listing.txt");
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Two builders: complete events, two rotations, and copies of older epochs.
fn clean(dir: &Path) -> Result<()> {
    let first: Vec<Event> = [2, 1, 3, 5, 4, 7, 8, 9].map(|id| event(id, 1, 1)).into();
    written(dir, 1, &first, 700)?.close()?;
    let second = [event(5, 2, 2), event(6, 2, 1), event(6, 2, 2), event(10, 2, 2)];
    written(dir, 2, &second, 1 << 20)?.close()?;
    Ok(())
}

/// Four builders: incomplete events, a gap and a duplicate; a torn tail; damage to a head, a
/// payload and padding; damage to an index.
fn damaged(dir: &Path) -> Result<()> {
    let mut incomplete = event(2, 1, 1);
    incomplete.missing = [4, 5].map(|id| MissingSource::new(SourceId::new(id), Cause::Unknown)).into();
    written(dir, 1, &[event(1, 1, 1), incomplete, event(3, 1, 1), event(3, 1, 1)], 1 << 20)?.close()?;

    let mut writer = written(dir, 2, &[event(5, 2, 1), event(8, 2, 1), event(9, 2, 1)], 1 << 20)?;
    writer.commit()?;
    let path = writer.path();
    drop(writer);
    let file = OpenOptions::new().write(true).open(&path)?;
    file.set_len(file.metadata()?.len() - 20)?;

    let events: Vec<Event> = [5, 6, 11, 12, 13].map(|id| event(id, 3, 1)).into();
    let writer = written(dir, 3, &events, 1 << 20)?;
    let path = writer.path();
    writer.close()?;
    let records: Vec<_> = EventFile::open(&path)?.records().collect::<Result<_, _>>()?;
    let file = OpenOptions::new().write(true).open(&path)?;
    file.write_all_at(b"x", records[1].offset + 20)?;
    file.write_all_at(b"x", records[2].offset + records[2].head_length.count())?;
    file.write_all_at(b"x", records[3].offset + records[3].length.count() - 1)?;

    let writer = written(dir, 4, &[event(14, 4, 1), event(15, 4, 1)], 1 << 20)?;
    let path = writer.path();
    writer.close()?;
    let file = OpenOptions::new().write(true).open(&path)?;
    let length = file.metadata()?.len();
    Ok(file.write_all_at(b"x", length - 60)?)
}

fn written(dir: &Path, builder: u16, events: &[Event], rotate_at: u64) -> Result<EventFileWriter> {
    let sources = (1..=3).map(SourceId::new).collect();
    let identity = FileIdentity {
        run: RUN,
        epoch: Epoch::new(1),
        builder: BuilderId::new(builder),
        sources,
        ..FileIdentity::default()
    };
    let options = WriterOptions {
        rotate_at: Bytes::new(rotate_at),
        fsync: FsyncPolicy::None,
        ..WriterOptions::default()
    };
    let mut writer = EventFileWriter::create(dir, identity, options)?;
    for event in events {
        writer.append(event)?;
    }
    Ok(writer)
}

/// Returns an event from three sources with 3, 10 and 17 bytes.
fn event(id: u64, builder: u16, epoch: u64) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(epoch), BuilderId::new(builder));
    event.triggered = Instant::from_nanos(id * 1_000_003);
    for source in 1..=3 {
        let payload: Vec<u8> = (0..7 * source - 4).map(|byte| (byte * 37 + id * 11 + source) as u8).collect();
        event.add(SourceId::new(source as u16), Timestamp::new(id << 8 | source), payload.into());
    }
    event
}
