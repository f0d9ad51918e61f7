//! [`Part`]: consecutive records of a file, as one thread reads them.

use evb_core::{fragment::Checksum, units::Bytes};

use super::{super::EventFile, Batch};
use crate::{
    error::ReadError,
    format::{Flaw, FragmentEntry, Head, Prefix},
    index::IndexEntry,
};

/// Bytes of a file in memory, from the offset `at` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: u64,
}

impl<'a> Memory<'a> {
    /// Returns `length` bytes from `offset` of the file on, if all of them are in memory.
    pub(super) fn get(self, offset: u64, length: u64) -> Option<&'a [u8]> {
        let begin = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.bytes.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)
    }
}

/// The reason why a part ends.
#[derive(Debug)]
pub(super) enum PartEnd {
    /// The part is full, or has reached its end.
    Place,
    /// No intact head is here.
    NoHead(Flaw),
    /// The record is not in memory as a whole; at least this number of its bytes is needed.
    Outside(u64),
}

/// Records from one offset of the file to another, without a gap.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) start: u64,
    /// The offset at which the next record should begin.
    pub(super) next: u64,
    /// The events and findings of the records.
    pub(super) batch: Batch,
    /// The index entries of the records, if the reader needs them.
    pub(super) entries: Vec<IndexEntry>,
}

impl Part {
    pub(super) const fn new(start: u64, batch: Batch) -> Self {
        Self { start, next: start, batch, entries: Vec::new() }
    }

    /// Adds the records that begin before `end`, until the batch has `most` events and findings.
    pub(super) fn walk(&mut self, file: &EventFile, memory: Memory<'_>, end: u64, most: usize) -> PartEnd {
        while self.next < end && self.batch.rows() < most {
            let offset = self.next;
            let head = match head_at(file, memory, offset) {
                Ok(head) => head,
                Err(stop) => return stop,
            };
            let (size, limit, event) = (Bytes::new(head.length), file.record_limit, head.event);
            if let Some(flaw) = head.refusal {
                self.batch.findings.push(file.damaged(offset, size, Some(event), flaw));
            } else if size > limit {
                let path = file.path.clone();
                self.batch.findings.push(ReadError::TooLarge { path, offset, event, size, limit });
            } else {
                let Some(bytes) = memory.get(offset, head.length) else {
                    return PartEnd::Outside(head.length);
                };
                let payloads = bytes.get(head.head_length as usize..).unwrap_or_default();
                match flaw_of(head.fragments(), payloads) {
                    None => self.batch.add(offset, head, file.tag.run_id),
                    Some(flaw) => {
                        self.batch.findings.push(file.damaged(offset, size, Some(event), flaw));
                    }
                }
            }
            self.next = offset + head.length;
            if file.wants_entries() {
                self.entries.push(IndexEntry { event, epoch: head.epoch, offset });
            }
        }
        PartEnd::Place
    }
}

/// Checks the head of the record at `offset`.
pub(super) fn head_at<'m>(file: &EventFile, memory: Memory<'m>, offset: u64) -> Result<Head<'m>, PartEnd> {
    let available = file.records_end() - offset;
    let first = (file.tag.version.record_prefix() as u64).min(available);
    let bytes = memory.get(offset, first).ok_or(PartEnd::Outside(first))?;
    let prefix = Prefix::decode(bytes, available, file.tag).map_err(PartEnd::NoHead)?;
    let bytes = memory.get(offset, prefix.head_length).ok_or(PartEnd::Outside(prefix.head_length))?;
    prefix.head(bytes, file.tag).map_err(PartEnd::NoHead)
}

/// Returns the flaw of a record's payloads and padding, if they have one.
pub(in crate::reader) fn flaw_of(
    fragments: impl Iterator<Item = FragmentEntry>,
    payloads: &[u8],
) -> Option<Flaw> {
    let mut rest = payloads;
    for fragment in fragments {
        let Some((payload, after)) = rest.split_at_checked(fragment.length as usize) else {
            return Some(Flaw::Lengths);
        };
        if Checksum::of(payload) != fragment.checksum {
            return Some(Flaw::PayloadChecksum(fragment.source));
        }
        rest = after;
    }
    rest.iter().any(|byte| *byte != 0).then_some(Flaw::Padding)
}
