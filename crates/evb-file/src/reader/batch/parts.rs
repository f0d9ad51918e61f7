//! Reads a part of the file on each thread.
//!
//! The first part begins where the reader is. Nothing tells where a record begins in the middle of
//! the file, so each other part begins at the first intact head after its nominal start. That head
//! may lie inside a payload. The part therefore counts only if the part before ends exactly there;
//! else its result is dropped, and reading goes on from the end of the part before. So the result
//! is that of one thread.

use std::{mem, ops::Deref, thread};

use super::{
    super::{EventFile, scan::mark_in},
    Batch, Batches,
    part::{Memory, Part, Stop, head_at},
};
use crate::format::ALIGNMENT;

/// Number of bytes from which on another thread is worth its start, which costs about as much as
/// the checksums of 200 kB. Tests read small files in parts.
const SHARE: u64 = if cfg!(test) { 1 << 11 } else { 1 << 20 };
/// Number of records that give the mean size of a file's first records.
const SAMPLE: usize = if cfg!(test) { 4 } else { 64 };

/// A piece of the file to be read next.
#[derive(Debug)]
pub(super) struct Extent {
    start: u64,
    end: u64,
    /// The number of parts of equal size, each for one thread.
    pub(super) shares: u64,
    /// The largest number of events and findings.
    room: usize,
}

impl Extent {
    /// Returns the nominal start of a part, or the end of the extent for the number of parts.
    fn border(&self, part: u64) -> u64 {
        // The end of a torn file has no alignment.
        if part == self.shares {
            return self.end;
        }
        let whole = u128::from(self.end - self.start) * u128::from(part) / u128::from(self.shares);
        self.start + whole as u64 / ALIGNMENT * ALIGNMENT
    }
}

impl<F: Deref<Target = EventFile>> Batches<F> {
    /// Chooses a piece of the file that is likely to have a little less than `room` records, if
    /// several threads can share it.
    pub(super) fn extent(&self, start: u64, memory: Memory<'_>, room: usize) -> Extent {
        let end = self.file.records_end();
        let Some(mean) = self.mean else {
            return Extent { start, end, shares: 1, room: room.min(SAMPLE) };
        };
        let likely = u128::from(mean) * room as u128 / 16 * 15;
        let in_memory = (memory.at + memory.bytes.len() as u64).min(end).saturating_sub(start);
        let length = u64::try_from(likely).map_or(in_memory, |likely| likely.min(in_memory));
        let shares = (self.threads.get() as u64).min(length / SHARE).max(1);
        let end = if shares > 1 { start + length } else { end };
        Extent { start, end, shares, room }
    }

    /// Adds the records of an extent to the batch, as far as all records before are known. Goes on
    /// to the end of these records.
    pub(super) fn walk(&mut self, batch: &mut Batch, memory: Memory<'_>, extent: &Extent) -> Stop {
        let file = &*self.file;
        let most = batch.rows() + extent.room;
        let start = batch.start;
        let mut first = Part::new(extent.start, mem::take(batch));
        let (mut stop, others) = thread::scope(|scope| {
            let begin = |part| {
                let walk = move || later(file, memory, extent, part, start);
                // The system may refuse another thread.
                thread::Builder::new().spawn_scoped(scope, walk).ok()
            };
            let others: Vec<_> = (1..extent.shares).map(begin).collect();
            let stop = first.walk(file, memory, extent.border(1), most);
            (stop, others.into_iter().map(|other| other?.join().ok()?).collect::<Vec<_>>())
        });
        self.position.pass_all(&self.file, first.next, mem::take(&mut first.entries));
        *batch = first.batch;
        for (other, its_stop) in others.into_iter().flatten() {
            let follows = self.position.next == Some(other.start) && matches!(stop, Stop::Place);
            if follows && batch.rows() + other.batch.rows() <= most {
                self.position.pass_all(&self.file, other.next, other.entries);
                batch.append(other.batch);
                stop = its_stop;
            }
        }
        stop
    }
}

/// Reads a part other than the first, if a record seems to begin in it.
fn later(
    file: &EventFile,
    memory: Memory<'_>,
    extent: &Extent,
    part: u64,
    start: u64,
) -> Option<(Part, Stop)> {
    let end = extent.border(part + 1);
    let first = head_from(file, memory, extent.border(part), end)?;
    let mut part = Part::new(first, Batch::at(start));
    let stop = part.walk(file, memory, end, extent.room);
    Some((part, stop))
}

/// Returns the offset of the first intact head from `at` on that begins before `end`.
pub(super) fn head_from(file: &EventFile, memory: Memory<'_>, mut at: u64, end: u64) -> Option<u64> {
    loop {
        at += mark_in(memory.get(at, end.checked_sub(at)?)?)?;
        if at < end && head_at(file, memory, at).is_ok() {
            return Some(at);
        }
        at += ALIGNMENT;
    }
}
