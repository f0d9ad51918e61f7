//! [`StreamReader`]: a lane's stream of bytes from its builder, as records for the source's state
//! machine.

#[cfg(test)]
mod tests;

use core::ops::Range;

use bytes::{Buf as _, BytesMut};

use super::SourceCore;
use crate::{
    index::LaneIndex,
    lane::StreamFault,
    wire::record::{COMMIT_RANGE, RECORD_HEADER, RecordHeader, decode_range},
};

/// Bytes of buffer that one read may fill with the builder's records.
const READ_SIZE: usize = 16 << 10;

/// Reader of the source's end of a lane over a stream.
///
/// The caller appends the bytes that arrive to the memory of [`Self::read_target`], and then calls
/// [`Self::filled`], which passes all whole records to the source's state machine. Bytes may arrive
/// in pieces of any length.
#[derive(Debug, Default)]
pub struct StreamReader {
    /// Read buffer: bytes that have arrived and are not decoded yet. The content of a protected
    /// lane's parcels is appended here.
    pub buffer: BytesMut,
    /// Scratch memory for the ranges of a commit.
    ranges: Vec<Range<u64>>,
}

impl StreamReader {
    /// Returns the memory to which the next bytes are appended.
    pub fn read_target(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_SIZE);
        &mut self.buffer
    }

    /// Notes that bytes were appended to the memory of [`Self::read_target`], and passes all whole
    /// records of lane `lane` to `core`.
    ///
    /// # Errors
    /// Returns a [`StreamFault`], after which the lane's connection must be closed.
    pub fn filled(&mut self, core: &mut SourceCore, lane: LaneIndex) -> Result<(), StreamFault> {
        while let Some((header, body)) = self.buffer.split_first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*header)?;
            let Some(body) = body.get(..header.body()) else { break };
            match header {
                RecordHeader::Grant { end } => core.handle_grant(lane, end)?,
                RecordHeader::Commit { offset, .. } => {
                    self.ranges.clear();
                    for item in body.as_chunks::<COMMIT_RANGE>().0 {
                        self.ranges.push(decode_range(item)?);
                    }
                    core.handle_commit(lane, offset, &self.ranges)?;
                }
                // All other records are for the builder's end, or travel in datagrams only.
                _ => return Err(StreamFault::WrongDirection(header)),
            }
            self.buffer.advance(RECORD_HEADER + header.body());
        }
        Ok(())
    }
}
