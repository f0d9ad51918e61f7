//! [`Batches`] reads the events of a file as columns of numbers, and leaves the payloads where they
//! are: for programs in other languages, which look at many events at once.

mod columns;
mod part;
mod ahead;

use std::{io, mem, ops::Deref, os::unix::fs::FileExt as _};

use evb_core::id::RunId;

pub use self::ahead::ReadAhead;
pub(super) use self::part::flaw_of;
use self::part::{Memory, Part, PartEnd};
use super::{EventFile, Records, scan::Position};
use crate::{
    error::{FileError, ReadError},
    format::{Flaw, Record},
};

/// The number of bytes that [`Batches::read_next`] reads at a time, unless a record is longer.
const READ: u64 = 8 << 20;

/// Events of one file, as columns of numbers. Every event of a batch is intact; the records that
/// are not intact are in `findings`.
///
/// Row *i* of `events`, `epochs`, `builders`, `runs`, `run_ids`, `triggered`, `utc`, `tags` and
/// `records` belongs to one event. The fragments of event *i* are rows `first_fragments[i]` to
/// `first_fragments[i + 1]` of `sources`, `timestamps`, `checksums`, `alignments`, `lost_packets`,
/// `offsets` and `lengths`. Its missing sources are rows `first_missing[i]` to
/// `first_missing[i + 1]` of `missing` and `causes`, and its absent sources are rows of `absent`
/// and `absent_causes` in the same way.
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
    /// Identities of the runs.
    pub run_ids: Vec<RunId>,
    /// Times of the triggers: nanoseconds on the builder's clock.
    pub triggered: Vec<u64>,
    /// Times of the triggers: nanoseconds since 1970 (UTC), on the scale of the run; 0 if unknown.
    pub utc: Vec<u64>,
    /// Numbers that filters gave the events; 0 if none did.
    pub tags: Vec<u64>,
    /// Offsets of the records in the file.
    pub records: Vec<u64>,
    /// The first row of each event in `missing`, and the length of `missing`.
    pub first_missing: Vec<u64>,
    /// Sources that owe the event a fragment and did not contribute one.
    pub missing: Vec<u16>,
    /// Codes of the causes for which the sources are missing.
    pub causes: Vec<u8>,
    /// The first row of each event in `absent`, and the length of `absent`.
    pub first_absent: Vec<u64>,
    /// Sources that do not owe the event a fragment and did not contribute one.
    pub absent: Vec<u16>,
    /// Codes of the causes for which the sources are absent.
    pub absent_causes: Vec<u8>,
    /// The first row of each event in the columns of fragments, and the length of these columns.
    pub first_fragments: Vec<u64>,
    /// Sources of the fragments.
    pub sources: Vec<u16>,
    /// Timestamps of the fragments, in ticks of the detector's clock.
    pub timestamps: Vec<u64>,
    /// Checksums of the payloads: CRC-64/NVME, which the reader has verified.
    pub checksums: Vec<u64>,
    /// Codes of the states of alignment of the fragments.
    pub alignments: Vec<u8>,
    /// Numbers of packets of the fragments that were lost before they reached their sources.
    pub lost_packets: Vec<u32>,
    /// Offsets of the payloads in the bytes of this batch.
    pub offsets: Vec<u64>,
    /// Lengths of the payloads, in bytes.
    pub lengths: Vec<u32>,
    /// The damage that was found before, between or after the events, in the order of the file.
    pub findings: Vec<ReadError>,
}

impl Batch {
    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if the batch has no event; it then has findings.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
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
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
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
///     assert!(data.starts_with(b"EVR2"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batches<F> {
    file: F,
    position: Position,
    /// The mean size of the latest records, in bytes; `None` before the first record.
    mean: Option<u64>,
}

impl<F: Deref<Target = EventFile>> Batches<F> {
    /// Creates a reader that begins at the first record.
    pub fn new(file: F) -> Self {
        let position = Position::first(&file);
        Self { file, position, mean: None }
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
        let most = most.max(1);
        while let Some(at) = self.position.next
            && at < self.file.records_end()
            && batch.rows() < most
        {
            match self.walk(batch, memory, most) {
                PartEnd::Place => {}
                PartEnd::NoHead(flaw) => batch.findings.extend(self.skip(flaw)),
                PartEnd::Outside(length) => return Some(length),
            }
        }
        None
    }

    /// Adds records to the batch, from the present position up to the first that is not intact.
    fn walk(&mut self, batch: &mut Batch, memory: Memory<'_>, most: usize) -> PartEnd {
        let Some(at) = self.position.next else { return PartEnd::Place };
        let mut part = Part::new(at, mem::take(batch));
        let stop = part.walk(&self.file, memory, self.file.records_end(), most);
        self.position.pass_all(&self.file, part.next, part.entries);
        *batch = part.batch;
        if let Some(mean) = (part.next - batch.start).checked_div(batch.rows() as u64) {
            self.mean = Some(mean);
        }
        stop
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
        // A record that is too large is not read; the call returns the error that says so.
        if record.length > self.file.record_limit {
            return batch.findings.extend(self.file.read(&record).err());
        }
        if let Err(error) = self.read(memory, at, length) {
            return batch.findings.push(error);
        }
        let mut part = Part::new(at, mem::take(batch));
        let memory = Memory { bytes: memory, at };
        if let PartEnd::NoHead(flaw) = part.walk(&self.file, memory, at + length, usize::MAX) {
            part.batch.findings.push(self.file.damaged(at, record.length, Some(record.event), flaw));
        }
        *batch = part.batch;
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
