//! Event files for tests of readers: whole files as the writer makes them, files with damage of all
//! kinds, and the correction of the checksums of damaged files. The test `cargo xtask eco file-cpp`
//! uses this module too.

use std::{fs, path::Path};

use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    rng::Rng,
    time::{Instant, Utc},
    units::Bytes,
};
use evb_file::{
    EventFileWriter, FileIdentity, FsyncPolicy, OwingChange, WriterOptions, existing_files,
    format::{
        FILE_MAGIC, FormatVersion, INDEX_MAGIC, INDEX_MAGIC_1, RECORD_MAGIC, RECORD_MAGIC_1, TRAILER_MAGIC,
    },
};

/// The run of all files.
pub const RUN: RunNumber = RunNumber::new(1);
const RUN_ID: RunId = RunId::new(0x5eed_cafe_0123_4567_89ab_cdef_0000_0001);

/// Returns a closed file with this number of events, each from two sources; in event 2, source 3 is
/// missing, and in event 3, source 4 is absent. The file is written in `folder`, which is removed.
///
/// # Panics
/// Panics if the file system has no room for a small file.
pub fn closed(folder: &Path, events: u64, format: FormatVersion) -> Vec<u8> {
    let events: Vec<Event> = (1..=events)
        .map(|id| {
            let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(3), BuilderId::new(1));
            for source in 1..=2 {
                let payload = vec![id as u8; 5 * usize::from(source)];
                event.add(SourceId::new(source), Timestamp::new(id), payload.into());
            }
            (event.run_id, event.utc) = (RUN_ID, Utc::from_nanos(id));
            match id {
                2 => event.missing.push(MissingSource::new(SourceId::new(3), Cause::Down)),
                3 => event.absent.push(MissingSource::new(SourceId::new(4), Cause::Excluded)),
                _ => {}
            }
            event
        })
        .collect();
    written(folder, BuilderId::new(1), &events, true, format)
}

/// Returns a file with up to nine random events of a builder: some incomplete, some with several
/// copies, in random order. One of four files has no index, and one of four is of version 1.
///
/// # Panics
/// Panics if the file system has no room for a small file.
pub fn random(folder: &Path, builder: BuilderId, rng: &mut Rng) -> Vec<u8> {
    let count = rng.below(10);
    let events: Vec<Event> = (0..count).map(|_| event(builder, rng)).collect();
    let format = if rng.below(4) == 0 { FormatVersion::One } else { FormatVersion::Two };
    written(folder, builder, &events, rng.below(4) > 0, format)
}

fn event(builder: BuilderId, rng: &mut Rng) -> Event {
    let mut event = Event::empty(EventId::new(1 + rng.below(12)), RUN, Epoch::new(1 + rng.below(3)), builder);
    event.triggered = Instant::from_nanos(rng.next_u64() >> 20);
    (event.run_id, event.utc) = (RUN_ID, Utc::from_nanos(rng.next_u64() >> 4));
    for source in 1..=rng.below(5) as u16 {
        let size = if rng.below(50) == 0 { rng.below(300_000) } else { rng.below(120) };
        let payload: Vec<u8> = (0..size).map(|_| rng.next_u64() as u8).collect();
        event.add(SourceId::new(source), Timestamp::new(rng.next_u64()), payload.into());
    }
    for (list, first) in [(&mut event.missing, 10), (&mut event.absent, 20)] {
        let count = if rng.below(4) == 0 { rng.below(7) as u16 } else { 0 };
        let cause = |rng: &mut Rng| Cause::from_code(rng.below(20) as u8);
        list.extend((0..count).map(|place| MissingSource::new(SourceId::new(first + place), cause(rng))));
    }
    event
}

fn written(
    folder: &Path,
    builder: BuilderId,
    events: &[Event],
    close: bool,
    format: FormatVersion,
) -> Vec<u8> {
    let sources = (1..=3).map(SourceId::new).collect();
    let identity = FileIdentity {
        run: RUN,
        run_id: RUN_ID,
        epoch: Epoch::new(3),
        builder,
        begun: Utc::from_nanos(1_763_000_000_000_000_000),
        kind: "fuzz".to_owned(),
        sources,
        source_names: [(SourceId::new(2), "two".to_owned())].into(),
        changes: vec![OwingChange::exclude(SourceId::new(2), EventId::new(2), "no power")],
        ..FileIdentity::default()
    };
    let options = WriterOptions { rotate_at: Bytes::mib(64), fsync: FsyncPolicy::None, format };
    fs::create_dir_all(folder).expect("room for a folder");
    let mut writer = EventFileWriter::create(folder, identity, options).expect("room for a file");
    for event in events {
        writer.append(event).expect("room for an event");
    }
    writer.commit().expect("room for the events");
    if close {
        writer.close().expect("room for an index");
    }
    let path = existing_files(folder, RUN).expect("our own folder").remove(0);
    let bytes = fs::read(path).expect("our own file");
    fs::remove_dir_all(folder).expect("our own folder");
    bytes
}

