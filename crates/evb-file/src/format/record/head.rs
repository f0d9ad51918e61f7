//! Decodes heads of both versions.

use evb_core::{
    event::{Cause, MissingSource},
    fragment::Checksum,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, ShortRunId, SourceId},
    time::{Instant, Utc},
    units::Bytes,
};

use super::{
    super::{
        ALIGNMENT, Fields, FileTag, Flaw, FormatVersion, MAX_HEAD, MAX_RECORD, MAX_SOURCES, aligned,
        section::Sections,
    },
    ABSENT, EVENT_TAG, FRAGMENT_ENTRY, FragmentEntry, INCOMPLETE, LOST_PACKETS, MISSING, MISSING_ENTRY,
    PREFIX, PREFIX_1, Record,
    encode::tag_at,
};

/// The size of an entry for a missing source in version 1, in bytes.
const MISSING_ENTRY_1: usize = 2;

/// The beginning of a record head, which gives the length of the head and of the record. The
/// checksum of the head is not verified yet, so the lengths only bound the amount to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix {
    pub(crate) head_length: u64,
    pub(crate) length: u64,
    fragments: usize,
    /// The number of missing sources, in version 1.
    missing: usize,
}

impl Prefix {
    /// Reads the first [`FormatVersion::record_prefix`] bytes; `available` is the number of bytes
    /// in the file from the record's start on.
    pub(crate) fn decode(bytes: &[u8], available: u64, tag: FileTag) -> Result<Self, Flaw> {
        let (mut fields, magic) = (Fields(bytes), tag.version.record_magic());
        match fields.array() {
            Some(found) if found == magic => {}
            None if magic.starts_with(bytes) => return Err(Flaw::PastEnd),
            _ => return Err(Flaw::Magic),
        }
        let prefix = Self::numbers(fields, tag.version).ok_or(Flaw::PastEnd)?;
        prefix.check(available, tag.version)?;
        // A payload may contain an event file. Its records carry another tag, and are refused here
        // before their heads are read.
        if tag.version == FormatVersion::Two && tag_at(bytes) != Some(tag.checksum) {
            return Err(Flaw::Tag);
        }
        Ok(prefix)
    }

    /// Reads the lengths and numbers behind the magic, and skips the other fields.
    fn numbers(mut fields: Fields<'_>, version: FormatVersion) -> Option<Self> {
        let head_length = u64::from(fields.u32()?);
        let length = fields.u64()?;
        let (fragments, missing) = match version {
            FormatVersion::One => {
                fields.bytes(32)?;
                (fields.u32()?, fields.u32()?)
            }
            FormatVersion::Two => {
                fields.bytes(52)?;
                (fields.u32()?, 0)
            }
        };
        Some(Self { head_length, length, fragments: fragments as usize, missing: missing as usize })
    }

    /// Checks that the lengths agree with each other and are within their limits, before anything
    /// is allocated. `available` is the number of bytes up to the end of the file.
    fn check(self, available: u64, version: FormatVersion) -> Result<(), Flaw> {
        let table = FRAGMENT_ENTRY * self.fragments as u64;
        let agrees = match version {
            FormatVersion::One => {
                let least = PREFIX_1 as u64 + table + 8;
                self.head_length == least + aligned((MISSING_ENTRY_1 * self.missing) as u64)
            }
            FormatVersion::Two => {
                let least = PREFIX as u64 + table + 8;
                (least..=MAX_HEAD).contains(&self.head_length) && self.head_length.is_multiple_of(ALIGNMENT)
            }
        };
        if self.fragments > MAX_SOURCES
            || self.missing > MAX_SOURCES
            || !agrees
            || self.length < self.head_length
            || self.length > MAX_RECORD
        {
            return Err(Flaw::Lengths);
        }
        if self.length > available { Err(Flaw::PastEnd) } else { Ok(()) }
    }

    /// Decodes the whole head of a record from its `head_length` bytes, and verifies the checksum.
    pub(crate) fn record(self, offset: u64, head: &[u8], tag: FileTag) -> Result<Record, Flaw> {
        Ok(self.head(head, tag)?.record(offset, tag.run_id))
    }

