//! [`ReadAhead`] reads batches on several threads, ahead of the caller.
//!
//! The rest of the file is divided into pieces of equal size, and each of *n* threads reads every
//! *n*th piece. Nothing tells where a record begins in the middle of the file, so a piece begins at
//! the first intact head after its nominal start. That head may lie inside a payload. The piece
//! therefore counts only if the piece before ends exactly there; else all results are dropped, and
//! the caller's thread reads from the end of the piece before. So the result is that of one thread.

use std::{
    mem,
    num::NonZeroUsize,
    ops::Deref,
    process,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use super::{
    super::{EventFile, scan::mark_in},
    Batch, Batches,
    part::{Memory, Part, PartEnd, head_at},
};
use crate::format::ALIGNMENT;

/// Size from which on a piece is worth the way to another thread, which costs about as much as the
/// checksums of 100 kB. Tests read small files in pieces.
const WORTH: u64 = if cfg!(any(test, feature = "fuzzing")) { 1 << 11 } else { 1 << 18 };
/// Number of batches that the caller's thread reads after pieces did not fit together. In a file
/// with much damage, threads would mostly read what is then dropped.
const ALONE: u32 = 8;

/// A reader of a file in batches, on several threads. `F` is a shared reference to the file, such
/// as `Arc<EventFile>`, and `M` one to the content of the file, such as a map. The batches have
/// the same events and findings as [`Batches`], but their borders differ: a batch may have fewer
/// events than the caller allows, although more events follow.
///
/// Each thread keeps at most two batches that the caller has not taken. The threads end when the
/// reader is dropped; each first finishes its batch.
///
/// ```
/// # use evb_core::{event::Event, id::*};
/// use std::{num::NonZeroUsize, sync::Arc};
///
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// let (file, memory) = (Arc::new(EventFile::open(&path)?), Arc::new(std::fs::read(&path)?));
/// let threads = NonZeroUsize::new(2).ok_or("no thread")?;
/// let batches = ReadAhead::new(file, memory, 1000, threads);
/// assert_eq!(batches.map(|batch| batch.len()).sum::<usize>(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReadAhead<F, M> {
    batches: Batches<F>,
    memory: M,
    most: usize,
    threads: NonZeroUsize,
    pieces: Option<Pieces>,
    /// Number of batches to read without other threads.
    alone: u32,
}

/// The threads that read ahead.
#[derive(Debug)]
struct Pieces {
    /// One receiver per thread.
    threads: Vec<Receiver<Option<(Part, PartEnd)>>>,
    /// The number of pieces taken so far.
    taken: usize,
    /// The offset at which the present piece ends nominally, and the size of a piece.
    border: u64,
    length: u64,
    /// The process that has the threads.
    process: u32,
}

/// The pieces of one thread: the first one, and the distance to each later one.
#[derive(Clone, Copy)]
struct ThreadPieces {
    first: u64,
    length: u64,
    step: u64,
    most: usize,
}

