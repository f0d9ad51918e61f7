//! [`Reassembly`]: lane bytes that arrived before those in front of them.

use core::ops::Range;

use crate::{
    ranges::RangeSet,
    undo::{self, Fix},
    units::Bytes,
};

/// The most separate pieces that are kept (docs/reference/protocol.md UDP-16): each costs 16 bytes and a step of
/// every search.
const MAX_PIECES: usize = 1024;

/// A ring of lane bytes beyond the first that is missing. Its memory is taken when the first byte comes out of order: most
/// lanes never need it.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    ring: Vec<u8>,
    /// How far beyond `received` bytes may lie.
    window: usize,
    here: RangeSet,
}

impl Reassembly {
    /// Keeps bytes up to `window` beyond the first that is missing.
    pub(crate) fn new(window: Bytes) -> Self {
        Self { ring: Vec::new(), window: window.as_usize(), here: RangeSet::default() }
    }

    /// How far beyond the first missing byte others may lie.
    pub(crate) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Which bytes are here.
    pub(crate) fn here(&self) -> &RangeSet {
        &self.here
    }

    /// Keeps the bytes from `offset` on, where the lane has `received` bytes without gap. `false`: there is no room, and
    /// none of them was kept.
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

    /// Bytes that follow `received` in one piece of memory, and none where those are missing; [`Self::release`] them.
    pub(crate) fn next(&self, received: u64) -> &[u8] {
        match self.here.first() {
            Some(first) if first.start <= received && received < first.end => {
                let (first, _) = self.places(received..first.end);
                &self.ring[first]
            }
            _ => &[],
        }
    }

    /// Forgets what lies below `received`.
    pub(crate) fn release(&mut self, received: u64) {
        if let Some(first) = self.here.first()
            && first.start < received
        {
            self.here.remove(&(first.start..received));
        }
    }

    /// Moves out, for as long as its owner is busy with its bytes.
    pub(crate) fn lend(&mut self) -> Self {
        core::mem::take(self)
    }

    /// Where a part of the lane lies in the ring: in one piece, or two where it wraps around.
    fn places(&self, lane: Range<u64>) -> (Range<usize>, Range<usize>) {
        let start = (lane.start % self.window as u64) as usize;
        let length = (lane.end - lane.start) as usize;
        let first = length.min(self.window - start);
        (start..start + first, 0..length - first)
    }
}

#[cfg(test)]
mod tests;