    /// Decodes a head like [`Self::record`], and leaves its tables where they are.
    pub(crate) fn head(self, head: &[u8], tag: FileTag) -> Result<Head<'_>, Flaw> {
        let (content, stored) = head.split_last_chunk().ok_or(Flaw::Lengths)?;
        if tag.seal(Checksum::of(content)) != u64::from_le_bytes(*stored) {
            return Err(Flaw::HeadChecksum);
        }
        let (head, flags) = match tag.version {
            FormatVersion::One => self.decode_version_1(content),
            FormatVersion::Two => self.decode_version_2(content),
        }
        .ok_or(Flaw::Lengths)?;
        let head = Head { refusal: head.refusal.or_else(|| head.foreign_in(tag)), ..head };
        let incomplete = if head.missing.is_empty() { 0 } else { INCOMPLETE };
        // Version 1 has no other flags. A record of version 2 that is refused may have flags and
        // sections whose meaning is not known here.
        let contradicts = match tag.version {
            FormatVersion::One => flags != incomplete,
            FormatVersion::Two => head.refusal.is_none() && flags & INCOMPLETE != incomplete,
        };
        if contradicts {
            return Err(Flaw::Reserved);
        }
        if self.head_length + aligned(head.payload_size()) != self.length {
            return Err(Flaw::Lengths);
        }
        Ok(head)
    }

    /// Decodes the rest of a head of version 1, and returns the head with its flags.
    fn decode_version_1(self, content: &[u8]) -> Option<(Head<'_>, u16)> {
        let mut fields = Fields(content.get(16..)?);
        let event = EventId::new(fields.u64()?);
        let epoch = Epoch::new(fields.u64()?);
        let triggered = Instant::from_nanos(fields.u64()?);
        let run = RunNumber::new(fields.u32()?);
        let builder = BuilderId::new(fields.u16()?);
        let flags = fields.u16()?;
        fields.u64()?;
        let (fragments, _) = fields.bytes(FRAGMENT_ENTRY as usize * self.fragments)?.as_chunks();
        let missing =
            Sources { entries: fields.bytes(MISSING_ENTRY_1 * self.missing)?, size: MISSING_ENTRY_1 };
        let head = Head {
            length: self.length,
            head_length: self.head_length,
            event,
            epoch,
            triggered,
            utc: Utc::UNKNOWN,
            run,
            short_run_id: ShortRunId::default(),
            builder,
            version: FormatVersion::One,
            fragments,
            missing,
            absent: Sources::default(),
            event_tag: 0,
            lost_packets: &[],
            refusal: None,
        };
        Some((head, flags))
    }

    /// Decodes the rest of a head of version 2, and returns the head with its flags.
    fn decode_version_2(self, content: &[u8]) -> Option<(Head<'_>, u16)> {
        let mut fields = Fields(content.get(16..)?);
        let event = EventId::new(fields.u64()?);
        let epoch = Epoch::new(fields.u64()?);
        let triggered = Instant::from_nanos(fields.u64()?);
        let utc = Utc::from_nanos(fields.u64()?);
        let _file_tag = fields.u64()?; // compared with the prefix
        let run = RunNumber::new(fields.u32()?);
        let short_run_id = ShortRunId::from_bytes(fields.array()?);
        let builder = BuilderId::new(fields.u16()?);
        let flags = fields.u16()?;
        let _fragments = fields.u32()?; // read with the prefix
        let (fragments, _) = fields.bytes(FRAGMENT_ENTRY as usize * self.fragments)?.as_chunks();
        let mut head = Head {
            length: self.length,
            head_length: self.head_length,
            event,
            epoch,
            triggered,
            utc,
            run,
            short_run_id,
            builder,
            version: FormatVersion::Two,
            fragments,
            missing: Sources::default(),
            absent: Sources::default(),
            event_tag: 0,
            lost_packets: &[],
            refusal: None,
        };
        if !fields.0.is_empty() {
            head.take_sections(Sections::of(fields.0))?;
        }
        if flags & !INCOMPLETE != 0 {
            head.refusal = Some(Flaw::UnknownFlags(flags & !INCOMPLETE));
        }
        Some((head, flags))
    }
}

/// A list of missing or absent sources, as it stands in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Sources<'a> {
    entries: &'a [u8],
    /// The size of an entry, in bytes.
    size: usize,
}

impl<'a> Sources<'a> {
    fn of(body: &'a [u8]) -> Option<Self> {
        body.len().is_multiple_of(MISSING_ENTRY).then_some(Self { entries: body, size: MISSING_ENTRY })
    }

    const fn is_empty(self) -> bool {
        self.entries.is_empty()
    }

