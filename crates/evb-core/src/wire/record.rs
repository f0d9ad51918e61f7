//! Lane records: binary, little-endian, with a header of 16 bytes each (docs/reference/protocol.md,
//! section "Lane records").
//!
//! ```text
//! offset 0      1      2        4         8                 16
//!        kind   flags  count    length    lane offset       body, `length` bytes
//!        u8     u8=0   u16      u32       u64
//!
//! ANNOUNCE  source → builder   count items of 24 bytes: event u64, timestamp u64,
//!                              payload length u32, 0 u32; offset: lane offset of the first
//! DATA      source → builder   length lane bytes from offset on
//! GRANT     builder → source   no body; offset: the source may send up to here
//! COMMIT    builder → source   offset: everything below may be forgotten; count ranges above
//!                              it, 16 bytes each: start u64, end u64
//!
//! only over datagrams:
//! RESEND      builder → source   count lost ranges, 16 bytes each; offset: request number
//! ANNOUNCED   builder → source   no body; offset: announcements are known up to here
//! REANNOUNCE  builder → source   no body; offset: announcements from here on are missing
//! ```

use core::ops::Range;

use bytes::{BufMut, BytesMut};

use crate::{fragment::Timestamp, id::EventId};

/// Length of a record's header in bytes.
pub const RECORD_HEADER: usize = 16;
/// Length of one announcement in bytes.
pub const ANNOUNCEMENT: usize = 24;
/// Length of one range of a commit or request, in bytes.
pub const COMMIT_RANGE: usize = 16;
/// Most announcements in one ANNOUNCE record.
pub const MAX_ANNOUNCEMENTS: usize = 1024;
/// Most ranges in one COMMIT record.
pub const MAX_COMMIT_RANGES: usize = 64;
/// Most ranges in one RESEND record.
pub const MAX_RESEND_RANGES: usize = 32;
/// Most lane bytes in one DATA record.
pub const MAX_DATA: u32 = 4 << 20;
/// Length of the header before each payload in the lane, in bytes: event id and checksum.
pub const FRAGMENT_HEADER: u64 = 16;

const KIND_ANNOUNCE: u8 = 1;
const KIND_DATA: u8 = 2;
const KIND_GRANT: u8 = 3;
const KIND_COMMIT: u8 = 4;
const KIND_RESEND: u8 = 5;
const KIND_ANNOUNCED: u8 = 6;
const KIND_REANNOUNCE: u8 = 7;

/// Announcement of a fragment that the source is ready to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Event of the fragment.
    pub event: EventId,
    /// The detector's own timestamp of the fragment.
    pub timestamp: Timestamp,
    /// Length of the payload in bytes.
    pub length: u32,
    /// Number of packets of the fragment that were lost before they reached the source.
    pub lost_packets: u32,
}

/// Header of a record, after it was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordHeader {
    /// Announcements follow. The first announced fragment begins at `offset`.
    Announce {
        /// Number of announcements.
        count: u16,
        /// Lane offset at which the first fragment begins.
        offset: u64,
    },
    /// Lane bytes follow the header.
    Data {
        /// Number of lane bytes.
        length: u32,
        /// Lane offset of the first byte.
        offset: u64,
    },
    /// The builder permits the source to send up to `end`.
    Grant {
        /// Lane offset up to which the source may send.
        end: u64,
    },
    /// The builder permits the source to forget everything below `offset`, and the ranges that
    /// follow.
    Commit {
        /// Number of ranges.
        count: u16,
        /// Lane offset below which the source may forget everything.
        offset: u64,
    },
    /// The builder requests that the source send the ranges that follow again. Used only over
    /// datagrams.
    Resend {
        /// Number of ranges.
        count: u16,
        /// Number by which datagrams refer to this request; not 0.
        request: u16,
    },
    /// The builder knows the announcements up to `offset`. Used only over datagrams.
    Announced {
        /// Lane offset up to which the builder knows the announcements.
        offset: u64,
    },
    /// The builder lacks the announcements from `offset` on. Used only over datagrams.
    Reannounce {
        /// Lane offset from which on the builder lacks announcements.
        offset: u64,
    },
}

