//! A record: one event, as a head that describes it, followed by the payloads.

mod encode;
mod head;

use evb_core::{
    event::{Alignment, MissingSource},
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::{Instant, Utc},
    units::Bytes,
};

use super::{Flaw, FormatVersion};
pub(crate) use encode::{encode_head, encode_record, record_size, reseal, tag_at};
pub(crate) use head::{Head, Prefix};

/// The size of a record head up to its fragment table, in bytes.
pub(crate) const PREFIX: usize = 72;
/// The size of a record head of version 1 up to its fragment table, in bytes.
pub(crate) const PREFIX_1: usize = 56;
const FRAGMENT_ENTRY: u64 = 24;
const MISSING_ENTRY: usize = 4;
const INCOMPLETE: u16 = 1;
const MISSING: u16 = 1;
const ABSENT: u16 = 2;
const EVENT_TAG: u16 = 3;
const LOST_PACKETS: u16 = 4;

/// The entry of one fragment in a record's head.
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
    /// Agreement of the timestamp with the others of the event.
    pub alignment: Alignment,
    /// Number of packets of the fragment that were lost before they reached the source.
    pub lost_packets: u32,
}

/// The content of a record's head, after its checksum was verified. The payloads are not in memory.
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
    /// The identity of the run: that of the file's header, if the first digits in the record agree
    /// with it. If they do not, the record is of another run, and has these digits and zeros.
    pub run_id: RunId,
    /// The epoch.
    pub epoch: Epoch,
    /// The builder of the event.
    pub builder: BuilderId,
    /// The time of the trigger, on the builder's clock.
    pub triggered: Instant,
    /// The time of the trigger in UTC, on the scale of the run.
    pub utc: Utc,
    /// Sources that owe the event a fragment and did not contribute one.
    pub missing: Vec<MissingSource>,
    /// Sources that do not owe the event a fragment, because they are excluded or expendable, and
    /// did not contribute one.
    pub absent: Vec<MissingSource>,
    /// The number that a filter gave the event; 0 if none did.
    pub tag: u64,
    /// The descriptions of the fragments, in the order of their payloads in the record.
    pub fragments: Vec<FragmentEntry>,
    /// The reason why this reader must not use the record, whose head is intact.
    pub(crate) refusal: Option<Flaw>,
}

impl FragmentEntry {
    /// Decodes an entry; only that of version 2 has a state of alignment.
    fn decode(bytes: &[u8; FRAGMENT_ENTRY as usize], version: FormatVersion) -> Self {
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        // The source has bytes 0 and 1, the state of alignment byte 2, the length bytes 4 to 7.
        let first = number(0);
        let state = match version {
            FormatVersion::One => 0,
            FormatVersion::Two => (first >> 16) as u8,
        };
        Self {
            source: SourceId::new(first as u16),
            length: (first >> 32) as u32,
            timestamp: Timestamp::new(number(8)),
            checksum: Checksum::from_number(number(16)),
            alignment: Alignment::from_code(state),
            lost_packets: 0,
        }
    }
}

impl Record {
    /// Returns true if every source that owes the event a fragment contributed one.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns true if every source of the run contributed, and no fragment lost packets.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.absent.is_empty() && self.lossy().next().is_none()
    }

    /// Returns the fragments of which packets were lost before they reached their sources.
    pub fn lossy(&self) -> impl Iterator<Item = &FragmentEntry> {
        self.fragments.iter().filter(|fragment| fragment.lost_packets > 0)
    }

    /// Returns true if no fragment is known to belong to another event.
    pub fn is_aligned(&self) -> bool {
        self.fragments.iter().all(|fragment| fragment.alignment != Alignment::Disagrees)
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