/// The kinds of damage that [`harm`] does.
pub const HARMS: [&str; 9] =
    ["intact", "truncated", "flipped", "spliced", "hostile", "mended", "zeroed", "appended", "heads"];

/// Damages a file in the way that has this position in [`HARMS`]. `other` is another file, whose
/// bytes may get into this one.
pub fn harm(kind: usize, bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let length = bytes.len() as u64;
    match kind {
        1 => bytes.truncate(rng.below(length + 1) as usize),
        2 => (0..=rng.below(4)).for_each(|_| flip(bytes, rng)),
        3 => splice(bytes, other, rng),
        4 => hostile_number(bytes, rng),
        5 => {
            // The checksums are right again, so readers see the contradictions behind them.
            hostile_number(bytes, rng);
            mend(bytes);
        }
        6 => {
            let start = rng.below(length + 1) as usize;
            let end = (start + rng.below(400) as usize).min(bytes.len());
            bytes[start..end].fill(0);
            bytes.resize(bytes.len() + 8 * rng.below(3) as usize, 0);
        }
        7 => bytes.extend_from_slice(&other[..rng.below(other.len() as u64 + 1) as usize]),
        8 => long_heads(bytes, rng),
        _ => {}
    }
}

fn flip(bytes: &mut [u8], rng: &mut Rng) {
    let place = rng.below(8 * bytes.len() as u64);
    if let Some(byte) = bytes.get_mut(place as usize / 8) {
        *byte ^= 1 << (place % 8);
    }
}

/// Inserts fronts of records whose heads would take megabytes to check, and zeros for the heads.
fn long_heads(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let layout = if number(bytes, 8, 2) == Some(1) { LAYOUT_1 } else { LAYOUT_2 };
    let record = (0..bytes.len()).step_by(8).find(|at| bytes[*at..].starts_with(&layout.record));
    let Some(mut front) = record.and_then(|at| bytes.get(at..at + layout.table)).map(<[u8]>::to_vec) else {
        return;
    };
    let fragments = 1 + rng.below(65_536) as u32;
    let head = layout.table as u64 + 24 * u64::from(fragments) + 8;
    front[4..8].copy_from_slice(&(head as u32).to_le_bytes());
    front[8..16].copy_from_slice(&head.to_le_bytes());
    front[layout.fragments..layout.fragments + 4].copy_from_slice(&fragments.to_le_bytes());
    let mut piece = front.repeat(1 + rng.below(100) as usize);
    piece.resize(piece.len() + head as usize, 0);
    let at = 8 * rng.below(bytes.len() as u64 / 8 + 1) as usize;
    bytes.splice(at..at, piece);
}

/// Replaces bytes by bytes of this or the other file, at multiples of eight.
fn splice(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let of = if rng.below(2) == 0 { bytes.clone() } else { other.to_vec() };
    let start = 8 * rng.below(of.len() as u64 / 8 + 1) as usize;
    let piece = of[start..].iter().copied().take(8 * rng.below(60) as usize);
    let at = 8 * rng.below(bytes.len() as u64 / 8 + 1) as usize;
    let end = if rng.below(2) == 0 { at } else { (at + piece.len()).min(bytes.len()) };
    bytes.splice(at..end, piece);
}

/// Overwrites a number of the file header, of a record's head, of the index or of the trailer.
fn hostile_number(bytes: &mut [u8], rng: &mut Rng) {
    let magics = [RECORD_MAGIC, INDEX_MAGIC, RECORD_MAGIC_1, INDEX_MAGIC_1];
    let mut places: Vec<usize> = vec![0, bytes.len().saturating_sub(24)];
    places
        .extend((0..bytes.len()).step_by(8).filter(|at| magics.iter().any(|m| bytes[*at..].starts_with(m))));
    let place = places[rng.below(places.len() as u64) as usize];
    // Fields are at multiples of 2 in the first 104 bytes, which reach into a fragment table.
    let at = place + 2 * rng.below(52) as usize;
    let size = [2, 4, 8][rng.below(3) as usize];
    let Some(field) = bytes.get_mut(at..at + size) else { return };
    let mut old = [0; 8];
    old[..size].copy_from_slice(field);
    let old = u64::from_le_bytes(old);
    let new = match rng.below(6) {
        0 => u64::MAX,
        1 => 1 << 40,
        2 => old.wrapping_add(8),
        3 => old.wrapping_sub(8),
        4 => 1 << rng.below(64),
        _ => rng.below(70_000),
    };
    field.copy_from_slice(&new.to_le_bytes()[..size]);
}

