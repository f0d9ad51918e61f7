//! Streams of bytes with the format of an event file: a header and records, without an index.

#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    io::{self, Read},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use evb_core::{event::Event, units};

use crate::{
    error::{FileError, ReadError},
    format::{
        FileHeader, FileTag, Flaw, FormatVersion, HeaderFlaw, Prefix, Record, encode_record, record_size,
        reseal,
    },
    index::ClosingBlock,
    reader::{EventFile, event_of},
    writer::FileIdentity,
};

/// Encodes the events of one builder and run as a file writer does, for programs that get them by
/// another way than a file: the header once, then one record for each event. The records are those
/// of the builder's files but for the tag, which ties a record to its header, and the checksum over
/// the tag.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// let encoder = StreamEncoder::new(&identity);
/// let event = Event::empty(EventId::FIRST, run, epoch, builder);
/// let record = encoder.record(&event).ok_or("the event is too large for the format")?;
///
/// let stream = [encoder.header(), record].concat();
/// let mut reader = EventStream::new(&stream[..], "a stream")?;
/// assert_eq!(reader.next().transpose()?.map(|record| record.event), Some(EventId::FIRST));
/// assert_eq!(reader.event()?, event);
/// assert!(reader.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamEncoder {
    header: Bytes,
    tag: FileTag,
}

impl StreamEncoder {
    /// Creates an encoder for events of one builder, with a header of the latest format.
    pub fn new(identity: &FileIdentity) -> Self {
        Self::of(&identity.header(FormatVersion::Two, false, 0))
    }

    /// Creates an encoder for records of all builders of a run, from the header of one of them.
    pub fn merged(header: &FileHeader) -> Self {
        Self::of(&FileHeader { builder: None, ..header.clone() })
    }

    fn of(header: &FileHeader) -> Self {
        let (header, tag) = header.encode();
        Self { header: header.into(), tag }
    }

    /// Returns the bytes with which a stream begins.
    pub fn header(&self) -> Bytes {
        self.header.clone()
    }

    /// Returns the record of an event of this run; `None` if the format cannot hold the event.
    pub fn record(&self, event: &Event) -> Option<Bytes> {
        let size = record_size(event, FormatVersion::Two)?;
        let mut record = Vec::with_capacity(size as usize);
        encode_record(event, size, &self.tag, &mut record);
        Some(record.into())
    }

    /// Returns the bytes with which a stream of `length` bytes ends if it is whole: those of a
    /// closed file, with an index that has no entries.
    pub fn closing_block(&self, length: u64) -> Bytes {
        let mut block = Vec::new();
        let closing = ClosingBlock { tag: self.tag, copy: Some(&self.header) };
        let written = closing.write(&mut [], length, |piece| -> Result<(), Infallible> {
            block.extend_from_slice(piece);
            Ok(())
        });
        written.unwrap_or_else(|never| match never {});
        block.into()
    }

    /// Makes a record that a [`EventStream`] of the same run has read one of this stream.
    pub fn adopt(&self, record: &Record, bytes: &mut [u8]) {
        let head = bytes.len().min(record.head_length.as_usize());
        reseal(&mut bytes[..head], self.tag);
    }
}

/// Reads a stream record by record as its bytes come, for example from a pipe. Everything that is
/// returned was verified. The stream ends with its last byte, or with the index of a closed file.
/// After an error the stream cannot be read on.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// let encoder = StreamEncoder::new(&identity);
/// let event = Event::empty(EventId::FIRST, run, epoch, builder);
/// let record = encoder.record(&event).ok_or("the event is too large for the format")?;
///
/// // A stream that was cut off.
/// let bytes = [encoder.header(), record.slice(..20)].concat();
/// let mut stream = EventStream::new(&bytes[..], "a stream")?;
/// assert_eq!(stream.header().run, run);
/// assert!(matches!(stream.next(), Some(Err(ReadError::TornTail { .. }))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventStream<R> {
    from: R,
    /// Name of the stream, for errors.
    name: PathBuf,
    header: FileHeader,
    header_bytes: Vec<u8>,
    tag: FileTag,
    /// Offset of the next record in the stream; `None` after the last record.
    at: Option<u64>,
    /// The last record, with its bytes.
    last: Option<Record>,
    bytes: Vec<u8>,
    is_closed: bool,
}

