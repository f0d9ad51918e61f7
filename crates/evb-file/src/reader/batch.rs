//! [`Batches`] reads the events of a file as columns of numbers, and leaves the payloads where they
//! are: for programs in other languages, which look at many events at once.

mod intact;

use std::{io, mem, num::NonZeroUsize, ops::Deref, os::unix::fs::FileExt as _};

use evb_core::units::Bytes;

pub(super) use self::intact::flaw_of;
use self::intact::{Candidate, flaws};
use super::{EventFile, Records, scan::Position};
use crate::{
    error::{FileError, ReadError},
    format::{Flaw, Head, Prefix, RECORD_PREFIX, Record},
    index::IndexEntry,
};

/// The number of bytes that [`Batches::read_next`] reads at a time, unless a record is longer.
const READ: u64 = 8 << 20;

/// Events of one file, as columns of numbers. Every event of a batch is intact; the records that
/// are not intact are in `findings`.
///
/// Column *i* of `events`, `epochs`, `builders`, `runs`, `triggered` and `records` belongs to one
/// event. The fragments of event *i* are rows `first_fragments[i]` to `first_fragments[i + 1]` of
/// `sources`, `timestamps`, `checksums`, `offsets` and `lengths`, and its missing sources are the
/// rows `first_missing[i]` to `first_missing[i + 1]` of `missing`.
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
/// let file = EventFile::open(&path)?;
/// let mut memory = Vec::new();
/// let batch = Batches::new(&file).read_next(&mut memory, 1000).ok_or("the file has no event")?;
/// assert_eq!((batch.events, batch.lengths), (vec![1], vec![4]));
/// let begin = batch.offsets[0] as usize;
/// assert_eq!(&memory[begin..begin + 4], b"data");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    /// The offset in the file at which the bytes of this batch begin.
    pub start: u64,
    /// The offset in the file at which the bytes of this batch end.
    pub end: u64,
    /// Event ids.
    pub events: Vec<u64>,
    /// Epochs in which the events were built.
    pub epochs: Vec<u64>,
    /// Builders of the events.
    pub builders: Vec<u16>,
    /// Run numbers.
    pub runs: Vec<u32>,
    /// Times of the triggers: nanoseconds on the builder's clock.
    pub triggered: Vec<u64>,
    /// Offsets of the records in the file.
    pub records: Vec<u64>,
    /// The first row of each event in `missing`, and the length of `missing`.
    pub first_missing: Vec<u64>,
    /// Sources that were expected and did not contribute.
    pub missing: Vec<u16>,
    /// The first row of each event in the columns of fragments, and the length of these columns.
    pub first_fragments: Vec<u64>,
    /// Sources of the fragments.
    pub sources: Vec<u16>,
    /// Timestamps of the fragments, in ticks of the detector's clock.
    pub timestamps: Vec<u64>,
    /// Checksums of the payloads: CRC-64/NVME, which the reader has verified.
    pub checksums: Vec<u64>,
    /// Offsets of the payloads in the bytes of this batch.
    pub offsets: Vec<u64>,
    /// Lengths of the payloads, in bytes.
    pub lengths: Vec<u32>,
    /// The damage that was found before, between or after the events, in the order of the file.
    pub findings: Vec<ReadError>,
}

impl Batch {
    fn at(start: u64) -> Self {
        Self { start, end: start, first_missing: vec![0], first_fragments: vec![0], ..Self::default() }
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if the batch has no event; it then has findings.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    fn has_nothing(&self) -> bool {
        self.events.is_empty() && self.findings.is_empty()
    }

    fn add(&mut self, offset: u64, head: Head<'_>) {
        self.events.push(head.event.number());
        self.epochs.push(head.epoch.number());
        self.builders.push(head.builder.number());
        self.runs.push(head.run.number());
        self.triggered.push(head.triggered.as_nanos());
        self.records.push(offset);
        self.missing.extend(head.missing().map(|source| source.number()));
        self.first_missing.push(self.missing.len() as u64);
        let mut at = offset - self.start + head.head_length;
        for fragment in head.fragments() {
            self.sources.push(fragment.source.number());
            self.timestamps.push(fragment.timestamp.ticks());
            self.checksums.push(fragment.checksum.number());
            self.offsets.push(at);
            self.lengths.push(fragment.length);
            at += u64::from(fragment.length);
        }
        self.first_fragments.push(self.sources.len() as u64);
        self.end = offset + head.length;
    }
}

/// A reader of a file in batches. `F` is a reference to the file, such as `&EventFile` or
/// `Arc<EventFile>`. The batches have the same events and findings as the iterator
/// [`EventFile::events`].
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
/// // A program that has the whole file in memory, for example mapped, needs no other buffer.
/// let (file, memory) = (EventFile::open(&path)?, std::fs::read(&path)?);
/// let mut batches = Batches::new(&file);
/// while let Some(batch) = batches.next_in(&memory, 1000) {
///     for finding in &batch.findings {
///         eprintln!("{finding}");
///     }
///     assert_eq!(batch.events, [1]);
///     let data = &memory[batch.start as usize..batch.end as usize];
///     assert!(data.starts_with(b"EVBR"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batches<F> {
    file: F,
    position: Position,
    threads: NonZeroUsize,
}

