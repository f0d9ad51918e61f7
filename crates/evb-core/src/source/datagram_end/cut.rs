//! [`Cut`]: lane bytes cut into segments, each behind its header, ready for one send.

use std::io::IoSlice;

use crate::lane::{Envelope, Sealing, Tags};

/// Division of lane bytes, which come in pieces, into segments.
pub(super) struct Cut<'a> {
    pieces: Vec<&'a [u8]>,
    /// Number of pieces up to the end of each segment.
    ends: Vec<usize>,
    segment: usize,
    /// Room left in the last segment.
    room: usize,
}

impl<'a> Cut<'a> {
    /// Starts to cut lane bytes into segments of `segment` bytes; the last may be shorter.
    pub(super) fn into_segments(segment: usize) -> Self {
        Self { pieces: Vec::with_capacity(128), ends: Vec::with_capacity(64), segment, room: segment }
    }

    /// Appends the next lane bytes.
    pub(super) fn push(&mut self, mut piece: &'a [u8]) {
        while !piece.is_empty() {
            if self.room == 0 {
                self.ends.push(self.pieces.len());
                self.room = self.segment;
            }
            let (now, later) = piece.split_at(piece.len().min(self.room));
            self.room -= now.len();
            self.pieces.push(now);
            piece = later;
        }
    }

    /// Ends the last segment. With `drop_rest`, drops the last segment if it is not full, unless it
    /// is the only one. Returns the number of lane bytes that remain, and of their segments.
    pub(super) fn finish(&mut self, drop_rest: bool) -> (usize, usize) {
        let last = self.segment - self.room;
        if drop_rest && self.room > 0 && !self.ends.is_empty() {
            self.pieces.truncate(self.ends.last().copied().unwrap_or_default());
            return (self.ends.len() * self.segment, self.ends.len());
        }
        let full = self.ends.len();
        self.ends.push(self.pieces.len());
        (full * self.segment + last, full + 1)
    }

    /// Builds the headers and tags of all segments, whose lane bytes begin at `offset`.
    pub(super) fn seal(&self, sealing: Sealing, offset: u64, envelopes: &mut Vec<Envelope>, tags: &mut Tags) {
        envelopes.clear();
        let mut start = 0;
        for (index, end) in (0u32..).zip(&self.ends) {
            let header = sealing.header(index, offset + u64::from(index) * self.segment as u64);
            envelopes.push(Envelope::of(&header, &self.pieces[start..*end], tags));
            start = *end;
        }
    }

    /// Returns the headers, lane bytes and tags of all segments, in the order of sending.
    pub(super) fn slices<'s>(&self, envelopes: &'s [Envelope]) -> Vec<IoSlice<'s>>
    where
        'a: 's,
    {
        let mut slices = Vec::with_capacity(self.pieces.len() + 2 * envelopes.len());
        let mut start = 0;
        for (Envelope { header, tag }, end) in envelopes.iter().zip(&self.ends) {
            slices.push(IoSlice::new(header));
            slices.extend(self.pieces[start..*end].iter().map(|piece| IoSlice::new(piece)));
            slices.extend(tag.as_ref().map(|tag| IoSlice::new(tag)));
            start = *end;
        }
        slices
    }
}
