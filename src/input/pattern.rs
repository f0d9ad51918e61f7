//! What generated fragments contain: a stamp that says which fragment this is, then bytes that anyone can predict.
//!
//! The bytes come from one pseudo-random template, the same in every process, at an offset that source and event decide
//! and that moves from piece to piece: writing is copying, checking is comparing, and exchanged, shifted or stale pieces
//! are found out.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use bytes::{BufMut, BytesMut};
use evb_core::{
    fragment::{Checksum, RunningChecksum},
    id::{EventId, SourceId},
    rng::Rng,
};

/// Length of the stamp.
pub(super) const STAMP: usize = 20;

/// The last four bytes of the stamp.
const MAGIC: u32 = u32::from_le_bytes(*b"evbG");

/// Bytes that are taken from one place of the template; few enough to be in the nearest cache for the checksum.
const PIECE: usize = 32 * 1024;
/// Bytes that are copied at once. What is copied to is seldom in a cache, and `memmove` of glibc copies more than that by the
/// processor's own string instruction, which takes 1.3 times as long there where the two ends are not aligned to each other
/// (measured on Zen 4, 64 MB written from 32 KB: 85 against 65 ms per GB).
const COPIED: usize = 2048;
/// Places in the template where a piece can begin.
const PLACES: usize = 64 * 1024;
/// How far the place moves from piece to piece; odd, so that it comes round only after all.
const STEP: usize = 7919;

const SEED: u64 = 0x6576_625f_7061_7474;

static TEMPLATE: LazyLock<Box<[u8]>> = LazyLock::new(|| {
    let mut rng = Rng::new(SEED);
    (0..(PLACES + PIECE) / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
});

/// The content of one fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    stamp: [u8; STAMP],
    place: usize,
}

impl Pattern {
    /// The content of a source's fragment of `length` bytes.
    pub(super) fn of(event: EventId, source: SourceId, length: usize) -> Self {
        let place = Rng::new(event.number() ^ (u64::from(source.number()) << 48)).next_u64() as u16;
        let mut stamp = [0; STAMP];
        let mut rest = &mut stamp[..];
        rest.put_u64_le(event.number());
        rest.put_u16_le(source.number());
        rest.put_u16_le(place);
        rest.put_u32_le(length as u32);
        rest.put_u32_le(MAGIC);
        Self { stamp, place: place.into() }
    }

    /// Appends the content to `payload` and takes its checksum while the bytes are in the cache.
    pub(super) fn write(&self, length: usize, payload: &mut BytesMut) -> Checksum {
        payload.reserve(length);
        payload.put_slice(&self.stamp[..length.min(STAMP)]);
        if length <= PIECE {
            for piece in self.pieces(length) {
                payload.put_slice(piece);
            }
            return Checksum::of(payload);
        }
        let mut checksum = RunningChecksum::default();
        checksum.update(&self.stamp);
        for piece in self.pieces(length) {
            let begin = payload.len();
            piece.chunks(COPIED).for_each(|bytes| payload.put_slice(bytes));
            checksum.update(&payload[begin..]);
        }
        checksum.take()
    }

    /// Whether the stamp, or what a short payload has of it, is right.
    pub(super) fn has_stamp(&self, payload: &[u8]) -> bool {
        if payload.is_empty() {
            // An empty slice points nowhere, and to compare from there is slow on processors with masked loads.
            return true;
        }
        let length = payload.len().min(STAMP);
        payload[..length] == self.stamp[..length]
    }

    /// Where the first byte after the stamp is that is not as written.
    pub(super) fn first_difference(&self, payload: &[u8]) -> Option<usize> {
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

    /// What follows the stamp in a payload of `length` bytes.
    fn pieces(&self, length: usize) -> impl Iterator<Item = &'static [u8]> + use<> {
        let template: &'static [u8] = &TEMPLATE;
        let (mut place, mut left) = (self.place, length.saturating_sub(STAMP));
        std::iter::from_fn(move || {
            let size = left.min(PIECE);
            let piece = &template[place..place + size];
            left -= size;
            place = (place + STEP) % PLACES;
            (size > 0).then_some(piece)
        })
    }
}