/// Reason why bytes are not a record. The peer is at fault, and the receiver closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The kind of record is unknown.
    #[error("it sent a record of the unknown kind {0}")]
    Kind(u8),
    /// The flags are not 0; this version of evb knows no flags.
    #[error("it sent a record with flags {0:#x}, which are not defined")]
    Flags(u8),
    /// Number of items and length of the body contradict each other, or exceed the limit.
    #[error("it sent a record of kind {kind} that claims {count} items in {length} bytes")]
    Length {
        /// Kind of the record.
        kind: u8,
        /// Number of items that the header states.
        count: u16,
        /// Length of the body that the header states.
        length: u32,
    },
    /// A record is longer than the rest of the datagram that carries it.
    #[error("it sent a record that is cut off")]
    Truncated,
    /// A range in a commit or request is empty, or ends before it begins.
    #[error("it sent a range of bytes that is empty, or ends before it begins ({start}..{end})")]
    Range {
        /// Start of the range, as the peer stated it.
        start: u64,
        /// End of the range, as the peer stated it.
        end: u64,
    },
}

impl RecordHeader {
    /// Decodes a header, and checks its lengths against the limits (docs/reference/protocol.md
    /// LANE-1, LANE-2).
    pub fn decode(bytes: [u8; RECORD_HEADER]) -> Result<Self, RecordError> {
        let [kind, flags, c0, c1, l0, l1, l2, l3, offset @ ..] = bytes;
        let count = u16::from_le_bytes([c0, c1]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let offset = u64::from_le_bytes(offset);
        if flags != 0 {
            return Err(RecordError::Flags(flags));
        }
        let (header, consistent) = match kind {
            KIND_ANNOUNCE => (
                Self::Announce { count, offset },
                (1..=MAX_ANNOUNCEMENTS).contains(&count.into()) && length == items(count, ANNOUNCEMENT),
            ),
            KIND_DATA => (Self::Data { length, offset }, count == 0 && (1..=MAX_DATA).contains(&length)),
            KIND_GRANT => (Self::Grant { end: offset }, count == 0 && length == 0),
            KIND_COMMIT => (
                Self::Commit { count, offset },
                usize::from(count) <= MAX_COMMIT_RANGES && length == items(count, COMMIT_RANGE),
            ),
            KIND_RESEND => (
                Self::Resend { count, request: offset as u16 },
                (1..=MAX_RESEND_RANGES).contains(&count.into())
                    && length == items(count, COMMIT_RANGE)
                    && (1..=u16::MAX.into()).contains(&offset),
            ),
            KIND_ANNOUNCED => (Self::Announced { offset }, count == 0 && length == 0),
            KIND_REANNOUNCE => (Self::Reannounce { offset }, count == 0 && length == 0),
            _ => return Err(RecordError::Kind(kind)),
        };
        if consistent { Ok(header) } else { Err(RecordError::Length { kind, count, length }) }
    }

    /// Returns the bytes of the header.
    pub fn encode(self) -> [u8; RECORD_HEADER] {
        let (kind, count, length, offset) = match self {
            Self::Announce { count, offset } => (KIND_ANNOUNCE, count, items(count, ANNOUNCEMENT), offset),
            Self::Data { length, offset } => (KIND_DATA, 0, length, offset),
            Self::Grant { end } => (KIND_GRANT, 0, 0, end),
            Self::Commit { count, offset } => (KIND_COMMIT, count, items(count, COMMIT_RANGE), offset),
            Self::Resend { count, request } => {
                (KIND_RESEND, count, items(count, COMMIT_RANGE), request.into())
            }
            Self::Announced { offset } => (KIND_ANNOUNCED, 0, 0, offset),
            Self::Reannounce { offset } => (KIND_REANNOUNCE, 0, 0, offset),
        };
        let mut bytes = [0; RECORD_HEADER];
        bytes[0] = kind;
        bytes[2..4].copy_from_slice(&count.to_le_bytes());
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..].copy_from_slice(&offset.to_le_bytes());
        bytes
    }

