//! Reads the header of a file, or recovers a damaged one: from the copy in the closing block, or
//! from the heads of the records, each of which has the file tag.

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::BTreeMap, fmt, fs::File, io};

use evb_core::{
    fragment::Checksum,
    id::{BuilderId, Epoch, RunId},
};

use super::scan::{VainChecks, mark_in, record_on_walk};
use crate::{
    format::{
        ALIGNMENT, FILE_MAGIC, FileHeader, FileTag, FormatVersion, HeaderFlaw, MAX_HEADER, Record, tag_at,
    },
    index::header_copy,
    window::Window,
};

/// The largest number of different tags that are counted: more occur in hostile files only.
const TAGS: usize = 1024;

/// The part of a file from which its damaged header was recovered.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # writer.append(&Event::empty(EventId::FIRST, run, epoch, builder))?;
/// # let path = writer.path();
/// # writer.close()?;
/// // The first block of the file was lost.
/// use std::os::unix::fs::FileExt as _;
/// std::fs::File::options().write(true).open(&path)?.write_all_at(&[0; 100], 0)?;
/// let file = EventFile::open(&path)?;
/// assert_eq!(file.recovery(), Some(Recovery::ClosingBlock));
/// assert!(file.event(EventId::FIRST)?.is_some() && file.header().run == run);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The closing block has a copy of the header, so everything is known.
    ClosingBlock,
    /// The file has no usable closing block. Run, builder and the first digits of the run id are
    /// those of the records; sources, names, kind, comment and times are unknown.
    Records,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the header is damaged; recovered from ")?;
        f.write_str(match self {
            Self::ClosingBlock => "the closing block, so nothing is lost",
            Self::Records => "its records, so kind, comment and names are lost, but no event",
        })?;
        f.write_str("; `evbd merge` makes a file with a whole header")
    }
}

/// A file's header, as read or recovered.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) header: FileHeader,
    pub(super) tag: FileTag,
    /// The bytes that the closing block repeats; `None` if they are not known.
    pub(super) bytes: Option<Vec<u8>>,
    /// The offset of the first record.
    pub(super) first_record: u64,
    pub(super) recovery: Option<Recovery>,
}

/// Reads the header of a file of this length, or recovers it.
pub(super) fn header(file: &File, length: u64) -> io::Result<Result<Found, HeaderFlaw>> {
    let mut window = Window::new(file, length);
    let front = window.up_to(0, 16)?.to_vec();
    let flaw = match read(&front, &mut window)? {
        Err(flaw) if flaw.is_damage() => flaw,
        read => return Ok(read),
    };
    if let HeaderFlaw::Version(_) = flaw
        && is_of_later_version(&front, &mut window)?
    {
        return Ok(Err(flaw));
    }
    let copy = header_copy(file, length)?.filter(|copy| FileHeader::length(copy) == Ok(copy.len() as u64));
    match copy.map(|copy| (FileHeader::decode(&copy), copy)) {
        Some((Ok((header, tag)), copy)) if header.version == FormatVersion::Two => {
            let (first_record, recovery) = (copy.len() as u64, Some(Recovery::ClosingBlock));
            return Ok(Ok(Found { header, tag, bytes: Some(copy), first_record, recovery }));
        }
        // The header was that of a later version of evb.
        Some((Err(refusal), _)) if !refusal.is_damage() => return Ok(Err(refusal)),
        _ => {}
    }
    // The records of format 1 do not tell of which file they are.
    let is_format_1 = front.starts_with(&FILE_MAGIC) && front.get(8..10) == Some(&[1, 0]);
    if !is_format_1 && let Some(found) = from_records(&mut window, length)? {
        return Ok(Ok(found));
    }
    Ok(Err(flaw))
}

/// Reads the file's header, whose first bytes are `front`.
fn read(front: &[u8], window: &mut Window<'_>) -> io::Result<Result<Found, HeaderFlaw>> {
    let length = match FileHeader::length(front) {
        Ok(length) => length,
        Err(flaw) => return Ok(Err(flaw)),
    };
    let bytes = window.up_to(0, length)?;
    if (bytes.len() as u64) < length {
        return Ok(Err(HeaderFlaw::Short));
    }
    let bytes = bytes.to_vec();
    Ok(FileHeader::decode(&bytes).map(|(header, tag)| {
        let bytes = if header.version == FormatVersion::Two { bytes } else { Vec::new() };
        Found { header, tag, bytes: Some(bytes), first_record: length, recovery: None }
    }))
}

