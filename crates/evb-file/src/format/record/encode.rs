//! Encodes heads of both versions.

use evb_core::{
    event::{Event, MissingSource},
    fragment::Checksum,
};

use super::{
    super::{FileTag, FormatVersion, MAX_RECORD, MAX_SOURCES, aligned, pad, section},
    ABSENT, EVENT_TAG, FRAGMENT_ENTRY, INCOMPLETE, LOST_PACKETS, MISSING, MISSING_ENTRY, PREFIX, PREFIX_1,
};

/// The offset of the file tag in a head of version 2.
const TAG_AT: usize = 48;

/// Returns the size of the record head of an event with this number of fragments.
fn head_size(event: &Event, fragments: usize, version: FormatVersion) -> u64 {
    let list = |sources: &[MissingSource]| section::size((MISSING_ENTRY * sources.len()) as u64);
    let lost = || if event.has_lost_packets() { section::size(4 * fragments as u64) } else { 0 };
    let lists = || if event.is_whole() { 0 } else { list(&event.missing) + list(&event.absent) + lost() };
    let tag = || if event.tag == 0 { 0 } else { section::size(8) };
    let (prefix, rest) = match version {
        FormatVersion::One => (PREFIX_1, aligned(2 * event.missing.len() as u64)),
        FormatVersion::Two => (PREFIX, lists() + tag()),
    };
    prefix as u64 + FRAGMENT_ENTRY * fragments as u64 + rest + 8
}

/// Returns the size of an event's record, or `None` if the format cannot hold the event.
pub(crate) fn record_size(event: &Event, version: FormatVersion) -> Option<u64> {
    let fragments = event.fragments();
    if fragments.len().max(event.missing.len()).max(event.absent.len()) > MAX_SOURCES {
        return None;
    }
    let head = head_size(event, fragments.len(), version);
    let mut payload = 0;
    for fragment in fragments {
        payload += u64::from(u32::try_from(fragment.payload.len()).ok()?);
    }
    let whole = head + aligned(payload);
    (whole <= MAX_RECORD).then_some(whole)
}

/// Appends an event's record to `out`; `length` is its length, as [`record_size`] returns it.
pub(crate) fn encode_record(event: &Event, length: u64, tag: &FileTag, out: &mut Vec<u8>) {
    let start = out.len();
    encode_head(event, length, tag, out);
    for fragment in event.fragments() {
        out.extend_from_slice(fragment.payload);
    }
    out.resize(start + length as usize, 0);
}

/// Appends the head of an event's record to `out`; `length` is the length of the whole record, as
/// [`record_size`] returns it.
pub(crate) fn encode_head(event: &Event, length: u64, tag: &FileTag, out: &mut Vec<u8>) {
    let start = out.len();
    match tag.version {
        FormatVersion::One => prefix_1(event, length, out),
        FormatVersion::Two => prefix(event, length, tag, out),
    }
    for fragment in event.fragments() {
        let mut entry = [0; FRAGMENT_ENTRY as usize];
        entry[0..2].copy_from_slice(&fragment.source.number().to_le_bytes());
        if tag.version == FormatVersion::Two {
            entry[2] = fragment.alignment.code();
        }
        entry[4..8].copy_from_slice(&(fragment.payload.len() as u32).to_le_bytes());
        entry[8..16].copy_from_slice(&fragment.timestamp.ticks().to_le_bytes());
        entry[16..24].copy_from_slice(&fragment.checksum.number().to_le_bytes());
        out.extend_from_slice(&entry);
    }
    match tag.version {
        FormatVersion::One => {
            for source in event.missing_sources() {
                out.extend_from_slice(&source.number().to_le_bytes());
            }
            pad(out, start);
        }
        FormatVersion::Two if event.is_whole() && event.tag == 0 => {}
        FormatVersion::Two => {
            section::push(out, start, MISSING, true, &entries(&event.missing));
            section::push(out, start, ABSENT, true, &entries(&event.absent));
            if event.tag != 0 {
                section::push(out, start, EVENT_TAG, false, &event.tag.to_le_bytes());
            }
            if event.has_lost_packets() {
                let lost = event.fragments().flat_map(|fragment| fragment.lost_packets.to_le_bytes());
                section::push(out, start, LOST_PACKETS, false, &lost.collect::<Vec<u8>>());
            }
        }
    }
    let sealed = tag.seal(Checksum::of(&out[start..]));
    out.extend_from_slice(&sealed.to_le_bytes());
}

