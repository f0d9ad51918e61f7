//! Files that are made to mislead readers, or to keep them busy. The checksums are no secret, so
//! most of them are right.

use anyhow::{Context as _, Result};
use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    rng::Rng,
    time::{Instant, Utc},
};
use evb_file::format::FormatVersion;

use crate::file_cpp::files::generators::mend;

/// A run of a directory.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) number: RunNumber,
    pub(super) id: RunId,
    pub(super) format: FormatVersion,
}

/// The kinds of crafted files.
pub(super) const CRAFTED: [&str; 16] = [
    "index hides a record",
    "index lies",
    "index twice",
    "nested heads",
    "nested heads, no header",
    "record in a payload",
    "record in a foreign payload",
    "many tags",
    "records of another run",
    "record of another builder",
    "lengths lie",
    "many small records",
    "many missing sources",
    "extreme numbers",
    "many marks",
    "bytes between records",
];

/// Size of the files that shall keep a reader busy, in bytes.
const BUSY: usize = 400_000;
/// Number of missing sources of an event that lacks many.
const MISSING: u16 = 16_000;

pub(super) fn needs_format_2(kind: &str) -> bool {
    !matches!(
        kind,
        "index hides a record" | "index lies" | "index twice" | "lengths lie" | "many missing sources"
    )
}

/// Returns the events of a crafted file, if it takes other ones than random ones.
pub(super) fn events(kind: &str, run: &Run, builder: BuilderId) -> Option<Vec<Event>> {
    let event = |id: u64, epoch: u64| {
        let mut event = Event::empty(EventId::new(id), run.number, Epoch::new(epoch), builder);
        event.run_id = run.id;
        event
    };
    match kind {
        "many small records" => Some((1..=3000).map(|id| event(id, 3)).collect()),
        "many missing sources" => {
            let without = |id| {
                let sources = (0..MISSING).map(SourceId::new);
                let mut event = event(id, 3);
                event.missing = sources.map(|source| MissingSource::new(source, Cause::Silent)).collect();
                event
            };
            Some(vec![without(1), without(2)])
        }
        "extreme numbers" => {
            let numbers = [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (1 << 63, 1 << 63)];
            let mut events: Vec<Event> = numbers.map(|(id, epoch)| event(id, epoch)).into();
            for event in &mut events {
                event.add(SourceId::new(u16::MAX), Timestamp::new(u64::MAX), vec![1].into());
                event.utc = Utc::from_nanos(u64::MAX);
                event.triggered = Instant::from_nanos(u64::MAX);
            }
            Some(events)
        }
        "record in a payload" | "record in a foreign payload" => {
            let mut events: Vec<Event> = (1..=3).map(|id| event(id, 3)).collect();
            for event in &mut events {
                event.add(SourceId::new(1), Timestamp::new(1), vec![7; 4096].into());
            }
            Some(events)
        }
        _ => None,
    }
}

/// Changes the bytes of a closed file. `other` is a file of format 2 of the same run.
pub(super) fn craft(kind: &str, mut bytes: Vec<u8>, other: &[u8], rng: &mut Rng) -> Result<Vec<u8>> {
    let header = header_length(&bytes);
    match kind {
        "index hides a record" | "index twice" | "index lies" => index(kind, &mut bytes, rng)?,
        "nested heads" => {
            bytes.truncate(header);
            nested(&mut bytes);
        }
        "nested heads, no header" => {
            bytes.clear();
            nested(&mut bytes);
        }
        "record in a payload" => {
            let places = records(&bytes);
            plant(&mut bytes, places[1], places[2].0);
            mend(&mut bytes);
            if rng.below(2) == 0 {
                bytes[places[1].0 + 20] ^= 1;
            }
        }
        "record in a foreign payload" => return Ok(in_foreign(&bytes, other)),
        "many tags" => many_tags(&mut bytes),
        "records of another run" | "record of another builder" => {
            let places = records(&bytes);
            let (start, _) = places[rng.below(places.len() as u64) as usize];
            let field =
                if kind == "record of another builder" { 64 } else { [56, 60][rng.below(2) as usize] };
            bytes[start + field] ^= 2;
            mend(&mut bytes);
        }
        "lengths lie" => {
            let at = header + 4 + 4 * rng.below(2) as usize;
            bytes[at] ^= 8 << rng.below(4);
            mend(&mut bytes);
        }
        "many marks" => {
            bytes.truncate(bytes.len() - 24);
            while bytes.len() < BUSY {
                bytes.extend(b"EVX2\x18\0\0\0");
            }
        }
        "bytes between records" => {
            let places = records(&bytes);
            let (start, _) = places[rng.below(places.len() as u64) as usize];
            bytes.splice(start..start, [b'x'; 64]);
            shift_index(&mut bytes, start as u64, 64);
            mend_tail(&mut bytes);
        }
        _ => {}
    }
    Ok(bytes)
}

/// Returns the length of a file's header.
pub(super) fn header_length(bytes: &[u8]) -> usize {
    bytes.get(12..16).and_then(|length| length.first_chunk()).map_or(0, |length| u32::from_le_bytes(*length))
        as usize
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns start and end of each record of a whole file.
fn records(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut found) = (header_length(bytes), Vec::new());
    while bytes[at..].starts_with(b"EVR") {
        let end = at + number(bytes, at + 8) as usize;
        found.push((at, end));
        at = end;
    }
    found
}

