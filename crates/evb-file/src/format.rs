//! The bytes of an event file, versions 1 and 2: constants, encoding and decoding, with no file
//! access.
//!
//! All numbers are little-endian. `docs/reference/file-format.md` specifies the format for readers
//! in other languages.

mod section;
mod header;
mod record;
#[cfg(test)]
mod tests;

use core::fmt;

use evb_core::{
    fragment::Checksum,
    id::{BuilderId, RunId, RunNumber, SourceId},
};

pub(crate) use header::MIN_HEADER;
pub use header::{FileHeader, HeaderFlaw};
pub use record::{FragmentEntry, Record};
pub(crate) use record::{Head, Prefix, encode_head, encode_record, record_size, reseal, tag_at};

/// The first 8 bytes of an event file. As in PNG, the non-text bytes reveal a file transfer that
/// converted line ends.
pub const FILE_MAGIC: [u8; 8] = *b"\x89EVB\r\n\x1a\n";
/// The first 4 bytes of every record of version 1.
pub const RECORD_MAGIC_1: [u8; 4] = *b"EVBR";
/// The first 4 bytes of every record.
pub const RECORD_MAGIC: [u8; 4] = *b"EVR2";
/// The first 4 bytes of the index of version 1.
pub const INDEX_MAGIC_1: [u8; 4] = *b"EVBI";
/// The first 4 bytes of the closing block, which begins with the index.
pub const INDEX_MAGIC: [u8; 4] = *b"EVX2";
/// The last 8 bytes of a file that was closed.
pub const TRAILER_MAGIC: [u8; 8] = *b"EVB-END\n";

/// The alignment of records and of the index. With an alignment of eight bytes, every number of a
/// record head is aligned for programs that map the file into memory, and the search for the next
/// record after damage can go in steps of eight bytes. An alignment of 64 bytes would make the
/// record of a 1 kB event 3 % larger and gain nothing, because this crate does all file access
/// through the page cache.
pub const ALIGNMENT: u64 = 8;
/// The largest number of fragments, and of missing sources, of an event: source ids have 16 bits.
pub const MAX_SOURCES: usize = 1 << 16;
/// The largest size of a record head, in bytes. A reader must read the whole head before it can
/// verify the head's checksum. Heads of today's writer have at most 2.4 MB.
pub const MAX_HEAD: u64 = 4 << 20;
/// The largest size of a record, in bytes.
pub const MAX_RECORD: u64 = 1 << 40;
/// The largest size of a file header, in bytes.
pub const MAX_HEADER: u64 = 16 << 20;
/// The largest size of the creator text in a file header, in bytes.
pub const MAX_CREATOR: usize = 1024;
/// The largest size of a text or name that a writer puts into a file header, in bytes; longer ones
/// are cut.
pub const MAX_TEXT: usize = 4096;
/// The largest number of records in one file. A writer that has reached it begins another file, so
/// that an index never takes more than 24 MiB of memory.
pub const MAX_RECORDS: usize = 1 << 20;

/// A version of the file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormatVersion {
    /// Version 1, without run ids, UTC, causes and sections.
    One,
    /// Version 2, which writers write if they are not told otherwise.
    #[default]
    Two,
}

/// The reason why a text is no [`FormatVersion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such version of the file format: give 1 or 2")]
pub struct ParseVersionError;

impl FormatVersion {
    /// Returns the number of the version.
    pub const fn number(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    pub(crate) const fn of(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }

    pub(crate) const fn record_magic(self) -> [u8; 4] {
        match self {
            Self::One => RECORD_MAGIC_1,
            Self::Two => RECORD_MAGIC,
        }
    }

    pub(crate) const fn index_magic(self) -> [u8; 4] {
        match self {
            Self::One => INDEX_MAGIC_1,
            Self::Two => INDEX_MAGIC,
        }
    }

    /// Returns the size of a record head up to its fragment table, in bytes.
    pub(crate) const fn record_prefix(self) -> usize {
        match self {
            Self::One => record::PREFIX_1,
            Self::Two => record::PREFIX,
        }
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

impl core::str::FromStr for FormatVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::of).ok_or(ParseVersionError)
    }
}

