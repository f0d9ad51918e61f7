//! [`StreamReader`]: a lane's stream of bytes from its builder, as grants and commits.

#[cfg(test)]
mod tests;

use core::ops::Range;

use bytes::{Buf as _, BytesMut};

use crate::{
    lane::StreamFault,
    wire::record::{COMMIT_RANGE, RECORD_HEADER, RecordHeader, decode_range},
};

/// Bytes of buffer that one read may fill with the builder's records.
const READ_SIZE: usize = 16 << 10;

/// Record that a builder sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromBuilder {
    /// Permission to send lane bytes up to an offset.
    Grant {
        /// Lane offset at which the permitted bytes end.
        end: u64,
    },
    /// Permission to forget all lane bytes below an offset, and the further ranges that were put
    /// into the caller's list.
    Commit {
        /// Lane offset below which all bytes are committed.
        offset: u64,
    },
}

/// Reader of the source's end of a lane over a stream.
///
/// The caller appends the bytes that arrive to the memory of [`Self::read_target`], and then calls
/// [`Self::next_record`] until it returns `None`. Bytes may arrive in pieces of any length.
#[derive(Debug, Default)]
pub struct StreamReader {
    /// Read buffer: bytes that have arrived and are not decoded yet. The content of a protected
    /// lane's parcels is appended here.
    pub buffer: BytesMut,
}

impl StreamReader {
    /// Returns the memory to which the next bytes are appended.
    pub fn read_target(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_SIZE);
        &mut self.buffer
    }

    /// Removes and returns the next record; the ranges of a commit are put into `ranges`. Returns
    /// `None` if the end of the record has not arrived.
    ///
    /// # Errors
    /// Returns a [`StreamFault`], after which the lane's connection must be closed.
    pub fn next_record(&mut self, ranges: &mut Vec<Range<u64>>) -> Result<Option<FromBuilder>, StreamFault> {
        let Some((header, body)) = self.buffer.split_first_chunk::<RECORD_HEADER>() else {
            return Ok(None);
        };
        let header = RecordHeader::decode(*header)?;
        let Some(body) = body.get(..header.body()) else { return Ok(None) };
        let record = match header {
            RecordHeader::Grant { end } => FromBuilder::Grant { end },
            RecordHeader::Commit { offset, .. } => {
                ranges.clear();
                for item in body.as_chunks::<COMMIT_RANGE>().0 {
                    ranges.push(decode_range(item)?);
                }
                FromBuilder::Commit { offset }
            }
            // All other records are for the builder's end, or travel in datagrams only.
            _ => return Err(StreamFault::WrongDirection(header)),
        };
        self.buffer.advance(RECORD_HEADER + header.body());
        Ok(Some(record))
    }
}