impl<R: Read> EventStream<R> {
    /// Reads the header of a stream; waits until it has come.
    ///
    /// # Errors
    /// The stream cannot be read, or does not begin with the header of an event file.
    pub fn new(mut from: R, name: impl Into<PathBuf>) -> Result<Self, ReadError> {
        let (name, mut bytes) = (name.into(), Vec::new());
        let failed = |source| FileError::of("read", &name)(source);
        let flawed = |flaw| ReadError::Header { path: name.clone(), flaw };
        more(&mut from, &mut bytes, 16).map_err(failed)?;
        let length = FileHeader::length(&bytes).map_err(flawed)?;
        if more(&mut from, &mut bytes, length).map_err(failed)? < length {
            return Err(flawed(HeaderFlaw::Short));
        }
        let (header, tag) = FileHeader::decode(&bytes).map_err(flawed)?;
        let at = Some(length);
        Ok(Self {
            from,
            name,
            header,
            header_bytes: bytes,
            tag,
            at,
            last: None,
            bytes: Vec::new(),
            is_closed: false,
        })
    }

    /// Returns the name of the stream, as given to [`Self::new`].
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the header of the stream.
    pub const fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Returns the bytes of the header.
    pub fn header_bytes(&self) -> &[u8] {
        &self.header_bytes
    }

    /// Returns the bytes of the record that was returned last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if the stream has ended as a closed file ends, so that none of its records can
    /// be missing; false before, and after a stream that was cut off behind a record.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the event of the record that was returned last, or an error if it is damaged.
    pub fn event(&self) -> Result<Event, ReadError> {
        let read = self.last.as_ref().ok_or(Flaw::Magic).and_then(|record| {
            let payloads = self.bytes.get(record.head_length.as_usize()..).ok_or(Flaw::PastEnd)?;
            event_of(record, payloads.to_vec())
        });
        read.map_err(|flaw| self.damaged(self.last.as_ref().map_or(0, |record| record.offset), flaw))
    }

    fn damaged(&self, offset: u64, flaw: Flaw) -> ReadError {
        let (path, length) = (self.name.clone(), units::Bytes::new(self.bytes.len() as u64));
        ReadError::Damaged { path, offset, length, event: None, flaw }
    }

    /// Reads the record that begins at `offset`; `None` at the end of the stream.
    fn read(&mut self, offset: u64) -> Result<Option<Record>, ReadError> {
        let failed = FileError::of("read", &self.name);
        let Self { from, bytes, tag, is_closed, .. } = self;
        bytes.clear();
        let read = (|| -> io::Result<Result<Option<Record>, Flaw>> {
            let prefix = tag.version.record_prefix() as u64;
            let found = more(from, bytes, prefix)?;
            *is_closed = bytes.starts_with(&tag.version.index_magic());
            if found == 0 || *is_closed {
                return Ok(Ok(None));
            }
            // How long the stream is, is known only when it ends.
            let prefix = match Prefix::decode(bytes, if found < prefix { found } else { u64::MAX }, *tag) {
                Ok(prefix) => prefix,
                Err(flaw) => return Ok(Err(flaw)),
            };
            if more(from, bytes, prefix.head_length)? < prefix.head_length {
                return Ok(Err(Flaw::PastEnd));
            }
            let record = match prefix.record(offset, bytes, *tag) {
                Ok(record) => record,
                Err(flaw) => return Ok(Err(flaw)),
            };
            let limit = EventFile::RECORD_LIMIT.count();
            if record.length.count() <= limit && more(from, bytes, prefix.length)? < prefix.length {
                return Ok(Err(Flaw::PastEnd));
            }
            Ok(record.refusal.map_or(Ok(Some(record)), Err))
        })()
        .map_err(failed)?;
        let record = match read {
            // A stream that was cut off ends like the file of a writer that was killed.
            Err(Flaw::PastEnd) => {
                let length = units::Bytes::new(self.bytes.len() as u64);
                return Err(ReadError::TornTail { path: self.name.clone(), offset, length, event: None });
            }
            read => read.map_err(|flaw| self.damaged(offset, flaw))?,
        };
        match record {
            Some(record) if record.length > EventFile::RECORD_LIMIT => Err(ReadError::TooLarge {
                path: self.name.clone(),
                offset,
                event: record.event,
                size: record.length,
                limit: EventFile::RECORD_LIMIT,
            }),
            record => Ok(record),
        }
    }
}

impl<R: Read> Iterator for EventStream<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.at.take()?;
        match self.read(offset) {
            Ok(Some(record)) => {
                self.at = Some(record.end());
                self.last = Some(record.clone());
                Some(Ok(record))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Reads until `bytes` has `length` bytes, and returns its length, which is less at the end of the
/// stream. Memory grows with what has come, so a wrong length reserves nothing.
fn more(from: &mut impl Read, bytes: &mut Vec<u8>, length: u64) -> io::Result<u64> {
    let missing = length.saturating_sub(bytes.len() as u64);
    from.by_ref().take(missing).read_to_end(bytes)?;
    Ok(bytes.len() as u64)
}