/// Returns the offset of the closing block, and the number of its entries.
fn block(bytes: &[u8]) -> (usize, usize) {
    let at = number(bytes, bytes.len() - 24) as usize;
    (at, number(bytes, at + 8) as usize)
}

/// Changes the index, and makes its checksum right.
fn index(kind: &str, bytes: &mut Vec<u8>, rng: &mut Rng) -> Result<()> {
    let (at, count) = block(bytes);
    let chosen = at + 16 + 24 * rng.below(count as u64) as usize;
    let entry = bytes.get(chosen..chosen + 24).context("an index without entries")?.to_vec();
    let new_count = match kind {
        "index hides a record" => {
            bytes.drain(chosen..chosen + 24);
            count - 1
        }
        "index twice" => {
            bytes.splice(chosen..chosen, entry);
            count + 1
        }
        _ => {
            // The event, the epoch or the offset is another one.
            let field = chosen + 8 * rng.below(3) as usize;
            bytes[field] ^= 8;
            count
        }
    };
    bytes[at + 8..at + 16].copy_from_slice(&(new_count as u64).to_le_bytes());
    mend_tail(bytes);
    Ok(())
}

/// Makes the checksum of the closing block right, wherever records end.
fn mend_tail(bytes: &mut [u8]) {
    let (at, _) = block(bytes);
    let trailer = bytes.len() - 24;
    let header = header_length(bytes);
    let tag = if bytes[8] == 1 { number(bytes, header - 8) } else { 0 };
    let sealed = Checksum::of(&bytes[at..trailer + 8]).number() ^ tag;
    bytes[trailer + 8..trailer + 16].copy_from_slice(&sealed.to_le_bytes());
}

/// Adds `by` to the offsets of records from `start` on, and to that of the closing block.
fn shift_index(bytes: &mut [u8], start: u64, by: u64) {
    let trailer = bytes.len() - 24;
    let at = number(bytes, trailer) + by;
    bytes[trailer..trailer + 8].copy_from_slice(&at.to_le_bytes());
    let (at, count) = block(bytes);
    for field in (0..count).map(|place| at + 16 + 24 * place + 16) {
        let offset = number(bytes, field);
        if offset >= start {
            bytes[field..field + 8].copy_from_slice(&(offset + by).to_le_bytes());
        }
    }
}

/// Adds fronts of records without fragments, of which each has a head of half the rest.
fn nested(bytes: &mut Vec<u8>) {
    let tag = if bytes.is_empty() { 0x7a67 } else { number(bytes, bytes.len() - 8) };
    let head = (BUSY as u32 / 2).next_multiple_of(8);
    let mut cell = b"EVR2".to_vec();
    cell.extend(head.to_le_bytes());
    cell.extend(u64::from(head).to_le_bytes());
    cell.resize(48, 1);
    cell.extend(tag.to_le_bytes());
    // The number of fragments is the upper half of the next record's length.
    while bytes.len() < BUSY / 2 {
        bytes.extend(&cell);
    }
    bytes.resize(BUSY, 0);
}

/// Puts a copy of the record without fragments into the payload of the record at `outer`.
fn plant(bytes: &mut [u8], outer: (usize, usize), from: usize) {
    let inner = small(&bytes[from..]);
    let at = outer.0 + 72 + 24 + 8 + 512;
    bytes[at..at + inner.len()].copy_from_slice(&inner);
}

/// Returns a whole record without fragments, with the numbers of the record that begins here.
fn small(record: &[u8]) -> Vec<u8> {
    let mut inner = record[..72].to_vec();
    inner[4..8].copy_from_slice(&80_u32.to_le_bytes());
    inner[8..16].copy_from_slice(&80_u64.to_le_bytes());
    inner[16] = 99;
    inner[68..72].fill(0);
    inner[66..68].fill(0);
    let seal = Checksum::of(&inner).number();
    inner.extend(seal.to_le_bytes());
    inner
}

/// A file without a header that begins with a record of another file, in whose payload is a record
/// with the tag of the rest.
fn in_foreign(bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let places = records(bytes);
    let mut made = vec![0; 64];
    let mut first = bytes.to_vec();
    let tag = number(other, header_length(other) - 8);
    plant(&mut first, places[0], places[1].0);
    let at = places[0].0 + 72 + 24 + 8 + 512;
    first[at + 48..at + 56].copy_from_slice(&tag.to_le_bytes());
    let seal = Checksum::of(&first[at..at + 72]).number();
    first[at + 72..at + 80].copy_from_slice(&seal.to_le_bytes());
    mend(&mut first);
    made.extend(&first[places[0].0..places[0].1]);
    let rest = &other[header_length(other)..];
    while made.len() < 40_000 {
        made.extend(rest);
    }
    made
}

/// Loses the header and its copy, and puts more than a thousand small records with other tags
/// before the rest.
fn many_tags(bytes: &mut Vec<u8>) {
    let header = header_length(bytes);
    let first = small(&bytes[header..]);
    let mut made = Vec::new();
    for tag in 0..1100_u64 {
        let mut record = first[..72].to_vec();
        record[48..56].copy_from_slice(&(tag << 8 | 1).to_le_bytes());
        let seal = Checksum::of(&record).number();
        record.extend(seal.to_le_bytes());
        made.extend(record);
    }
    let (at, _) = block(bytes);
    made.extend(&bytes[header..at]);
    *bytes = made;
}