/// Appends the fixed part of a record of format 2.
fn prefix(event: &Event, length: u64, tag: &FileTag, out: &mut Vec<u8>) {
    let fragments = event.fragments().len();
    let head = head_size(event, fragments, FormatVersion::Two);
    let flags = if event.is_complete() { 0 } else { INCOMPLETE };
    let mut bytes = [0; PREFIX];
    bytes[0..4].copy_from_slice(&FormatVersion::Two.record_magic());
    bytes[4..8].copy_from_slice(&(head as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&length.to_le_bytes());
    bytes[16..24].copy_from_slice(&event.id.number().to_le_bytes());
    bytes[24..32].copy_from_slice(&event.epoch.number().to_le_bytes());
    bytes[32..40].copy_from_slice(&event.triggered.as_nanos().to_le_bytes());
    bytes[40..48].copy_from_slice(&event.utc.as_nanos().to_le_bytes());
    bytes[48..56].copy_from_slice(&tag.checksum.number().to_le_bytes());
    bytes[56..60].copy_from_slice(&event.run.number().to_le_bytes());
    bytes[60..64].copy_from_slice(&tag.run_id.short().to_bytes());
    bytes[64..66].copy_from_slice(&event.builder.number().to_le_bytes());
    bytes[66..68].copy_from_slice(&flags.to_le_bytes());
    bytes[68..72].copy_from_slice(&(fragments as u32).to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends the fixed part of a record of format 1.
fn prefix_1(event: &Event, length: u64, out: &mut Vec<u8>) {
    let fragments = event.fragments().len();
    let head = head_size(event, fragments, FormatVersion::One);
    let flags = if event.is_complete() { 0 } else { INCOMPLETE };
    out.extend_from_slice(&FormatVersion::One.record_magic());
    out.extend_from_slice(&(head as u32).to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&event.id.number().to_le_bytes());
    out.extend_from_slice(&event.epoch.number().to_le_bytes());
    out.extend_from_slice(&event.triggered.as_nanos().to_le_bytes());
    out.extend_from_slice(&event.run.number().to_le_bytes());
    out.extend_from_slice(&event.builder.number().to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&(fragments as u32).to_le_bytes());
    out.extend_from_slice(&(event.missing.len() as u32).to_le_bytes());
}

/// Encodes a table of sources with the causes for which they are missing or absent.
fn entries(sources: &[MissingSource]) -> Vec<u8> {
    let mut out = Vec::with_capacity(MISSING_ENTRY * sources.len());
    for missing in sources {
        out.extend_from_slice(&missing.source.number().to_le_bytes());
        out.extend_from_slice(&[missing.cause.code(), 0]);
    }
    out
}

/// Returns the file tag in the first bytes of a head of version 2.
pub(crate) fn tag_at(head: &[u8]) -> Option<Checksum> {
    let bytes = head.get(TAG_AT..)?.first_chunk()?;
    Some(Checksum::from_number(u64::from_le_bytes(*bytes)))
}

/// Makes a head of version 2 one of another file: replaces the tag, the digits of the run id and
/// the checksum, and keeps everything else, also what this version of evb does not know.
pub(crate) fn reseal(head: &mut [u8], tag: FileTag) {
    let Some(end) = head.len().checked_sub(8).filter(|end| *end >= PREFIX) else { return };
    head[TAG_AT..TAG_AT + 8].copy_from_slice(&tag.checksum.number().to_le_bytes());
    head[60..64].copy_from_slice(&tag.run_id.short().to_bytes());
    let sealed = tag.seal(Checksum::of(&head[..end]));
    head[end..].copy_from_slice(&sealed.to_le_bytes());
}
