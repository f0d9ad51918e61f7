//! A record: one event, as a head that describes it, followed by the payloads.

use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    time::Instant,
    units::Bytes,
};

use super::{Fields, FileTag, Flaw, MAX_RECORD, MAX_SOURCES, RECORD_MAGIC, aligned, pad};

/// The size of a record head up to its tables of fragments and missing sources, in bytes.
pub(crate) const RECORD_PREFIX: usize = 56;
const FRAGMENT_ENTRY: u64 = 24;
const INCOMPLETE: u16 = 1;

/// The entry of one fragment in a record's head.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, sources: vec![SourceId::new(1)] };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// // The size of each fragment, without reading a payload.
/// for record in EventFile::open(&path)?.records() {
///     for fragment in &record?.fragments {
///         assert_eq!((fragment.source, fragment.length), (SourceId::new(1), 4));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentEntry {
    /// The fragment's source.
    pub source: SourceId,
    /// The length of the payload, in bytes.
    pub length: u32,
    /// The detector's timestamp.
    pub timestamp: Timestamp,
    /// The payload's checksum, as computed where the fragment entered the system.
    pub checksum: Checksum,
}

/// The content of a record's head, after its checksum was verified. The payloads are not in memory.
///
/// ```
/// use evb_core::{event::Event, id::*, units::Bytes};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, sources: vec![SourceId::new(1)] };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// // Reads small events only.
/// let file = EventFile::open(&path)?;
/// for record in file.records() {
///     let record = record?;
///     if record.payload_size() < Bytes::mib(1) {
///         assert_eq!(file.read(&record)?.id, record.event);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The offset of the record in the file, in bytes.
    pub offset: u64,
    /// The length of the record, payloads and padding included.
    pub length: Bytes,
    /// The length of the head, which precedes the payloads.
    pub head_length: Bytes,
    /// The trigger number.
    pub event: EventId,
    /// The run.
    pub run: RunNumber,
    /// The epoch.
    pub epoch: Epoch,
    /// The builder of the event.
    pub builder: BuilderId,
    /// The time of the trigger, on the builder's clock.
    pub triggered: Instant,
    /// Sources that were expected to contribute a fragment and did not.
    pub missing: Vec<MissingSource>,
    /// The descriptions of the fragments, in the order of their payloads in the record.
    pub fragments: Vec<FragmentEntry>,
}

/// Returns the size of the record head of an event with the given numbers of fragments and missing
/// sources.
pub(crate) const fn head_size(fragments: usize, missing: usize) -> u64 {
    RECORD_PREFIX as u64 + FRAGMENT_ENTRY * fragments as u64 + aligned(2 * missing as u64) + 8
}

/// Returns the size of an event's record, or `None` if the format cannot hold the event.
pub(crate) fn record_size(event: &Event) -> Option<u64> {
    let fragments = event.fragments();
    if fragments.len() > MAX_SOURCES || event.missing.len() > MAX_SOURCES {
        return None;
    }
    let head = head_size(fragments.len(), event.missing.len());
    let mut payload = 0;
    for fragment in fragments {
        payload += u64::from(u32::try_from(fragment.payload.len()).ok()?);
    }
    let whole = head + aligned(payload);
    (whole <= MAX_RECORD).then_some(whole)
}

/// Appends the head of an event's record to `out`; `length` is the length of the whole record, as
/// [`record_size`] returns it.
pub(crate) fn encode_head(event: &Event, length: u64, tag: FileTag, out: &mut Vec<u8>) {
    let start = out.len();
    let fragments = event.fragments();
    let head = head_size(fragments.len(), event.missing.len());
    let flags = if event.is_complete() { 0 } else { INCOMPLETE };
    out.extend_from_slice(&RECORD_MAGIC);
    out.extend_from_slice(&(head as u32).to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&event.id.number().to_le_bytes());
    out.extend_from_slice(&event.epoch.number().to_le_bytes());
    out.extend_from_slice(&event.triggered.as_nanos().to_le_bytes());
    out.extend_from_slice(&event.run.number().to_le_bytes());
    out.extend_from_slice(&event.builder.number().to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&(fragments.len() as u32).to_le_bytes());
    out.extend_from_slice(&(event.missing.len() as u32).to_le_bytes());
    for fragment in fragments {
        let mut entry = [0; FRAGMENT_ENTRY as usize];
        entry[0..2].copy_from_slice(&fragment.source.number().to_le_bytes());
        entry[4..8].copy_from_slice(&(fragment.payload.len() as u32).to_le_bytes());
        entry[8..16].copy_from_slice(&fragment.timestamp.ticks().to_le_bytes());
        entry[16..24].copy_from_slice(&fragment.checksum.number().to_le_bytes());
        out.extend_from_slice(&entry);
    }
    for source in event.missing_sources() {
        out.extend_from_slice(&source.number().to_le_bytes());
    }
    pad(out, start);
    let sealed = tag.seal(Checksum::of(&out[start..]));
    out.extend_from_slice(&sealed.to_le_bytes());
}

/// The beginning of a record head, which gives the length of the head and of the record. The
/// checksum of the head is not verified yet, so the lengths only bound the amount to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix {
    pub(crate) head_length: u64,
    pub(crate) length: u64,
    fragments: usize,
    missing: usize,
}

