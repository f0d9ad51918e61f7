//! [`Reassembly`]: lane bytes that arrived before those in front of them.

use core::ops::Range;

use crate::{
    ranges::RangeSet,
    undo::{self, Fix},
    units::Bytes,
};

/// Most separate pieces that are kept (docs/reference/protocol.md UDP-16). Each costs 16 bytes and
/// a step of every search.
const MAX_PIECES: usize = 1024;

/// A ring of lane bytes beyond the first missing one. Its memory is taken when the first byte comes
/// out of order, as most lanes never need it.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    ring: Vec<u8>,
    /// Most bytes beyond `received` that can be kept.
    window: usize,
    here: RangeSet,
}

impl Reassembly {
    /// Returns an empty ring for `window` bytes beyond the first missing one.
    pub(crate) fn new(window: Bytes) -> Self {
        Self { ring: Vec::new(), window: window.as_usize(), here: RangeSet::default() }
    }

    /// Returns the most bytes that can be kept beyond the first missing one.
    pub(crate) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Returns the bytes that are here.
    pub(crate) fn here(&self) -> &RangeSet {
        &self.here
    }

    /// Keeps the bytes from `offset` on, while the lane has `received` bytes without gap. Returns
    /// false if there is no room, and then keeps none of them.
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8], received: u64) -> bool {
        let end = offset + bytes.len() as u64;
        let is_full = self.here.len() >= MAX_PIECES
            && (undo::is_undone(Fix::A0635af) || !self.here.touches(&(offset..end)));
        if end > received + self.window() || is_full {
            return false;
        }
        if self.ring.is_empty() {
            self.ring = vec![0; self.window];
        }
        let (first, second) = self.places(offset..end);
        let (before, after) = bytes.split_at(first.len());
        self.ring[first].copy_from_slice(before);
        self.ring[second].copy_from_slice(after);
        self.here.insert(offset..end);
        true
    }

    /// Returns bytes that follow `received`, as one piece of memory, or none if those are missing.
    /// [`Self::release`] them afterwards.
    pub(crate) fn next(&self, received: u64) -> &[u8] {
        match self.here.first() {
            Some(first) if first.start <= received && received < first.end => {
                let (first, _) = self.places(received..first.end);
                &self.ring[first]
            }
            _ => &[],
        }
    }

    /// Forgets bytes below `received`.
    pub(crate) fn release(&mut self, received: u64) {
        if let Some(first) = self.here.first()
            && first.start < received
        {
            self.here.remove(&(first.start..received));
        }
    }

    /// Moves the ring out while its owner works on its bytes.
    pub(crate) fn lend(&mut self) -> Self {
        core::mem::take(self)
    }

    /// Returns the places of lane bytes in the ring: one piece, or two if they wrap around.
    fn places(&self, lane: Range<u64>) -> (Range<usize>, Range<usize>) {
        let start = (lane.start % self.window as u64) as usize;
        let length = (lane.end - lane.start) as usize;
        let first = length.min(self.window - start);
        (start..start + first, 0..length - first)
    }
}

#[cfg(test)]
mod tests;
