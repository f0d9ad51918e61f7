//! The file header: run, builder and sources of the file's events.

mod first;
mod second;

use std::collections::BTreeMap;

use evb_core::{
    alignment::Episode,
    fragment::Checksum,
    id::{BuilderId, Epoch, RunId, RunNumber, SourceId},
    ledger::OwingChange,
    time::Utc,
};

use super::{ALIGNMENT, FILE_MAGIC, Fields, FileTag, FormatVersion, MAX_HEADER};
use first::MAX_HEADER_1;

/// The least size of a header of version 2, in bytes.
pub(crate) const MIN_HEADER: u64 = second::PREFIX as u64 + 8;
const MERGED: u16 = 1;

/// The header of an event file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHeader {
    /// The version of the file's format.
    pub version: FormatVersion,
    /// The run.
    pub run: RunNumber,
    /// The identity of the run; unknown in files of version 1. If the header was recovered from
    /// records, it has the first 8 digits of the id, and zeros.
    pub run_id: RunId,
    /// The epoch of the run; the file's records may belong to later epochs.
    pub epoch: Epoch,
    /// The builder of the events; `None` in a merged file, which has the events of all builders.
    pub builder: Option<BuilderId>,
    /// The number of the file within its run and builder: 0, 1, 2, …
    pub sequence: u32,
    /// The time at which the file was begun, in nanoseconds since 1970 (UTC) on the writing host's
    /// clock.
    pub created_unix_ns: u64,
    /// The time at which the run was begun, on the supervisor's wall clock.
    pub begun: Utc,
    /// Word of the kernel of the supervisor's host on its clock then: true if it was synchronised.
    /// `None` if that is unknown.
    pub clock_synchronised: Option<bool>,
    /// The kind of the run, in the words of its configuration.
    pub kind: String,
    /// The comment on the run.
    pub comment: String,
    /// The sources of the run.
    pub sources: Vec<SourceId>,
    /// The names of sources that have one.
    pub source_names: BTreeMap<SourceId, String>,
    /// The names of builders that have one.
    pub builder_names: BTreeMap<BuilderId, String>,
    /// The program that wrote the file.
    pub creator: String,
    /// The episodes of sources whose timestamps disagreed, as known when the file was begun.
    pub episodes: Vec<Episode>,
    /// The changes by which sources were excluded or included, as known when the file was begun.
    pub changes: Vec<OwingChange>,
}

/// The reason why a file header is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFlaw {
    /// The file is not an event file.
    #[error(
        "it is not an event file, or its beginning is damaged (it is not 89 45 56 42 0d 0a 1a 0a): give an event file, or restore it from a copy"
    )]
    Magic,
    /// The file has a later version of the format.
    #[error("its format is version {0}, but this program reads versions 1 and 2: use a newer evb")]
    Version(u16),
    /// The file has flags of a later version of evb.
    #[error("its flags {0:#06x} need a newer evb: read it with that")]
    UnknownFlags(u16),
    /// The header has a section of this type, which this reader does not know and may not skip.
    #[error("section {0} of its header is required and needs a newer evb: read it with that")]
    UnknownSection(u16),
    /// The file ends inside its header: its writer died immediately, and the file holds no event.
    #[error(
        "it ends inside its header, so it holds no event: a builder that is stopped at once leaves such a file, which can be removed; if it was longer, restore it from a copy"
    )]
    Short,
    /// The header is damaged: its checksum is wrong.
    #[error(
        "its header is damaged (wrong checksum), so none of its events can be read: restore it from a copy"
    )]
    Checksum,
    /// The header contradicts itself although its checksum is right: the writing program is at
    /// fault.
    #[error(
        "its header contradicts itself, a fault of the program that wrote it: send the file to the authors of that program (of evb, if a builder wrote it)"
    )]
    Content,
}

impl HeaderFlaw {
    /// Returns true if the header may be damaged, so that it may be recovered from other parts of
    /// the file. A header of a later version counts as damaged unless its checksum is right.
    pub(crate) const fn is_damage(self) -> bool {
        matches!(self, Self::Magic | Self::Version(_) | Self::Short | Self::Checksum)
    }
}

impl FileHeader {
    /// Returns the header's bytes, and the tag that ties the rest of the file to this header.
    pub(crate) fn encode(&self) -> (Vec<u8>, FileTag) {
        let mut out = match self.version {
            FormatVersion::One => self.encode_first(),
            FormatVersion::Two => self.encode_second(),
        };
        let length = out.len() as u32 + 8;
        out[12..16].copy_from_slice(&length.to_le_bytes());
        let checksum = Checksum::of(&out);
        out.extend(checksum.number().to_le_bytes());
        (out, self.tag(checksum))
    }

    const fn tag(&self, checksum: Checksum) -> FileTag {
        let owner = Some((self.run, self.builder));
        FileTag { checksum, version: self.version, run_id: self.run_id, owner }
    }

    /// Returns the first 24 bytes of a header, whose length is not known yet.
    fn encode_prefix(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + 2 * self.sources.len());
        out.extend(FILE_MAGIC);
        out.extend(self.version.number().to_le_bytes());
        out.extend(if self.builder.is_none() { MERGED } else { 0 }.to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(self.run.number().to_le_bytes());
        out.extend(self.builder.unwrap_or_default().number().to_le_bytes());
        out.extend(0u16.to_le_bytes());
        out
    }

    /// Returns the length of the header whose first bytes are `prefix`, at most [`MAX_HEADER`].
    pub(crate) fn length(prefix: &[u8]) -> Result<u64, HeaderFlaw> {
        let mut fields = Fields(prefix);
        match fields.array() {
            Some(FILE_MAGIC) => {}
            None if FILE_MAGIC.starts_with(prefix) => return Err(HeaderFlaw::Short),
            _ => return Err(HeaderFlaw::Magic),
        }
        let (Some(version), Some(_flags), Some(length)) = (fields.u16(), fields.u16(), fields.u32()) else {
            return Err(HeaderFlaw::Short);
        };
        let (least, most) = match FormatVersion::of(version) {
            Some(FormatVersion::One) => (first::PREFIX as u64 + 8, MAX_HEADER_1),
            Some(FormatVersion::Two) => (MIN_HEADER, MAX_HEADER),
            None => return Err(HeaderFlaw::Version(version)),
        };
        let length = u64::from(length);
        if length > most || length < least || !length.is_multiple_of(ALIGNMENT) {
            return Err(HeaderFlaw::Checksum);
        }
        Ok(length)
    }

    /// Reads a header of exactly [`Self::length`] bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, FileTag), HeaderFlaw> {
        let (content, stored) = bytes.split_last_chunk().ok_or(HeaderFlaw::Short)?;
        let checksum = Checksum::of(content);
        if checksum.number() != u64::from_le_bytes(*stored) {
            return Err(HeaderFlaw::Checksum);
        }
        let number = content.get(8..10).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
        let header = match FormatVersion::of(number).ok_or(HeaderFlaw::Version(number))? {
            FormatVersion::One => Self::decode_first(content).ok_or(HeaderFlaw::Content)?,
            FormatVersion::Two => Self::decode_second(content)?,
        };
        let tag = header.tag(checksum);
        Ok((header, tag))
    }
}
