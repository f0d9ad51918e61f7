//! [`Reassembly`]: keeps lane bytes that arrived early, until the bytes before them arrive.

use core::ops::Range;

use crate::{ranges::RangeSet, units::Bytes};

/// Most separate ranges of early bytes that are kept (docs/reference/protocol.md UDP-16). Each
/// range costs 16 bytes and lengthens every search.
const MAX_PIECES: usize = 1024;

/// A ring buffer for lane bytes beyond the first missing byte. The ring is allocated when the first
/// byte arrives out of order, because most lanes never need it.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    ring: Vec<u8>,
    /// Number of bytes beyond `received` that can be kept.
    window: usize,
    here: RangeSet,
}

impl Reassembly {
    /// Returns an empty ring for `window` bytes beyond the first missing byte.
    pub(crate) fn new(window: Bytes) -> Self {
        Self { ring: Vec::new(), window: window.as_usize(), here: RangeSet::default() }
    }

    /// Returns how many bytes beyond the first missing byte can be kept.
    pub(crate) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Returns the ranges of early bytes that are kept.
    pub(crate) fn here(&self) -> &RangeSet {
        &self.here
    }

    /// Keeps the bytes from lane offset `offset` on, while the lane has `received` bytes without
    /// gap. Returns false, and keeps none of the bytes, if they lie beyond the window or there are
    /// too many ranges.
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8], received: u64) -> bool {
        let end = offset + bytes.len() as u64;
        let is_full = self.here.len() >= MAX_PIECES && !self.here.touches(&(offset..end));
        if end > received + self.window() || is_full {
            return false;
        }
        if self.ring.is_empty() {
            self.ring = vec![0; self.window];
        }
        // The bytes may reach the end of the ring, and go on at its beginning.
        let (first, second) = self.places(offset..end);
        let (before, after) = bytes.split_at(first.len());
        self.ring[first].copy_from_slice(before);
        self.ring[second].copy_from_slice(after);
        self.here.insert(offset..end);
        true
    }

    /// Returns the kept bytes that continue the lane at `received`, as one slice; the slice is
    /// empty if the next byte has not arrived. Call [`Self::release`] after using them.
    pub(crate) fn next(&self, received: u64) -> &[u8] {
        match self.here.first() {
            Some(first) if first.start <= received && received < first.end => {
                let (first, _) = self.places(received..first.end);
                &self.ring[first]
            }
            _ => &[],
        }
    }

    /// Removes kept bytes below `received`.
    pub(crate) fn release(&mut self, received: u64) {
        if let Some(first) = self.here.first()
            && first.start < received
        {
            self.here.remove(&(first.start..received));
        }
    }

    /// Moves the ring out of `self`, so that its owner can use the bytes while it changes other
    /// state.
    pub(crate) fn lend(&mut self) -> Self {
        core::mem::take(self)
    }

    /// Returns the positions of lane bytes in the ring: one range, or two if the bytes wrap around
    /// its end.
    fn places(&self, lane: Range<u64>) -> (Range<usize>, Range<usize>) {
        let start = (lane.start % self.window as u64) as usize;
        let length = (lane.end - lane.start) as usize;
        let first = length.min(self.window - start);
        (start..start + first, 0..length - first)
    }
}

#[cfg(test)]
mod tests;