    /// Returns the length of the record's body; 0 for a DATA record, whose body is read piece by
    /// piece.
    pub fn body(self) -> usize {
        match self {
            Self::Announce { count, .. } => usize::from(count) * ANNOUNCEMENT,
            Self::Commit { count, .. } | Self::Resend { count, .. } => usize::from(count) * COMMIT_RANGE,
            Self::Data { .. } | Self::Grant { .. } | Self::Announced { .. } | Self::Reannounce { .. } => 0,
        }
    }
}

impl Announcement {
    /// Appends the announcement as 24 bytes.
    pub fn encode(self, into: &mut BytesMut) {
        into.put_u64_le(self.event.number());
        into.put_u64_le(self.timestamp.ticks());
        into.put_u32_le(self.length);
        into.put_u32_le(self.lost_packets);
    }

    /// Decodes an announcement from its 24 bytes.
    pub fn decode(bytes: &[u8; ANNOUNCEMENT]) -> Self {
        let [e0, e1, e2, e3, e4, e5, e6, e7, t0, t1, t2, t3, t4, t5, t6, t7, l0, l1, l2, l3, n0, n1, n2, n3] =
            *bytes;
        Self {
            event: EventId::new(u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7])),
            timestamp: Timestamp::new(u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7])),
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            lost_packets: u32::from_le_bytes([n0, n1, n2, n3]),
        }
    }

    /// Returns the number of lane bytes of the fragment: header and payload.
    pub const fn lane_length(&self) -> u64 {
        FRAGMENT_HEADER + self.length as u64
    }
}

/// Removes the first record from the front of a datagram's body, and returns its header and body;
/// `None` at the end.
pub fn next_record<'a>(body: &mut &'a [u8]) -> Result<Option<(RecordHeader, &'a [u8])>, RecordError> {
    if body.is_empty() {
        return Ok(None);
    }
    let (header, rest) = body.split_first_chunk::<RECORD_HEADER>().ok_or(RecordError::Truncated)?;
    let header = RecordHeader::decode(*header)?;
    let (items, rest) = rest.split_at_checked(header.body()).ok_or(RecordError::Truncated)?;
    *body = rest;
    Ok(Some((header, items)))
}

/// Appends a COMMIT record. Ranges beyond [`MAX_COMMIT_RANGES`] are left out; a later commit has to
/// state them.
pub fn encode_commit(offset: u64, ranges: &[Range<u64>], into: &mut BytesMut) {
    let ranges = &ranges[..ranges.len().min(MAX_COMMIT_RANGES)];
    put_ranges(RecordHeader::Commit { count: ranges.len() as u16, offset }, ranges, into);
}

/// Appends a RESEND record that requests `ranges`, at most [`MAX_RESEND_RANGES`] of them.
pub fn encode_resend(request: u16, ranges: &[Range<u64>], into: &mut BytesMut) {
    let ranges = &ranges[..ranges.len().min(MAX_RESEND_RANGES)];
    put_ranges(RecordHeader::Resend { count: ranges.len() as u16, request }, ranges, into);
}

fn put_ranges(header: RecordHeader, ranges: &[Range<u64>], into: &mut BytesMut) {
    into.put_slice(&header.encode());
    for range in ranges {
        into.put_u64_le(range.start);
        into.put_u64_le(range.end);
    }
}

/// Decodes one range of a commit or request.
pub fn decode_range(bytes: &[u8; COMMIT_RANGE]) -> Result<Range<u64>, RecordError> {
    let (start, end) = two_u64(bytes);
    if start < end { Ok(start..end) } else { Err(RecordError::Range { start, end }) }
}

/// Returns the bytes of the header before a payload in the lane.
pub fn encode_fragment_header(event: EventId, checksum: crate::fragment::Checksum) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&event.number().to_le_bytes());
    bytes[8..].copy_from_slice(&checksum.number().to_le_bytes());
    bytes
}

/// Decodes the header before a payload in the lane.
pub fn decode_fragment_header(bytes: &[u8; 16]) -> (EventId, crate::fragment::Checksum) {
    let (event, checksum) = two_u64(bytes);
    (EventId::new(event), crate::fragment::Checksum::from_number(checksum))
}

fn two_u64(bytes: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

const fn items(count: u16, size: usize) -> u32 {
    count as u32 * size as u32
}
