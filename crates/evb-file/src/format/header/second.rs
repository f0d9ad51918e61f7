//! The header of version 2.

use std::collections::BTreeMap;

use evb_core::{
    id::{BuilderId, Epoch, RunId, RunNumber, SourceId},
    time::Utc,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    super::{
        Fields, FormatVersion, MAX_CREATOR, MAX_SOURCES, MAX_TEXT, aligned, pad,
        section::{self, Sections},
    },
    FileHeader, HeaderFlaw, MERGED,
};

/// The size of the header before the source ids, in bytes.
pub(super) const PREFIX: usize = 80;
const CREATOR: u16 = 1;
const KIND: u16 = 2;
const COMMENT: u16 = 3;
const SOURCE_NAMES: u16 = 4;
const BUILDER_NAMES: u16 = 5;
const EPISODES: u16 = 6;
const CHANGES: u16 = 7;
/// The largest size of a section of names that is written, in bytes: about 90 bytes for each id.
/// Two such sections and the source ids stay below the limit of a header.
const MAX_NAMES: usize = 6 << 20;
/// The largest size of a section of episodes or changes that is read, in bytes. A run has at most
/// 1000 of each.
const MAX_LIST: usize = 1 << 20;

impl FileHeader {
    /// Encodes the header of format 2, without its checksum.
    pub(super) fn encode_second(&self) -> Vec<u8> {
        let mut out = self.encode_prefix();
        out.extend(self.run_id.to_bytes());
        out.extend(self.epoch.number().to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend((self.sources.len() as u32).to_le_bytes());
        out.extend(self.created_unix_ns.to_le_bytes());
        out.extend(self.begun.as_nanos().to_le_bytes());
        out.push(match self.clock_synchronised {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        });
        out.extend([0; 7]);
        for source in &self.sources {
            out.extend(source.number().to_le_bytes());
        }
        pad(&mut out, 0);
        let push_name = |id: u16, name: &str, body: &mut Vec<u8>| {
            let name = cut(name, MAX_TEXT);
            if !name.is_empty() && body.len() + 4 + name.len() <= MAX_NAMES {
                body.extend(id.to_le_bytes());
                body.extend((name.len() as u16).to_le_bytes());
                body.extend(name);
            }
        };
        let (mut sources, mut builders) = (Vec::new(), Vec::new());
        self.source_names.iter().for_each(|(id, name)| push_name(id.number(), name, &mut sources));
        self.builder_names.iter().for_each(|(id, name)| push_name(id.number(), name, &mut builders));
        for (kind, body) in [
            (CREATOR, cut(&self.creator, MAX_CREATOR)),
            (KIND, cut(&self.kind, MAX_TEXT)),
            (COMMENT, cut(&self.comment, MAX_TEXT)),
            (SOURCE_NAMES, &sources),
            (BUILDER_NAMES, &builders),
            (EPISODES, &json(&self.episodes)),
            (CHANGES, &json(&self.changes)),
        ] {
            section::push(&mut out, 0, kind, false, body);
        }
        out
    }

    /// Decodes the header of format 2. Unknown sections are skipped, unless they are required.
    pub(super) fn decode_second(content: &[u8]) -> Result<Self, HeaderFlaw> {
        let (mut header, flags, sections) = Self::fields(content).ok_or(HeaderFlaw::Content)?;
        let mut unknown = None;
        for section in sections {
            let section = section.map_err(|_| HeaderFlaw::Content)?;
            match header.take(section.kind, section.body) {
                None => return Err(HeaderFlaw::Content),
                Some(false) if section.is_required => unknown = unknown.or(Some(section.kind)),
                Some(_) => {}
            }
        }
        match unknown {
            _ if flags & !MERGED != 0 => Err(HeaderFlaw::UnknownFlags(flags & !MERGED)),
            Some(kind) => Err(HeaderFlaw::UnknownSection(kind)),
            None => Ok(header),
        }
    }

    /// Decodes the fields before the sections; returns the flags and the sections too.
    fn fields(content: &[u8]) -> Option<(Self, u16, Sections<'_>)> {
        let mut fields = Fields(content.get(10..)?);
        let flags = fields.u16()?;
        let _length = fields.u32()?;
        let run = RunNumber::new(fields.u32()?);
        let builder = BuilderId::new(fields.u16()?);
        fields.u16()?;
        let run_id = RunId::from_bytes(fields.array()?);
        let epoch = Epoch::new(fields.u64()?);
        let sequence = fields.u32()?;
        let source_count = fields.u32()? as usize;
        let created_unix_ns = fields.u64()?;
        let begun = Utc::from_nanos(fields.u64()?);
        let [clock, ..] = fields.array::<8>()?;
        if source_count > MAX_SOURCES {
            return None;
        }
        let ids = fields.bytes(aligned(2 * source_count as u64) as usize)?;
        let (ids, _) = ids[..2 * source_count].as_chunks();
        let header = Self {
            version: FormatVersion::Two,
            run,
            run_id,
            epoch,
            builder: (flags & MERGED == 0).then_some(builder),
            sequence,
            created_unix_ns,
            begun,
            clock_synchronised: match clock {
                1 => Some(true),
                2 => Some(false),
                _ => None,
            },
            sources: ids.iter().map(|id| SourceId::new(u16::from_le_bytes(*id))).collect(),
            ..Self::default()
        };
        Some((header, flags, Sections::of(fields.0)))
    }

    /// Takes a section's content. Returns false for an unknown section, and `None` for a section
    /// with a wrong body.
    fn take(&mut self, kind: u16, body: &[u8]) -> Option<bool> {
        let text = || String::from_utf8(body.to_vec()).ok();
        match kind {
            CREATOR => self.creator = text()?,
            KIND => self.kind = text()?,
            COMMENT => self.comment = text()?,
            SOURCE_NAMES => self.source_names = names(body, SourceId::new)?,
            BUILDER_NAMES => self.builder_names = names(body, BuilderId::new)?,
            EPISODES => self.episodes = list(body),
            CHANGES => self.changes = list(body),
            _ => return Some(false),
        }
        Some(true)
    }
}

/// Returns the body of a section with a list.
fn json<T: Serialize>(list: &[T]) -> Vec<u8> {
    if list.is_empty() { Vec::new() } else { serde_json::to_vec(list).unwrap_or_default() }
}

/// Returns the list in a section. One that is not understood is of a later version of evb; leaving
/// it out costs no event.
fn list<T: DeserializeOwned>(body: &[u8]) -> Vec<T> {
    let parsed = (body.len() <= MAX_LIST).then(|| serde_json::from_slice(body));
    parsed.and_then(Result::ok).unwrap_or_default()
}

/// Returns the beginning of a text as bytes, at most `most`.
fn cut(text: &str, most: usize) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(most)]
}

/// Decodes a table of ids and names, whose ids must ascend.
fn names<I: Ord + Copy>(body: &[u8], id: impl Fn(u16) -> I) -> Option<BTreeMap<I, String>> {
    let (mut fields, mut names) = (Fields(body), BTreeMap::new());
    while !fields.0.is_empty() {
        let (id, length) = (id(fields.u16()?), fields.u16()?);
        let name = String::from_utf8(fields.bytes(usize::from(length))?.to_vec()).ok()?;
        if names.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return None;
        }
        names.insert(id, name);
    }
    Some(names)
}