    fn iter(self) -> impl Iterator<Item = MissingSource> + use<'a> {
        self.entries.chunks_exact(self.size.max(1)).map(|entry| {
            let source = SourceId::new(u16::from_le_bytes([entry[0], entry[1]]));
            MissingSource::new(source, entry.get(2).map_or(Cause::Unknown, |code| Cause::from_code(*code)))
        })
    }
}

/// A record's head whose checksum was verified, with its tables as they stand in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) length: u64,
    pub(crate) head_length: u64,
    pub(crate) event: EventId,
    pub(crate) epoch: Epoch,
    pub(crate) triggered: Instant,
    pub(crate) utc: Utc,
    pub(crate) run: RunNumber,
    pub(crate) short_run_id: ShortRunId,
    pub(crate) builder: BuilderId,
    version: FormatVersion,
    fragments: &'a [[u8; FRAGMENT_ENTRY as usize]],
    missing: Sources<'a>,
    absent: Sources<'a>,
    /// The tag of the event; 0 if it has none.
    pub(crate) event_tag: u64,
    /// The number of lost packets of each fragment; empty if none lost any.
    lost_packets: &'a [[u8; 4]],
    /// The reason why this reader must not use the record.
    pub(crate) refusal: Option<Flaw>,
}

impl<'a> Head<'a> {
    /// Returns the entries of the fragments, with the packets that were lost before each, if the
    /// record has this table.
    pub(crate) fn fragments(self) -> impl Iterator<Item = FragmentEntry> + Clone + use<'a> {
        let lost = self.lost_packets.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let entries = self.fragments.iter().zip(lost.chain(core::iter::repeat(0)));
        entries.map(move |(entry, lost_packets)| FragmentEntry {
            lost_packets,
            ..FragmentEntry::decode(entry, self.version)
        })
    }

    pub(crate) fn missing(self) -> impl Iterator<Item = MissingSource> + use<'a> {
        self.missing.iter()
    }

    pub(crate) fn absent(self) -> impl Iterator<Item = MissingSource> + use<'a> {
        self.absent.iter()
    }

    /// Takes the sections of a head. Returns `None` if they are malformed.
    fn take_sections(&mut self, sections: Sections<'a>) -> Option<()> {
        for section in sections {
            let section = section.ok()?;
            let length = section.body.len();
            match section.kind {
                MISSING => self.missing = Sources::of(section.body)?,
                ABSENT => self.absent = Sources::of(section.body)?,
                EVENT_TAG => self.event_tag = u64::from_le_bytes(section.body.try_into().ok()?),
                LOST_PACKETS if length != 4 * self.fragments.len() => return None,
                LOST_PACKETS => self.lost_packets = section.body.as_chunks().0,
                kind if section.is_required => {
                    self.refusal = self.refusal.or(Some(Flaw::UnknownSection(kind)));
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Returns the flaw of a record whose run or builder contradicts the file's header (FILE-13).
    fn foreign_in(self, tag: FileTag) -> Option<Flaw> {
        let (run, builder) = tag.owner?;
        let is_own = self.run == run
            && self.short_run_id == tag.run_id.short()
            && builder.is_none_or(|builder| self.builder == builder);
        (!is_own).then_some(Flaw::Foreign { run: self.run, builder: self.builder })
    }

    fn payload_size(self) -> u64 {
        self.fragments().map(|fragment| u64::from(fragment.length)).sum()
    }

    /// Returns the record with its tables decoded. A record of format 1 has no run id, so that of
    /// the file is taken.
    fn record(self, offset: u64, run_id: RunId) -> Record {
        let Self { event, epoch, triggered, utc, run, builder, refusal, .. } = self;
        Record {
            offset,
            length: Bytes::new(self.length),
            head_length: Bytes::new(self.head_length),
            event,
            run,
            run_id: self.run_id(run_id),
            epoch,
            builder,
            triggered,
            utc,
            missing: self.missing().collect(),
            absent: self.absent().collect(),
            tag: self.event_tag,
            fragments: self.fragments().collect(),
            refusal,
        }
    }

    /// Returns the id of the record's run, in a file of a run with the id `of_file`.
    pub(crate) fn run_id(self, of_file: RunId) -> RunId {
        if of_file.short() == self.short_run_id {
            return of_file;
        }
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.short_run_id.to_bytes());
        RunId::from_bytes(bytes)
    }
}