/// Returns true if a header of an unknown version is intact. Later versions keep the place of the
/// length and that of the checksum.
fn is_of_later_version(front: &[u8], window: &mut Window<'_>) -> io::Result<bool> {
    let Some(length) = front.get(12..).and_then(|bytes| bytes.first_chunk()) else { return Ok(false) };
    let length = u64::from(u32::from_le_bytes(*length)).min(MAX_HEADER);
    let bytes = window.up_to(0, length)?;
    Ok(bytes.split_last_chunk().is_some_and(|(content, stored)| {
        bytes.len() as u64 == length && Checksum::of(content).number() == u64::from_le_bytes(*stored)
    }))
}

/// The records of one file tag.
#[derive(Debug)]
struct Tagged {
    bytes: u64,
    /// The first record with the tag.
    first: Record,
    /// The builder; `None` if the records have several.
    builder: Option<BuilderId>,
    epoch: Epoch,
}

/// Recovers the header from the heads of records.
fn from_records(window: &mut Window<'_>, length: u64) -> io::Result<Option<Found>> {
    let mut tags: BTreeMap<u64, Tagged> = BTreeMap::new();
    let (mut at, mut vain) = (0, VainChecks::default());
    while let Some((record, checksum)) = next_record(window, &mut vain, (at, length))? {
        at = record.end();
        if tags.len() >= TAGS && !tags.contains_key(&checksum.number()) {
            continue;
        }
        let (size, builder, epoch) = (record.length.count(), record.builder, record.epoch);
        let begin = || Tagged { bytes: 0, first: record, builder: Some(builder), epoch };
        let tagged = tags.entry(checksum.number()).or_insert_with(begin);
        tagged.bytes += size;
        tagged.builder = tagged.builder.filter(|first| *first == builder);
        tagged.epoch = tagged.epoch.min(epoch);
    }
    // The file's own tag is the one that most bytes have.
    let order = |tagged: &Tagged| (tagged.bytes, Reverse(tagged.first.offset));
    let most = tags.into_iter().max_by_key(|(_, tagged)| order(tagged));
    let Some((checksum, tagged)) = most else { return Ok(None) };
    let (checksum, first) = (Checksum::from_number(checksum), tagged.first);
    let owner = Some((first.run, tagged.builder));
    let tag = FileTag { checksum, version: FormatVersion::Two, run_id: first.run_id, owner };
    let header = FileHeader {
        run: first.run,
        run_id: first.run_id,
        epoch: tagged.epoch,
        builder: tagged.builder,
        ..FileHeader::default()
    };
    let recovery = Some(Recovery::Records);
    Ok(Some(Found { header, tag, bytes: None, first_record: first.offset, recovery }))
}

/// Returns the first record of version 2 from `at` on that is intact but for its tag, and the tag.
fn next_record(
    window: &mut Window<'_>,
    vain: &mut VainChecks,
    (mut at, length): (u64, u64),
) -> io::Result<Option<(Record, Checksum)>> {
    at = at.next_multiple_of(ALIGNMENT);
    while at < length {
        let piece = window.some(at, length - at)?;
        let Some(place) = mark_in(piece, FormatVersion::Two) else {
            at += piece.len() as u64;
            continue;
        };
        at += place;
        let bytes = window.up_to(at, FormatVersion::Two.record_prefix() as u64)?;
        let Some(checksum) = tag_at(bytes) else { return Ok(None) };
        let (version, run_id) = (FormatVersion::Two, RunId::UNKNOWN);
        let tag = FileTag { checksum, version, run_id, owner: None };
        if let Ok(record) = record_on_walk(window, vain, (at, length), tag)? {
            return Ok(Some((record, checksum)));
        }
        at += ALIGNMENT;
    }
    Ok(None)
}
