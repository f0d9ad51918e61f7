//! The files of a random directory: good ones, bad ones of many kinds, and what stands in place of
//! a file.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    rng::Rng,
    time::Utc,
    units::Bytes,
};
use evb_file::{
    EventFile, EventFileWriter, FileIdentity, FsyncPolicy, WriterOptions, file_name, files_at,
    format::FormatVersion,
};

use super::crafted::{self, CRAFTED, Run, header_length};
use crate::file_cpp::{
    files::generators::{HARMS, harm},
    golden,
};

/// Kinds of files that are not good, and not damaged at random, and of what is no file.
const OTHERS: [&str; 21] = [
    "empty",
    "one byte",
    "text",
    "zeros",
    "program",
    "header cut",
    "header lost",
    "header of another run",
    "version 3",
    "dangling link",
    "link to itself",
    "folder",
    "closed folder",
    "pipe",
    "socket",
    "no permission",
    "/dev/zero",
    "/dev/full",
    "file of /sys",
    "odd name",
    "torn tail",
];

/// The number of files of each kind that were made.
pub(super) type Kinds = BTreeMap<&'static str, u64>;

/// A directory that was made.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// For each file that holds nothing but good events: the run and the event ids.
    pub(super) good: Vec<(RunNumber, Vec<u64>)>,
    /// The kinds of its files, by their marks.
    pub(super) kinds: Vec<(String, &'static str)>,
}

/// Makes random directories.
pub(super) struct Maker<'a> {
    pub(super) rng: Rng,
    pub(super) scratch: PathBuf,
    pub(super) kinds: &'a mut Kinds,
}

