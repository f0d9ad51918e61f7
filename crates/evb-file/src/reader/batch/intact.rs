//! Verifies the payloads of many records, on several threads.

use std::{num::NonZeroUsize, thread};

use evb_core::fragment::Checksum;

use crate::format::{Flaw, FragmentEntry, Head};

/// Number of bytes from which on another thread is worth its start, which costs about as much as
/// the checksums of 200 kB.
const SHARE: usize = 1 << 20;

/// A record whose head is intact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'m> {
    pub(super) offset: u64,
    pub(super) head: Head<'m>,
    /// All bytes of the record.
    pub(super) bytes: &'m [u8],
}

/// Returns the flaw of each record, `None` for an intact one. At most `threads` threads verify
/// records, this thread included.
pub(super) fn flaws(records: &[Candidate<'_>], threads: NonZeroUsize) -> Vec<Option<Flaw>> {
    let size: usize = records.iter().map(|record| record.bytes.len()).sum();
    let shares = threads.get().min(size / SHARE).max(1);
    let share = records.len().div_ceil(shares).max(1);
    let (own, others) = records.split_at(share.min(records.len()));
    thread::scope(|scope| {
        let begin = |part| thread::Builder::new().spawn_scoped(scope, move || verify(part));
        let others: Vec<_> = others.chunks(share).map(|part| (part, begin(part))).collect();
        let mut flaws = verify(own);
        for (part, other) in others {
            // The system may refuse another thread.
            let of_part = other.ok().and_then(|other| other.join().ok());
            flaws.extend(of_part.unwrap_or_else(|| verify(part)));
        }
        flaws
    })
}

fn verify(records: &[Candidate<'_>]) -> Vec<Option<Flaw>> {
    let flaw = |record: &Candidate<'_>| {
        let payloads = record.bytes.get(record.head.head_length as usize..).unwrap_or_default();
        flaw_of(record.head.fragments(), payloads)
    };
    records.iter().map(flaw).collect()
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