/// Corrects the tags and checksums of the file header, the payloads, the record heads, the index
/// and the copy of the header, as far as they can be found
/// (`docs/reference/file-format.md`). Returns `None` if the bytes are too short for a file header.
pub fn mend(bytes: &mut [u8]) -> Option<()> {
    bytes.get_mut(..8)?.copy_from_slice(&FILE_MAGIC);
    let layout = if number(bytes, 8, 2)? == 1 { LAYOUT_1 } else { LAYOUT_2 };
    let header = number(bytes, 12, 4)? as usize;
    let tag = Checksum::of(bytes.get(..header.checked_sub(8)?)?).number();
    bytes.get_mut(header - 8..header)?.copy_from_slice(&tag.to_le_bytes());
    let mut at = header;
    while bytes.get(at..at + 4) == Some(&layout.record) {
        let Some(next) = mend_record(bytes, at, tag, layout) else { break };
        at = next;
    }
    let trailer = bytes.len().checked_sub(24)?;
    if bytes.get(at..at + 4) == Some(&layout.index) && bytes.ends_with(&TRAILER_MAGIC) && at < trailer {
        if layout.has_tags
            && let Some(copy) = trailer.checked_sub(header).filter(|copy| *copy >= at + 16)
        {
            bytes.copy_within(..header, copy);
        }
        bytes[trailer..trailer + 8].copy_from_slice(&(at as u64).to_le_bytes());
        let sealed = Checksum::of(&bytes[at..trailer + 8]).number() ^ layout.seal(tag);
        bytes[trailer + 8..trailer + 16].copy_from_slice(&sealed.to_le_bytes());
    }
    Some(())
}

/// Marks and offsets of one version of the format.
#[derive(Clone, Copy)]
struct Layout {
    record: [u8; 4],
    index: [u8; 4],
    /// The offset of the number of fragments in a record, and that of the fragment table.
    fragments: usize,
    table: usize,
    /// True if heads have the file tag in a field, false if it is in their checksums.
    has_tags: bool,
}

const LAYOUT_1: Layout =
    Layout { record: RECORD_MAGIC_1, index: INDEX_MAGIC_1, fragments: 48, table: 56, has_tags: false };
const LAYOUT_2: Layout =
    Layout { record: RECORD_MAGIC, index: INDEX_MAGIC, fragments: 68, table: 72, has_tags: true };

impl Layout {
    const fn seal(self, tag: u64) -> u64 {
        if self.has_tags { 0 } else { tag }
    }
}

/// Corrects the tag and the checksums of the record at offset `at`, and returns the offset of its
/// end.
fn mend_record(bytes: &mut [u8], at: usize, tag: u64, layout: Layout) -> Option<usize> {
    let head = number(bytes, at + 4, 4)? as usize;
    let end = at.checked_add(usize::try_from(number(bytes, at + 8, 8)?).ok()?)?;
    let (seal, fragments) = (at + head.checked_sub(8)?, number(bytes, at + layout.fragments, 4)? as usize);
    let mut payload = at + head;
    let entries = (0..fragments).map(|index| at + layout.table + 24 * index);
    for entry in entries.take_while(|entry| *entry + 24 <= seal) {
        let length = number(bytes, entry + 4, 4)? as usize;
        let Some(piece) = bytes.get(payload..payload + length) else { break };
        let checksum = Checksum::of(piece).number();
        bytes.get_mut(entry + 16..entry + 24)?.copy_from_slice(&checksum.to_le_bytes());
        payload += length;
    }
    if layout.has_tags && seal >= at + 56 {
        bytes.get_mut(at + 48..at + 56)?.copy_from_slice(&tag.to_le_bytes());
    }
    let sealed = Checksum::of(bytes.get(at..seal)?).number() ^ layout.seal(tag);
    bytes.get_mut(seal..seal + 8)?.copy_from_slice(&sealed.to_le_bytes());
    (end > at && end <= bytes.len()).then_some(end)
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let mut number = [0; 8];
    number[..length].copy_from_slice(bytes.get(at..at + length)?);
    Some(u64::from_le_bytes(number))
}
