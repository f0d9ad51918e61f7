//! The file header: run, builder and sources of the file's events.

use evb_core::{
    fragment::Checksum,
    id::{BuilderId, Epoch, RunNumber, SourceId},
};

use super::{FILE_MAGIC, FORMAT_VERSION, Fields, FileTag, MAX_CREATOR, MAX_HEADER, MAX_SOURCES, pad};

/// The size of the header before the source ids, in bytes.
pub(crate) const HEADER_PREFIX: usize = 56;
const MERGED: u16 = 1;

/// The header of an event file.
///
/// ```
/// use evb_core::id::*;
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, sources: vec![SourceId::new(1)] };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let path = writer.path();
/// # writer.close()?;
/// let file = EventFile::open(&path)?;
/// let header = file.header();
/// assert_eq!((header.run, header.builder, header.sequence), (run, Some(builder), 0));
/// assert!(header.creator.starts_with("evb-file"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The run.
    pub run: RunNumber,
    /// The epoch in which the file was begun; its records may belong to later epochs.
    pub epoch: Epoch,
    /// The builder of the events; `None` in a merged file, which has the events of all builders.
    pub builder: Option<BuilderId>,
    /// The number of the file within its run and builder: 0, 1, 2, …
    pub sequence: u32,
    /// The time at which the file was begun, in nanoseconds since 1970 (UTC) on the writing host's
    /// clock.
    pub created_unix_ns: u64,
    /// The sources of the run.
    pub sources: Vec<SourceId>,
    /// The program that wrote the file.
    pub creator: String,
}

/// The reason why a file header is unusable.
///
/// ```
/// use evb_file::{EventFile, ReadError, format::HeaderFlaw};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("notes.evb");
/// std::fs::write(&path, "this is not an event file")?;
/// match EventFile::open(&path) {
///     Err(ReadError::Header { flaw, .. }) => assert_eq!(flaw, HeaderFlaw::Magic),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFlaw {
    /// The file is not an event file.
    #[error("it is not an event file (it does not begin with 89 45 56 42 0d 0a 1a 0a)")]
    Magic,
    /// The file has a later version of the format.
    #[error("its format is version {0}, but this program reads version {FORMAT_VERSION}: use a newer evb")]
    Version(u16),
    /// The file ends inside its header: its writer died immediately, and the file holds no event.
    #[error("it ends inside its header, so it holds no event")]
    Short,
    /// The header is damaged: its checksum is wrong.
    #[error("its header is damaged (checksum)")]
    Checksum,
    /// The header contradicts itself although its checksum is right: the writing program is at
    /// fault.
    #[error("its header contradicts itself: the program that wrote it is at fault")]
    Content,
}

impl FileHeader {
    /// Returns the header's bytes, and the tag that ties the rest of the file to this header.
    pub(crate) fn encode(&self) -> (Vec<u8>, FileTag) {
        let creator = &self.creator.as_bytes()[..self.creator.floor_char_boundary(MAX_CREATOR)];
        let mut out = Vec::with_capacity(HEADER_PREFIX + 2 * self.sources.len() + creator.len() + 16);
        out.extend(FILE_MAGIC);
        out.extend(FORMAT_VERSION.to_le_bytes());
        out.extend(if self.builder.is_none() { MERGED } else { 0 }.to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(self.run.number().to_le_bytes());
        out.extend(self.builder.unwrap_or_default().number().to_le_bytes());
        out.extend(0u16.to_le_bytes());
        out.extend(self.epoch.number().to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend((self.sources.len() as u32).to_le_bytes());
        out.extend(self.created_unix_ns.to_le_bytes());
        out.extend((creator.len() as u32).to_le_bytes());
        out.extend(0u32.to_le_bytes());
        for source in &self.sources {
            out.extend(source.number().to_le_bytes());
        }
        out.extend_from_slice(creator);
        pad(&mut out, 0);
        let length = out.len() as u32 + 8;
        out[12..16].copy_from_slice(&length.to_le_bytes());
        let checksum = Checksum::of(&out);
        out.extend(checksum.number().to_le_bytes());
        (out, FileTag(checksum))
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
        if version != FORMAT_VERSION {
            return Err(HeaderFlaw::Version(version));
        }
        if u64::from(length) > MAX_HEADER || length < HEADER_PREFIX as u32 + 8 || length % 8 != 0 {
            return Err(HeaderFlaw::Checksum);
        }
        Ok(u64::from(length))
    }

    /// Reads a header of exactly [`Self::length`] bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, FileTag), HeaderFlaw> {
        let (content, stored) = bytes.split_last_chunk().ok_or(HeaderFlaw::Short)?;
        let checksum = Checksum::of(content);
        if checksum.number() != u64::from_le_bytes(*stored) {
            return Err(HeaderFlaw::Checksum);
        }
        let header = Self::content(content).ok_or(HeaderFlaw::Content)?;
        Ok((header, FileTag(checksum)))
    }

    fn content(content: &[u8]) -> Option<Self> {
        let mut fields = Fields(content.get(10..)?);
        let flags = fields.u16()?;
        let _length = fields.u32()?;
        let run = RunNumber::new(fields.u32()?);
        let builder = BuilderId::new(fields.u16()?);
        fields.u16()?;
        let epoch = Epoch::new(fields.u64()?);
        let sequence = fields.u32()?;
        let source_count = fields.u32()? as usize;
        let created_unix_ns = fields.u64()?;
        let creator_length = fields.u32()? as usize;
        fields.u32()?;
        if flags & !MERGED != 0 || source_count > MAX_SOURCES || creator_length > MAX_CREATOR {
            return None;
        }
        let (ids, _) = fields.bytes(2 * source_count)?.as_chunks();
        let sources = ids.iter().map(|id| SourceId::new(u16::from_le_bytes(*id))).collect();
        let creator = String::from_utf8(fields.bytes(creator_length)?.to_vec()).ok()?;
        let padding_ok = fields.0.len() < 8 && fields.0.iter().all(|byte| *byte == 0);
        let builder = (flags & MERGED == 0).then_some(builder);
        padding_ok.then_some(Self { run, epoch, builder, sequence, created_unix_ns, sources, creator })
    }
}
