//! The content of generated fragments: a stamp that identifies the fragment, then bytes that any
//! process can predict.
//!
//! The bytes come from one pseudo-random template, the same in every process. The stamp names the
//! place in the template where the content begins; the place moves from piece to piece. So a
//! payload is checked by comparing, and exchanged, shifted or stale pieces are found.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use bytes::{Buf as _, BufMut, BytesMut};
use evb_core::{
    id::{EventId, SourceId},
    rng::Rng,
};

/// Length of the stamp.
pub(super) const STAMP: usize = 20;

/// The last four bytes of the stamp.
const MAGIC: u32 = u32::from_le_bytes(*b"evbG");

/// Number of consecutive bytes that are taken from one place of the template.
const PIECE: usize = 32 * 1024;
/// Number of bytes that are copied at once. The destination is seldom in a cache, and `memmove` of
/// glibc copies more than 2 KiB by the processor's string instruction, which takes 1.3 times as
/// long if source and destination are not aligned to each other (measured on Zen 4, 64 MB written
/// from 32 KB: 85 against 65 ms per GB).
const COPIED: usize = 2048;
/// Places in the template where a piece can begin.
const PLACES: usize = 64 * 1024;
/// Distance by which the place moves from piece to piece. It is odd, so the place visits all
/// positions before it returns to the first.
const STEP: usize = 7919;

const SEED: u64 = 0x6576_625f_7061_7474;

static TEMPLATE: LazyLock<Box<[u8]>> = LazyLock::new(|| {
    let mut rng = Rng::new(SEED);
    (0..(PLACES + PIECE) / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
});

/// A place in the template at which the content of a payload begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PatternStart(u16);

impl PatternStart {
    /// Draws a place for a payload by event and source; a payload that has room for no more than
    /// the stamp needs none.
    pub(super) fn of(event: EventId, source: SourceId, length: usize) -> Self {
        if length <= STAMP {
            return Self(0);
        }
        Self(Rng::new(event.number() ^ (u64::from(source.number()) << 48)).next_u64() as u16)
    }

    /// Reads the place from a payload's stamp.
    pub(super) fn stamped(payload: &[u8]) -> Self {
        Self(payload.get(10..12).map_or(0, |mut bytes| bytes.get_u16_le()))
    }

    /// Appends the content of a payload of `length` bytes, with zeros in the space of its stamp.
    pub(super) fn write(self, length: usize, payload: &mut BytesMut) {
        payload.reserve(length);
        payload.put_bytes(0, length.min(STAMP));
        for piece in self.pieces(length) {
            piece.chunks(COPIED).for_each(|bytes| payload.put_slice(bytes));
        }
    }

    /// Returns the offset of the first byte after the stamp that differs from the content at this
    /// place.
    pub(super) fn first_difference(self, payload: &[u8]) -> Option<usize> {
        let mut begin = STAMP;
        for piece in self.pieces(payload.len()) {
            let found = &payload[begin..begin + piece.len()];
            if found != piece {
                let same = found.iter().zip(piece).take_while(|(found, written)| found == written).count();
                return Some(begin + same);
            }
            begin += piece.len();
        }
        None
    }

    /// Returns the pieces that follow the stamp in a payload of `length` bytes.
    fn pieces(self, length: usize) -> impl Iterator<Item = &'static [u8]> + use<> {
        let template: &'static [u8] = &TEMPLATE;
        let (mut place, mut left) = (usize::from(self.0), length.saturating_sub(STAMP));
        std::iter::from_fn(move || {
            let size = left.min(PIECE);
            let piece = &template[place..place + size];
            left -= size;
            place = (place + STEP) % PLACES;
            (size > 0).then_some(piece)
        })
    }
}

/// The first bytes of a payload: event, source, place, length and a magic number, little endian.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp([u8; STAMP]);

impl Stamp {
    /// Makes the stamp of a source's fragment of `length` bytes.
    pub(super) fn new(event: EventId, source: SourceId, place: PatternStart, length: usize) -> Self {
        let mut stamp = [0; STAMP];
        let mut rest = &mut stamp[..];
        rest.put_u64_le(event.number());
        rest.put_u16_le(source.number());
        rest.put_u16_le(place.0);
        rest.put_u32_le(length as u32);
        rest.put_u32_le(MAGIC);
        Self(stamp)
    }

    /// Writes the stamp over the first bytes of a payload; a short payload gets only the part that
    /// fits.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let length = payload.len().min(STAMP);
        payload[..length].copy_from_slice(&self.0[..length]);
    }

    /// Returns true if a payload begins with this stamp; a payload shorter than the stamp needs
    /// only the part that fits.
    pub(super) fn is_on(&self, payload: &[u8]) -> bool {
        if payload.is_empty() {
            // Comparing an empty payload is slow on processors with masked loads, because its
            // pointer is dangling.
            return true;
        }
        let length = payload.len().min(STAMP);
        payload[..length] == self.0[..length]
    }
}
