//! The bytes that were sent but not acknowledged, in the segments in which they were first sent.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes, BytesMut};

#[derive(Debug, Default)]
pub(super) struct Sent {
    segments: VecDeque<Bytes>,
    /// Sum of the lengths of `segments`.
    length: usize,
}

impl Sent {
    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Appends a segment that is sent for the first time.
    pub(super) fn append(&mut self, segment: Bytes) {
        self.length += segment.len();
        self.segments.push_back(segment);
    }

    /// Removes the first `count` bytes.
    pub(super) fn acknowledged(&mut self, count: usize) {
        let mut rest = count.min(self.length);
        self.length -= rest;
        while let Some(first) = self.segments.front_mut() {
            if first.len() > rest {
                first.advance(rest);
                break;
            }
            rest -= first.len();
            self.segments.pop_front();
        }
    }

    /// Returns `length` bytes from `start` on; without a copy if they are within one segment.
    ///
    /// # Panics
    /// Panics if there are fewer bytes.
    pub(super) fn copy(&self, start: usize, length: usize) -> Bytes {
        if let Some(last) = self.segments.back()
            && let Some(within) = start.checked_sub(self.length - last.len())
        {
            return last.slice(within..within + length);
        }
        let mut start = start;
        let mut copy = BytesMut::new();
        for segment in &self.segments {
            if start >= segment.len() {
                start -= segment.len();
                continue;
            }
            let here = segment.slice(start..segment.len().min(start + length - copy.len()));
            if here.len() == length {
                return here;
            }
            copy.extend_from_slice(&here);
            start = 0;
            if copy.len() == length {
                break;
            }
        }
        assert_eq!(copy.len(), length, "bytes beyond those that were sent");
        copy.freeze()
    }
}
