//! [`StreamReader`]: a lane's stream of bytes, as records for the builder's state machine.

#[cfg(test)]
mod tests;

use bytes::{Buf, BufMut as _, BytesMut};

use super::{BuilderCore, LARGE_FRAGMENT};
use crate::{
    grant::GrantPolicy,
    index::LaneIndex,
    lane::StreamFault,
    time::Instant,
    wire::record::{ANNOUNCEMENT, Announcement, RECORD_HEADER, RecordHeader},
};

/// Maximum number of bytes that one read takes into the read buffer, which large fragments bypass.
const READ_SIZE: usize = 128 << 10;

/// Maximum number of bytes that one read takes into the read buffer where only a record's header is
/// expected, followed by the bytes of a large fragment.
const HEADER_READ: usize = 2 << 10;

/// Reader of the builder's end of a lane over a stream.
///
/// The caller appends the bytes that arrive to the memory of [`Self::read_target`], and then calls
/// [`Self::filled`], which passes all whole records to the builder's state machine, and data
/// records as far as their bytes have arrived. Bytes may arrive in pieces of any length.
#[derive(Debug, Default)]
pub struct StreamReader {
    /// Read buffer: bytes that have arrived and are not passed on yet. The content of a protected
    /// lane's parcels is appended here.
    pub buffer: BytesMut,
    /// Lane bytes of the current data record that are still to come.
    data: usize,
    /// True if the last data record had at least `LARGE_FRAGMENT` bytes.
    is_large: bool,
}

/// Memory to which the next bytes of a stream are appended.
#[derive(Debug)]
pub enum ReadTarget<'a> {
    /// The read buffer.
    Buffer {
        /// The read buffer, which has room for `limit` bytes.
        buffer: &'a mut BytesMut,
        /// Most bytes to append.
        limit: usize,
    },
    /// The memory of a large fragment, so that its bytes are not copied.
    Fragment {
        /// The memory of the fragment, to be filled first.
        memory: &'a mut BytesMut,
        /// Most bytes to append to `memory`.
        limit: usize,
        /// The read buffer, which takes the bytes that follow as far as its memory suffices.
        buffer: &'a mut BytesMut,
    },
}

impl ReadTarget<'_> {
    /// Moves bytes from the front of `from` to this memory, as one read from a socket does. Returns
    /// the number of bytes that went to a fragment's memory.
    pub fn read_from(self, from: &mut impl Buf) -> usize {
        match self {
            Self::Buffer { buffer, limit } => {
                buffer.put(from.take(limit));
                0
            }
            Self::Fragment { memory, limit, buffer } => {
                let filled = limit.min(from.remaining());
                memory.put(Buf::take(&mut *from, filled));
                buffer.put(from.take(buffer.capacity() - buffer.len()));
                filled
            }
        }
    }
}

impl StreamReader {
    /// Returns true if the next byte is the first of a record.
    pub fn is_between_records(&self) -> bool {
        self.data == 0 && self.buffer.is_empty()
    }

    /// Returns the memory for the next bytes of lane `lane` of `core`.
    pub fn read_target<'a, P: GrantPolicy>(
        &'a mut self,
        core: &'a mut BuilderCore<P>,
        lane: LaneIndex,
    ) -> ReadTarget<'a> {
        // The bytes of a large fragment are read to their final place, without a copy.
        if self.data >= LARGE_FRAGMENT
            && self.buffer.is_empty()
            && let Some((memory, room)) = core.spare_memory(lane)
        {
            self.buffer.reserve(HEADER_READ);
            return ReadTarget::Fragment { memory, limit: room.min(self.data), buffer: &mut self.buffer };
        }
        // Behind a large fragment another one may follow, whose bytes shall not come to the buffer.
        let limit = if self.is_large && self.data == 0 { HEADER_READ } else { READ_SIZE };
        self.buffer.reserve(limit);
        ReadTarget::Buffer { buffer: &mut self.buffer, limit }
    }

    /// Notes that bytes were appended to the memory of [`Self::read_target`], `filled` of them to a
    /// fragment's memory, and passes to `core` what is complete.
    ///
    /// # Errors
    /// Returns a [`StreamFault`], after which the lane's connection must be closed.
    pub fn filled<P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        filled: usize,
        now: Instant,
    ) -> Result<(), StreamFault> {
        if filled > 0 {
            core.handle_filled(lane, filled, now)?;
            self.data -= filled;
        }
        loop {
            if self.data > 0 {
                let here = self.data.min(self.buffer.len());
                if here > 0 {
                    core.handle_data(lane, &self.buffer[..here], now)?;
                    self.buffer.advance(here);
                    self.data -= here;
                }
                if self.data > 0 {
                    return Ok(());
                }
            }
            if !self.pass_record(core, lane, now)? {
                return Ok(());
            }
        }
    }

    /// Passes the next record on, of a data record only the header. Returns false if the record has
    /// not arrived.
    fn pass_record<P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        now: Instant,
    ) -> Result<bool, StreamFault> {
        let Some((header, body)) = self.buffer.split_first_chunk::<RECORD_HEADER>() else {
            return Ok(false);
        };
        let header = RecordHeader::decode(*header)?;
        match header {
            RecordHeader::Data { length, offset } => {
                core.check_data(lane, offset, length)?;
                self.data = length as usize;
                self.is_large = self.data >= LARGE_FRAGMENT;
            }
            RecordHeader::Announce { offset, .. } => {
                let Some(body) = body.get(..header.body()) else { return Ok(false) };
                let announcements = body.as_chunks::<ANNOUNCEMENT>().0.iter().map(Announcement::decode);
                core.handle_announcements(lane, offset, announcements, now)?;
            }
            _ => return Err(StreamFault::WrongDirection(header)),
        }
        self.buffer.advance(RECORD_HEADER + header.body());
        Ok(true)
    }
}