/// The reason why bytes of a file are not a valid record or index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The bytes do not begin with the magic number of a record.
    #[error("no record begins here")]
    Magic,
    /// The bytes begin with the magic number of an index, but the index does not match the records
    /// before it.
    #[error("an index begins here that does not match the records before it")]
    Index,
    /// The lengths at the beginning of the record contradict each other or exceed the limits of the
    /// format.
    #[error("the lengths in the record's head contradict each other")]
    Lengths,
    /// The file ends before the record does.
    #[error("the file ends inside this record: it was cut off, or its builder still writes it")]
    PastEnd,
    /// The checksum of the record's head is wrong.
    #[error("the checksum of the record's head is wrong")]
    HeadChecksum,
    /// The record's head was not checked, so that a hostile file does not take hours.
    #[error("this record is not checked, because too much of the file before it is damaged")]
    Unchecked,
    /// A flag bit is set that has no meaning in this version of the format, or a flag contradicts
    /// the rest of the record.
    #[error("the flags in the record's head contradict the rest of the record")]
    Reserved,
    /// The record is of another file: an old disk block, or a file inside a payload.
    #[error("the record belongs to another file: it is an old disk block, or was copied into this one")]
    Tag,
    /// The record has flags that this reader does not know.
    #[error("its flags {0:#06x} need a newer evb")]
    UnknownFlags(u16),
    /// The record has a section of this type, which this reader does not know and may not skip.
    #[error("its section {0} is required and needs a newer evb")]
    UnknownSection(u16),
    /// The record is of another run or builder than its file.
    #[error(
        "the record belongs to another run or builder than the file: it is an old disk block, or was copied into it"
    )]
    Foreign {
        /// The run of the record.
        run: RunNumber,
        /// The builder of the record.
        builder: BuilderId,
    },
    /// The checksum of the given source's payload is wrong.
    #[error("the checksum of the payload of source {0} is wrong")]
    PayloadChecksum(SourceId),
    /// The padding bytes after the last payload are not zero.
    #[error("the record's padding is not zero")]
    Padding,
}

impl Flaw {
    /// Returns what to do about a record that cannot be read because of this flaw.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::UnknownFlags(_) | Self::UnknownSection(_) => "read this one with the newer evb",
            Self::PastEnd => "read the file again after the run, or restore it from a copy",
            _ => "restore the file from a copy",
        }
    }
}

/// The checksum of the file header, which ties the records and the index to their file. In version
/// 2, heads have it as a field, and in version 1, stored checksums are XORed with it. So neither a
/// stale disk block nor an event file inside a payload is ever taken for a record of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileTag {
    pub(crate) checksum: Checksum,
    pub(crate) version: FormatVersion,
    /// The run of the file, of which records have the first digits.
    pub(crate) run_id: RunId,
    /// The run number and the builder of all records, as the header states them; no builder for a
    /// merged file. `None` while the header is not known.
    pub(crate) owner: Option<(RunNumber, Option<BuilderId>)>,
}

impl FileTag {
    /// Returns the number that the file stores for bytes with the given checksum.
    pub(crate) const fn seal(self, checksum: Checksum) -> u64 {
        match self.version {
            FormatVersion::One => checksum.number() ^ self.checksum.number(),
            FormatVersion::Two => checksum.number(),
        }
    }
}

/// Returns the next multiple of [`ALIGNMENT`].
pub(crate) const fn aligned(size: u64) -> u64 {
    size.next_multiple_of(ALIGNMENT)
}

/// Appends zeros to `out` until its length from `start` on is a multiple of [`ALIGNMENT`].
pub(crate) fn pad(out: &mut Vec<u8>, start: usize) {
    let target = start + aligned((out.len() - start) as u64) as usize;
    out.resize(target, 0);
}

/// A reader that takes little-endian numbers off the front of a slice, and returns `None` if the
/// slice is too short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