impl Maker<'_> {
    /// Makes a directory with one to eight files.
    pub(super) fn make(&mut self, path: PathBuf) -> Result<Directory> {
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        let runs = self.runs();
        let mut made = Directory { path, good: Vec::new(), kinds: Vec::new() };
        for place in 0..1 + self.rng.below(8) as u16 {
            let run = runs[self.rng.below(runs.len() as u64) as usize].clone();
            let builder = BuilderId::new([1, 2, 3, 99, 100, 65_535][self.rng.below(6) as usize]);
            // Each file has a mark, by which the words of a program are searched.
            let sequence = u32::from(place) + [0, 9_998, 123_450][self.rng.below(3) as usize];
            let mark = file_name(run.number, Some(builder), sequence);
            let file = made.path.join(&mark);
            let kind = match self.rng.below(10) {
                0..4 => {
                    let bytes = self.good(&run, builder, true)?;
                    made.good.push((run.number, events_of(&bytes, &self.scratch)?));
                    fs::write(&file, bytes)?;
                    if run.format == FormatVersion::One { "good, format 1" } else { "good, format 2" }
                }
                4 => self.damaged(&run, builder, &file)?,
                5..7 => self.crafted(&run, builder, &file)?,
                7 if self.rng.below(4) == 0 => self.golden(&file)?,
                _ => self.other(&run, builder, &file)?,
            };
            let mark = if kind == "odd name" { "odd name".to_owned() } else { mark };
            *self.kinds.entry(kind).or_default() += 1;
            made.kinds.push((mark, kind));
        }
        Ok(made)
    }

    /// Returns one run, or two, which sometimes have the same number.
    fn runs(&mut self) -> Vec<Run> {
        let number = RunNumber::new([1, 7, 999_999, 1_000_000, u32::MAX][self.rng.below(5) as usize]);
        let format = if self.rng.below(4) == 0 { FormatVersion::One } else { FormatVersion::Two };
        let first = Run { number, id: self.id(), format };
        match self.rng.below(8) {
            0 => vec![Run { id: self.id(), format: FormatVersion::Two, ..first.clone() }, first],
            1 => vec![Run { number: RunNumber::new(5), id: self.id(), format }, first],
            2 => vec![Run { number: RunNumber::new(5), id: self.id(), format: FormatVersion::One }, first],
            _ => vec![first],
        }
    }

    /// Returns a run id that begins with a letter, so that nothing takes its digits for a number.
    fn id(&mut self) -> RunId {
        let high = u128::from(self.rng.next_u64() | 0xa << 60);
        RunId::new(high << 64 | u128::from(self.rng.next_u64()))
    }

    /// Returns the bytes of a good file: up to twenty events, some without a source, some built
    /// again in a later epoch. Most files have an index.
    fn good(&mut self, run: &Run, builder: BuilderId, may_be_open: bool) -> Result<Vec<u8>> {
        let first = 1 + self.rng.below(30);
        let events = first..first + 1 + self.rng.below(20);
        let events: Vec<Event> = events.map(|id| self.event(id, run, builder)).collect();
        let is_closed = !may_be_open || self.rng.below(4) > 0;
        written(&self.scratch, run, builder, &events, is_closed)
    }

    fn event(&mut self, id: u64, run: &Run, builder: BuilderId) -> Event {
        let rng = &mut self.rng;
        let epoch = Epoch::new(if rng.below(8) == 0 { 4 } else { 3 });
        let mut event = Event::empty(EventId::new(id), run.number, epoch, builder);
        (event.run_id, event.utc) = (run.id, Utc::from_nanos(1_763_000_000_000_000_000 + id));
        for source in (1..=4).map(SourceId::new) {
            if rng.below(16) == 0 {
                event.missing.push(MissingSource::new(source, Cause::Down));
                continue;
            }
            let payload: Vec<u8> = (0..rng.below(300)).map(|_| rng.next_u64() as u8).collect();
            event.add(source, Timestamp::new(id), payload.into());
        }
        event
    }

    /// Writes a file with random damage.
    fn damaged(&mut self, run: &Run, builder: BuilderId, file: &Path) -> Result<&'static str> {
        let (mut bytes, other) = (self.good(run, builder, true)?, self.good(run, builder, true)?);
        let kind = 1 + self.rng.below(HARMS.len() as u64 - 1) as usize;
        harm(kind, &mut bytes, &other, &mut self.rng);
        fs::write(file, bytes)?;
        Ok(HARMS[kind])
    }

    /// Writes a file that is made to mislead readers; most of its checksums are right.
    fn crafted(&mut self, run: &Run, builder: BuilderId, file: &Path) -> Result<&'static str> {
        let kind = CRAFTED[self.rng.below(CRAFTED.len() as u64) as usize];
        let run = if crafted::needs_format_2(kind) {
            Run { format: FormatVersion::Two, ..run.clone() }
        } else {
            run.clone()
        };
        let events: Vec<Event> = match crafted::events(kind, &run, builder) {
            Some(events) => events,
            None => (1..=10).map(|id| self.event(id, &run, builder)).collect(),
        };
        let bytes = written(&self.scratch, &run, builder, &events, true)?;
        let other = self.good(&Run { format: FormatVersion::Two, ..run }, builder, false)?;
        fs::write(file, crafted::craft(kind, bytes, &other, &mut self.rng)?)?;
        Ok(kind)
    }

    /// Copies a golden file, whose run is another one.
    fn golden(&mut self, file: &Path) -> Result<&'static str> {
        let all = golden::files()?;
        fs::copy(&all[self.rng.below(all.len() as u64) as usize], file)?;
        Ok("golden")
    }

    fn other(&mut self, run: &Run, builder: BuilderId, file: &Path) -> Result<&'static str> {
        let kind = OTHERS[self.rng.below(OTHERS.len() as u64) as usize];
        let mut bytes = self.good(run, builder, kind != "header cut")?;
        match kind {
            "empty" => bytes.clear(),
            "one byte" => bytes.truncate(1),
            "text" | "odd name" => bytes = b"this is not an event file\n".repeat(20),
            "zeros" => bytes.fill(0),
            "program" => {
                bytes = fs::read("/bin/true")?;
                bytes.truncate(65_536);
            }
            "header cut" => bytes.truncate(8 + self.rng.below(60) as usize),
            "header lost" => bytes[..64].fill(0),
            "header of another run" => {
                let other = Run { number: RunNumber::new(77), id: self.id(), ..run.clone() };
                let header = self.good(&other, builder, true)?;
                let [from, to] = [&header, &bytes].map(|bytes| header_length(bytes));
                bytes.splice(..to, header[..from].iter().copied());
            }
            "version 3" => {
                let length = header_length(&bytes);
                bytes[8] = 3;
                let tag = Checksum::of(&bytes[..length - 8]).number();
                bytes[length - 8..length].copy_from_slice(&tag.to_le_bytes());
            }
            "torn tail" => bytes.truncate(bytes.len() - 1 - self.rng.below(60) as usize),
            "no permission" => {}
            _ => return self.in_place_of_a_file(kind, file).map(|()| kind),
        }
        if kind == "odd name" {
            use std::os::unix::ffi::OsStrExt as _;
            let name = std::ffi::OsStr::from_bytes(b"\x1b[2Jodd name\xff.evb");
            fs::write(file.with_file_name(name), bytes)?;
            return Ok(kind);
        }
        fs::write(file, bytes)?;
        if kind == "no permission" {
            fs::set_permissions(file, Permissions::from_mode(0o000))?;
        }
        Ok(kind)
    }

    fn in_place_of_a_file(&self, kind: &str, file: &Path) -> Result<()> {
        match kind {
            "dangling link" => symlink("nowhere", file)?,
            "link to itself" => symlink(file, file)?,
            "folder" => fs::create_dir(file)?,
            "closed folder" => {
                fs::create_dir(file)?;
                fs::set_permissions(file, Permissions::from_mode(0o000))?;
            }
            "pipe" => {
                let status = Command::new("mkfifo").arg(file).status()?;
                ensure!(status.success(), "mkfifo: {status}");
            }
            "socket" => {
                // The path of a socket must be short.
                let short = self.scratch.with_file_name("s");
                drop(UnixDatagram::bind(&short)?);
                fs::rename(short, file)?;
            }
            // Its length is not the number of its bytes.
            "file of /sys" => symlink("/sys/kernel/mm/transparent_hugepage/enabled", file)?,
            device => symlink(device, file)?,
        }
        Ok(())
    }
}