impl<F, M> ReadAhead<F, M>
where
    F: Deref<Target = EventFile> + Clone + Send + 'static,
    M: Deref<Target: AsRef<[u8]>> + Clone + Send + 'static,
{
    /// Creates a reader of batches with at most `most` events. `memory` is the whole file.
    pub fn new(file: F, memory: M, most: usize, threads: NonZeroUsize) -> Self {
        let batches = Batches::new(file);
        Self { batches, memory, most: most.max(1), threads, pieces: None, alone: 0 }
    }

    #[cfg(test)]
    pub(super) fn has_threads(&self) -> bool {
        self.pieces.is_some()
    }

    /// Starts the threads, if the file has more than one piece after the present position.
    fn begin(&self) -> Option<Pieces> {
        let (file, start) = (&self.batches.file, self.batches.position.next?);
        let mean = self.batches.mean.or_else(|| mean_of(file))?;
        // Most pieces then have a little less than `most` records.
        let likely = u128::from(mean) * self.most as u128 / 16 * 15;
        let length = u64::try_from(likely).ok()?.next_multiple_of(ALIGNMENT);
        let rest = file.records_end().checked_sub(start)?;
        if self.threads == NonZeroUsize::MIN || length < WORTH || rest <= length {
            return None;
        }
        let count = rest.div_ceil(length).min(self.threads.get() as u64);
        let begin = |number| {
            let share = ThreadPieces {
                first: start + number * length,
                length,
                step: count * length,
                most: self.most,
            };
            let (file, memory) = (self.batches.file.clone(), self.memory.clone());
            let (sender, receiver) = sync_channel(3);
            let read = move || share.read(&file, memory.as_ref(), &sender);
            // The system may refuse another thread.
            thread::Builder::new().name("evb-read-ahead".into()).spawn(read).ok().map(|_| receiver)
        };
        let threads = (0..count).map(begin).collect::<Option<_>>()?;
        Some(Pieces { threads, taken: 0, border: start, length, process: process::id() })
    }

    /// Takes the batch of the next piece, if the piece follows the batch before.
    fn take(&mut self) -> Option<Batch> {
        if self.pieces.as_ref()?.process != process::id() {
            // A fork has copied the receivers and no thread. Their state may be half-changed.
            mem::forget(self.pieces.take());
            return None;
        }
        let pieces = self.pieces.as_mut()?;
        let turn = pieces.taken % pieces.threads.len();
        pieces.taken += 1;
        pieces.border = pieces.border.saturating_add(pieces.length);
        let piece = pieces.threads.get(turn)?.recv().ok().flatten();
        let batches = &mut self.batches;
        let Some((part, stop)) =
            piece.filter(|(part, _)| batches.position.next == Some(part.start) && !part.batch.has_nothing())
        else {
            (self.pieces, self.alone) = (None, ALONE);
            return None;
        };
        let (rows, border) = (part.batch.rows(), pieces.border.min(batches.file.records_end()));
        batches.mean = Some((part.next - part.start) / rows as u64);
        batches.position.pass_all(&batches.file, part.next, part.entries);
        if !matches!(stop, PartEnd::Place) {
            // The caller's thread goes on at the damage.
            (self.pieces, self.alone) = (None, 1);
        } else if part.next < border || rows < self.most / 2 {
            // The piece had more events than the caller allows, or few. New ones have the new mean.
            self.pieces = None;
        }
        Some(part.batch)
    }
}

impl<F, M> Iterator for ReadAhead<F, M>
where
    F: Deref<Target = EventFile> + Clone + Send + 'static,
    M: Deref<Target: AsRef<[u8]>> + Clone + Send + 'static,
{
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        if self.pieces.is_none() && self.alone == 0 {
            self.pieces = self.begin();
        }
        if let Some(batch) = self.take() {
            return Some(batch);
        }
        self.alone = self.alone.saturating_sub(1);
        self.batches.next_in(self.memory.as_ref(), self.most)
    }
}

impl ThreadPieces {
    /// Reads the pieces of this share, until the file ends or the reader has been dropped.
    fn read(self, file: &EventFile, bytes: &[u8], sender: &SyncSender<Option<(Part, PartEnd)>>) {
        let (memory, end) = (Memory { bytes, at: 0 }, file.records_end());
        let mut start = self.first;
        while start < end {
            let border = start.saturating_add(self.length).min(end);
            let piece = head_from(file, memory, start, border).map(|first| {
                let mut part = Part::new(first, Batch::at(first));
                let stop = part.walk(file, memory, border, self.most);
                (part, stop)
            });
            if sender.send(piece).is_err() {
                return;
            }
            start = start.saturating_add(self.step);
        }
    }
}

/// Returns the mean size of the file's records, if the file has an index.
fn mean_of(file: &EventFile) -> Option<u64> {
    let records = (!file.wants_entries()).then(|| file.told_len())?;
    file.records_end().checked_sub(file.header_length)?.checked_div(records as u64)
}

/// Returns the offset of the first intact head from `at` on that begins before `end`.
pub(super) fn head_from(file: &EventFile, memory: Memory<'_>, mut at: u64, end: u64) -> Option<u64> {
    loop {
        at += mark_in(memory.get(at, end.checked_sub(at)?)?, file.tag.version)?;
        if at < end && head_at(file, memory, at).is_ok() {
            return Some(at);
        }
        at += ALIGNMENT;
    }
}