impl Prefix {
    /// Reads the first [`RECORD_PREFIX`] bytes; `available` is the number of bytes in the file from
    /// the record's start on.
    pub(crate) fn decode(bytes: &[u8], available: u64) -> Result<Self, Flaw> {
        let mut fields = Fields(bytes);
        match fields.array() {
            Some(RECORD_MAGIC) => {}
            None if RECORD_MAGIC.starts_with(bytes) => return Err(Flaw::PastEnd),
            _ => return Err(Flaw::Magic),
        }
        Self::numbers(fields).ok_or(Flaw::PastEnd)?.checked(available)
    }

    fn numbers(mut fields: Fields<'_>) -> Option<Self> {
        let head_length = u64::from(fields.u32()?);
        let length = fields.u64()?;
        fields.bytes(32)?;
        let fragments = fields.u32()? as usize;
        let missing = fields.u32()? as usize;
        Some(Self { head_length, length, fragments, missing })
    }

    fn checked(self, available: u64) -> Result<Self, Flaw> {
        if self.fragments > MAX_SOURCES
            || self.missing > MAX_SOURCES
            || self.head_length != head_size(self.fragments, self.missing)
            || self.length < self.head_length
            || self.length > MAX_RECORD
        {
            return Err(Flaw::Lengths);
        }
        if self.length > available { Err(Flaw::PastEnd) } else { Ok(self) }
    }

    /// Decodes the whole head of a record from its `head_length` bytes, and verifies the checksum.
    pub(crate) fn record(self, offset: u64, head: &[u8], tag: FileTag) -> Result<Record, Flaw> {
        Ok(self.head(head, tag)?.record(offset))
    }

    /// Decodes a head like [`Self::record`], and leaves its tables where they are.
    pub(crate) fn head(self, head: &[u8], tag: FileTag) -> Result<Head<'_>, Flaw> {
        let (content, stored) = head.split_last_chunk().ok_or(Flaw::Lengths)?;
        if tag.seal(Checksum::of(content)) != u64::from_le_bytes(*stored) {
            return Err(Flaw::HeadChecksum);
        }
        let (head, flags) = self.tables(content).ok_or(Flaw::Lengths)?;
        if flags != if head.missing.is_empty() { 0 } else { INCOMPLETE } {
            return Err(Flaw::Reserved);
        }
        if self.head_length + aligned(head.payload_size()) != self.length {
            return Err(Flaw::Lengths);
        }
        Ok(head)
    }

    /// Decodes the rest of the head, and returns the head with its flags.
    fn tables(self, content: &[u8]) -> Option<(Head<'_>, u16)> {
        let mut fields = Fields(content.get(16..)?);
        let event = EventId::new(fields.u64()?);
        let epoch = Epoch::new(fields.u64()?);
        let triggered = Instant::from_nanos(fields.u64()?);
        let run = RunNumber::new(fields.u32()?);
        let builder = BuilderId::new(fields.u16()?);
        let flags = fields.u16()?;
        fields.u64()?;
        let (fragments, _) = fields.bytes(FRAGMENT_ENTRY as usize * self.fragments)?.as_chunks();
        let (missing, _) = fields.bytes(2 * self.missing)?.as_chunks();
        let (length, head_length) = (self.length, self.head_length);
        Some((Head { length, head_length, event, epoch, triggered, run, builder, fragments, missing }, flags))
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
    pub(crate) run: RunNumber,
    pub(crate) builder: BuilderId,
    fragments: &'a [[u8; FRAGMENT_ENTRY as usize]],
    missing: &'a [[u8; 2]],
}

impl<'a> Head<'a> {
    pub(crate) fn fragments(self) -> impl Iterator<Item = FragmentEntry> + Clone + use<'a> {
        self.fragments.iter().map(FragmentEntry::decode)
    }

    pub(crate) fn missing(self) -> impl Iterator<Item = MissingSource> + use<'a> {
        let source = |id: &[u8; 2]| SourceId::new(u16::from_le_bytes(*id));
        self.missing.iter().map(move |id| MissingSource::new(source(id), Cause::Unknown))
    }

    fn payload_size(self) -> u64 {
        self.fragments().map(|fragment| u64::from(fragment.length)).sum()
    }

    fn record(self, offset: u64) -> Record {
        let Self { length, head_length, event, epoch, triggered, run, builder, .. } = self;
        let (length, head_length) = (Bytes::new(length), Bytes::new(head_length));
        let (missing, fragments) = (self.missing().collect(), self.fragments().collect());
        Record { offset, length, head_length, event, run, epoch, builder, triggered, missing, fragments }
    }
}

impl FragmentEntry {
    fn decode(bytes: &[u8; FRAGMENT_ENTRY as usize]) -> Self {
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        // The source has bytes 0 and 1, the length bytes 4 to 7.
        let first = number(0);
        Self {
            source: SourceId::new(first as u16),
            length: (first >> 32) as u32,
            timestamp: Timestamp::new(number(8)),
            checksum: Checksum::from_number(number(16)),
        }
    }
}

impl Record {
    /// Returns true if every expected source contributed.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the total size of the payloads.
    pub fn payload_size(&self) -> Bytes {
        self.fragments.iter().map(|fragment| Bytes::new(u64::from(fragment.length))).sum()
    }

    /// Returns the offset of the payloads in the file.
    pub(crate) fn payload_offset(&self) -> u64 {
        self.offset + self.head_length.count()
    }

    /// Returns the offset of the record's end in the file.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length.count()
    }
}