/// Returns the bytes of a file with these events.
pub(super) fn written(
    scratch: &Path,
    run: &Run,
    builder: BuilderId,
    events: &[Event],
    is_closed: bool,
) -> Result<Vec<u8>> {
    let identity = FileIdentity {
        run: run.number,
        run_id: run.id,
        epoch: Epoch::new(3),
        builder,
        begun: Utc::from_nanos(1_763_000_000_000_000_000),
        sources: (1..=4).map(SourceId::new).collect(),
        source_names: [(SourceId::new(2), "two".to_owned())].into(),
        ..FileIdentity::default()
    };
    let options = WriterOptions { rotate_at: Bytes::MAX, fsync: FsyncPolicy::None, format: run.format };
    let _ = fs::remove_dir_all(scratch);
    let mut writer = EventFileWriter::create(scratch, identity, options)?;
    for event in events {
        writer.append(event)?;
    }
    writer.commit()?;
    let path = writer.path();
    if is_closed {
        writer.close()?;
    }
    Ok(fs::read(path)?)
}

/// Writes a good file of about this size, and returns its folder.
pub(super) fn of_size(folder: PathBuf, size: u64) -> Result<PathBuf> {
    let (number, id) = (RunNumber::new(1), RunId::new(0xa << 124));
    let run = Run { number, id, format: FormatVersion::Two };
    let builder = BuilderId::new(1);
    let events: Vec<Event> = (1..=size.div_ceil(1000).max(1))
        .map(|event| {
            let mut event = Event::empty(EventId::new(event), number, Epoch::new(3), builder);
            event.run_id = id;
            for source in 1..=4 {
                event.add(SourceId::new(source), Timestamp::new(1), vec![source as u8; 180].into());
            }
            event
        })
        .collect();
    let bytes = written(&folder.join("scratch"), &run, builder, &events, true)?;
    fs::remove_dir_all(folder.join("scratch"))?;
    fs::write(folder.join(file_name(number, Some(builder), 0)), bytes)?;
    Ok(folder)
}

/// Returns the ids of a good file's events.
fn events_of(bytes: &[u8], scratch: &Path) -> Result<Vec<u64>> {
    let path = scratch.join("read.evb");
    fs::write(&path, bytes)?;
    let file = EventFile::open(path)?;
    file.records().map(|record| Ok(record?.event.number())).collect()
}

/// Makes everything in a directory accessible again, so that it can be removed.
pub(super) fn remove(folder: &Path) -> Result<()> {
    for path in files_at(folder)? {
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        }
    }
    fs::remove_dir_all(folder).with_context(|| folder.display().to_string())
}

/// Returns the total size of the regular files in a directory.
pub(super) fn size(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let metadata = entry?.metadata()?;
        size += if metadata.is_file() { metadata.len() } else { 0 };
    }
    Ok(size)
}

/// Returns the folder of the programs beside this file.
pub(super) fn programs() -> PathBuf {
    checkout::root().join("bindings/checks/src/directories")
}

/// Returns true if no program can read a file of this kind, and false if all programs can; `None`
/// if it depends on chance.
pub(super) fn is_unreadable(kind: &str, has_no_rights: bool) -> Option<bool> {
    match kind {
        "empty" | "one byte" | "text" | "zeros" | "program" | "header cut" | "version 3"
        | "dangling link" | "link to itself" | "folder" | "closed folder" | "pipe" | "socket"
        | "/dev/zero" | "/dev/full" | "file of /sys" | "odd name" => Some(true),
        "no permission" => Some(has_no_rights),
        "good, format 1" | "good, format 2" | "torn tail" => Some(false),
        _ => None,
    }
}

/// Returns all kinds of files.
pub(super) fn all_kinds() -> impl Iterator<Item = &'static str> {
    let good = ["good, format 1", "good, format 2", "golden"];
    OTHERS.into_iter().chain(CRAFTED).chain(HARMS.into_iter().skip(1)).chain(good)
}
