//! [`StreamWriter`]: announcements and granted lane bytes, as the bytes of a lane's stream.

#[cfg(test)]
mod tests;

use core::ops::Range;
use std::{collections::VecDeque, io::IoSlice};

use bytes::{Buf as _, BytesMut};

use super::SourceCore;
use crate::{
    index::LaneIndex,
    wire::record::{MAX_DATA, RECORD_HEADER, RecordHeader},
};

/// Maximum number of pieces of memory in one `writev`: half of Linux's `UIO_MAXIOV`, which suffices
/// for 256 small fragments.
const SLICES: usize = 512;

/// Maximum number of bytes of announcements in one parcel; the remaining announcements go into the
/// next parcel.
const PARCEL_ANNOUNCEMENTS: usize = 16 << 10;

/// Writer of the source's end of a lane over a stream.
///
/// The caller writes the pieces of [`Self::gather`], which lie in the memory into which readout
/// wrote the data, and passes the number of written bytes to [`Self::sent`]. Writes may end
/// anywhere.
#[derive(Debug, Default)]
pub struct StreamWriter {
    /// Announcement records that wait to be sent.
    pub announcements: BytesMut,
    /// Granted lane bytes that are not written yet; adjacent ranges are joined.
    queue: VecDeque<Range<u64>>,
    /// The data record that is being written.
    current: Option<DataRecord>,
}

/// The bytes of a protected lane's next parcel, in their order.
#[derive(Debug)]
pub struct ParcelContent<'a> {
    /// Announcement records.
    pub announcements: &'a [u8],
    /// The bytes of a data record's header that are not written yet.
    pub header: &'a [u8],
    /// Lane bytes of the data record. A parcel may end before them.
    pub range: Range<u64>,
}

#[derive(Debug)]
struct DataRecord {
    header: [u8; RECORD_HEADER],
    header_written: usize,
    range: Range<u64>,
}

impl DataRecord {
    fn new(range: Range<u64>) -> Self {
        let length = u32::try_from(range.end - range.start).unwrap_or(MAX_DATA);
        let header = RecordHeader::Data { length, offset: range.start }.encode();
        Self { header, header_written: 0, range }
    }

    fn header_left(&self) -> &[u8] {
        &self.header[self.header_written..]
    }
}

impl StreamWriter {
    /// Queues lane bytes to be sent at once.
    pub fn send(&mut self, range: Range<u64>) {
        match self.queue.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.queue.push_back(range),
        }
    }

    /// Returns true if everything that was queued is written.
    pub fn is_idle(&self) -> bool {
        self.announcements.is_empty() && self.queue.is_empty() && self.current.is_none()
    }

    /// Collects the next bytes to write for lane `lane` of `core`: a record's header and lane
    /// bytes, or announcements alone. Waiting announcements go in front of a record that has not
    /// begun, so that they share its packets. Returns `None` if nothing waits.
    pub fn gather<'a>(&'a mut self, core: &'a SourceCore, lane: LaneIndex) -> Option<Vec<IoSlice<'a>>> {
        self.begin_record();
        let announcements = &self.announcements[..self.announcements_in_front()];
        let Some(record) = &self.current else {
            return (!announcements.is_empty()).then(|| vec![IoSlice::new(announcements)]);
        };
        let mut slices = Vec::with_capacity(SLICES);
        let small = [announcements, record.header_left()];
        slices.extend(small.into_iter().filter(|piece| !piece.is_empty()).map(IoSlice::new));
        core.gather(lane, record.range.clone(), &mut slices);
        Some(slices)
    }

    /// Returns what the next parcel of a protected lane holds, at most `limit` bytes; `None` if
    /// nothing waits. [`Self::sent`] takes the number of bytes that the parcel took from the front.
    pub fn parcel_content(&mut self, limit: usize) -> Option<ParcelContent<'_>> {
        self.begin_record();
        // Records must not interleave: announcements wait for the end of a data record that is
        // being written, and a data record waits for the end of announcements that do not fit into
        // one parcel.
        let waiting = &self.announcements[..self.announcements_in_front()];
        let announcements = &waiting[..waiting.len().min(PARCEL_ANNOUNCEMENTS)];
        let record = self.current.as_ref().filter(|_| announcements.len() == waiting.len());
        let Some(record) = record else {
            let content = ParcelContent { announcements, header: &[], range: 0..0 };
            return (!announcements.is_empty()).then_some(content);
        };
        let (header, range) = (record.header_left(), record.range.clone());
        let room = (limit - announcements.len() - header.len()) as u64;
        let range = range.start..range.end.min(range.start + room);
        Some(ParcelContent { announcements, header, range })
    }

    /// Notes that `count` more bytes are written. Returns the offset up to which the current
    /// record's lane bytes are written; `None` if no record has begun.
    pub fn sent(&mut self, count: usize) -> Option<u64> {
        let of_announcements = count.min(self.announcements_in_front());
        self.announcements.advance(of_announcements);
        let record = self.current.as_mut()?;
        let of_record = count - of_announcements;
        let of_header = of_record.min(RECORD_HEADER - record.header_written);
        record.header_written += of_header;
        record.range.start += (of_record - of_header) as u64;
        let written = record.range.start;
        self.current.take_if(|record| record.header_left().is_empty() && record.range.is_empty());
        Some(written)
    }

    /// Returns the number of bytes of announcements that go in front of the current record.
    fn announcements_in_front(&self) -> usize {
        let has_begun = self.current.as_ref().is_some_and(|record| record.header_written > 0);
        if has_begun { 0 } else { self.announcements.len() }
    }

    /// Begins a data record with the next granted bytes, unless one is being written. A range
    /// longer than a record is continued by the next record.
    fn begin_record(&mut self) {
        if self.current.is_some() {
            return;
        }
        let Some(range) = self.queue.front_mut() else { return };
        let end = range.end.min(range.start + u64::from(MAX_DATA));
        self.current = Some(DataRecord::new(range.start..end));
        range.start = end;
        if range.start == range.end {
            self.queue.pop_front();
        }
    }
}
