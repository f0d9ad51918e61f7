//! The header of version 1.

use evb_core::id::{BuilderId, Epoch, RunNumber, SourceId};

use super::{
    super::{Fields, FormatVersion, MAX_CREATOR, MAX_SOURCES, pad},
    FileHeader, MERGED,
};

/// The size of the header before the source ids, in bytes.
pub(super) const PREFIX: usize = 56;
/// The largest size of a header of version 1, in bytes: all source ids and a creator text of
/// [`MAX_CREATOR`] bytes.
pub(super) const MAX_HEADER_1: u64 = PREFIX as u64 + 2 * MAX_SOURCES as u64 + MAX_CREATOR as u64 + 8;

impl FileHeader {
    /// Encodes the header of format 1, without its checksum.
    pub(super) fn encode_first(&self) -> Vec<u8> {
        let creator = &self.creator.as_bytes()[..self.creator.floor_char_boundary(MAX_CREATOR)];
        let mut out = self.encode_prefix();
        out.extend(self.epoch.number().to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend((self.sources.len() as u32).to_le_bytes());
        out.extend(self.created_unix_ns.to_le_bytes());
        out.extend((creator.len() as u32).to_le_bytes());
        // Reserved.
        out.extend(0u32.to_le_bytes());
        for source in &self.sources {
            out.extend(source.number().to_le_bytes());
        }
        out.extend_from_slice(creator);
        pad(&mut out, 0);
        out
    }

    /// Decodes the header of format 1; `None` if a field has an impossible value.
    pub(super) fn decode_first(content: &[u8]) -> Option<Self> {
        // The magic and the version come before these fields.
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
        // The padding is shorter than 8 bytes, and has zeros only.
        let padding_ok = fields.0.len() < 8 && fields.0.iter().all(|byte| *byte == 0);
        let builder = (flags & MERGED == 0).then_some(builder);
        let version = FormatVersion::One;
        padding_ok.then(|| Self {
            version,
            run,
            epoch,
            builder,
            sequence,
            created_unix_ns,
            sources,
            creator,
            ..Self::default()
        })
    }
}