/// Bytes of a file in memory, from the offset `at` on.
#[derive(Clone, Copy, Debug)]
struct Memory<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Memory<'a> {
    /// Returns `length` bytes from `offset` of the file on, if all of them are in memory.
    fn get(self, offset: u64, length: u64) -> Option<&'a [u8]> {
        let begin = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.bytes.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)
    }
}

/// The result of a look at the place of one record.
#[derive(Debug)]
enum Look<'a> {
    /// The head is intact, and the whole record is in memory.
    Whole(Candidate<'a>),
    /// The head is intact, but the record is too large, so reading goes on at the record's end.
    Unusable(Head<'a>, ReadError),
    /// No intact head is here.
    NoHead(Flaw),
    /// The record is not in memory as a whole; at least this number of its bytes is needed.
    Outside(u64),
}

impl<F: Deref<Target = EventFile>> Batches<F> {
    /// Creates a reader that begins at the first record.
    pub fn new(file: F) -> Self {
        let position = Position::first(&file);
        Self { file, position, threads: NonZeroUsize::MIN }
    }

    /// Verifies the checksums of large batches on several threads, at most `threads` of them, the
    /// calling thread included. Threads are started for each batch and end before the batch is
    /// returned.
    #[must_use]
    pub fn threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    /// Returns the file.
    pub fn file(&self) -> &EventFile {
        &self.file
    }

    /// Takes the next events, at most `most`; `memory` is the whole file. Returns `None` after the
    /// last event. The bytes of the batch are `memory[batch.start..batch.end]`.
    pub fn next_in(&mut self, memory: &[u8], most: usize) -> Option<Batch> {
        let mut batch = Batch::at(self.position.next?);
        let outside = self.fill(&mut batch, Memory { bytes: memory, at: 0 }, most);
        if outside.is_some() && batch.has_nothing() {
            let short = FileError::of("read", &self.file.path)(io::ErrorKind::UnexpectedEof.into());
            batch.findings.push(short.into());
            self.position.next = None;
        }
        (!batch.has_nothing()).then_some(batch)
    }

    /// Reads the next events, at most `most`, and replaces the content of `memory` by the bytes of
    /// the batch: at most 8 MiB, or one record if that is longer. Returns `None` after the last
    /// event.
    pub fn read_next(&mut self, memory: &mut Vec<u8>, most: usize) -> Option<Batch> {
        let at = self.position.next?;
        let mut batch = Batch::at(at);
        let mut length = READ.min(self.file.records_end().saturating_sub(at));
        loop {
            if self.read(memory, at, length).is_err() {
                self.read_one(&mut batch, memory);
                break;
            }
            match self.fill(&mut batch, Memory { bytes: memory, at }, most) {
                Some(longer) if batch.has_nothing() => length = longer,
                _ => break,
            }
        }
        memory.truncate((batch.end - batch.start) as usize);
        (!batch.has_nothing()).then_some(batch)
    }

    /// Adds records to the batch until it is full, or until the next record is not in memory as a
    /// whole; then returns the number of bytes that are needed from that record.
    fn fill(&mut self, batch: &mut Batch, memory: Memory<'_>, most: usize) -> Option<u64> {
        let (end, most) = (self.file.records_end(), most.max(1));
        let mut items = Vec::new();
        let mut outside = None;
        while let Some(offset) = self.position.next
            && offset < end
            && items.len() < most
        {
            match self.look(offset, memory) {
                Look::Whole(record) => {
                    self.pass(offset, record.head);
                    items.push(Ok(record));
                }
                Look::Unusable(head, error) => {
                    self.pass(offset, head);
                    items.push(Err(error));
                }
                Look::NoHead(flaw) => items.extend(self.skip(flaw).map(Err)),
                Look::Outside(length) => {
                    outside = Some(length);
                    break;
                }
            }
        }
        self.add_intact(batch, items);
        outside
    }

    /// Verifies the payloads of records. Adds the intact records to the batch, and the other ones
    /// to its findings, together with the findings of `items`, in the order of the file.
    fn add_intact(&self, batch: &mut Batch, items: Vec<Result<Candidate<'_>, ReadError>>) {
        let records: Vec<_> = items.iter().filter_map(|item| item.as_ref().ok().copied()).collect();
        let mut flaws = flaws(&records, self.threads).into_iter();
        for item in items {
            match item {
                Err(finding) => batch.findings.push(finding),
                Ok(Candidate { offset, head, .. }) => match flaws.next().flatten() {
                    None => batch.add(offset, head),
                    Some(flaw) => {
                        let (size, event) = (Bytes::new(head.length), Some(head.event));
                        batch.findings.push(self.file.damaged(offset, size, event, flaw));
                    }
                },
            }
        }
    }

    /// Checks the head of the record at `offset`.
    fn look<'m>(&self, offset: u64, memory: Memory<'m>) -> Look<'m> {
        let (file, end) = (&*self.file, self.file.records_end());
        let first = (RECORD_PREFIX as u64).min(end - offset);
        let Some(bytes) = memory.get(offset, first) else { return Look::Outside(first) };
        let prefix = match Prefix::decode(bytes, end - offset) {
            Ok(prefix) => prefix,
            Err(flaw) => return Look::NoHead(flaw),
        };
        let Some(bytes) = memory.get(offset, prefix.head_length) else {
            return Look::Outside(prefix.head_length);
        };
        let head = match prefix.head(bytes, file.tag) {
            Ok(head) => head,
            Err(flaw) => return Look::NoHead(flaw),
        };
        let (size, limit, event) = (Bytes::new(head.length), file.record_limit, head.event);
        if size > limit {
            let path = file.path.clone();
            return Look::Unusable(head, ReadError::TooLarge { path, offset, event, size, limit });
        }
        match memory.get(offset, head.length) {
            Some(bytes) => Look::Whole(Candidate { offset, head, bytes }),
            None => Look::Outside(head.length),
        }
    }

    fn pass(&mut self, offset: u64, head: Head<'_>) {
        let entry = IndexEntry { event: head.event, epoch: head.epoch, offset };
        self.position.pass(&self.file, offset + head.length, entry);
    }

    /// Goes on behind a place that has no intact head in memory, and returns the finding. The
    /// iterator over records decides, so that there is one rule for the end of a file and for
    /// damage.
    fn skip(&mut self, flaw: Flaw) -> Option<ReadError> {
        self.step().map(|step| match step {
            Err(error) => error,
            // The file has changed since its bytes came into memory.
            Ok(record) => self.file.damaged(record.offset, record.length, Some(record.event), flaw),
        })
    }

    /// Takes one record of a part of the file that cannot be read as a whole.
    fn read_one(&mut self, batch: &mut Batch, memory: &mut Vec<u8>) {
        let record = match self.step() {
            None => return,
            Some(Err(error)) => return batch.findings.push(error),
            Some(Ok(record)) => record,
        };
        let (at, length) = (record.offset, record.length.count());
        if record.length > self.file.record_limit {
            return batch.findings.extend(self.file.read(&record).err());
        }
        if let Err(error) = self.read(memory, at, length) {
            return batch.findings.push(error);
        }
        match self.look(at, Memory { bytes: memory, at }) {
            Look::Whole(record) => self.add_intact(batch, vec![Ok(record)]),
            Look::Unusable(_, error) => batch.findings.push(error),
            Look::NoHead(flaw) => {
                batch.findings.push(self.file.damaged(at, record.length, Some(record.event), flaw));
            }
            Look::Outside(_) => {}
        }
    }

    /// Lets the iterator over records take one step.
    fn step(&mut self) -> Option<Result<Record, ReadError>> {
        let mut records = Records::at(&self.file, mem::take(&mut self.position));
        let next = records.next();
        self.position = records.into_position();
        next
    }

    fn read(&self, memory: &mut Vec<u8>, offset: u64, length: u64) -> Result<(), ReadError> {
        memory.resize(length as usize, 0);
        let file = &*self.file;
        Ok(file.file.read_exact_at(memory, offset).map_err(FileError::of("read", &file.path))?)
    }
}

#[cfg(test)]
mod tests;
