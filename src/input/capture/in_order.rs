//! [`InOrder`]: brings the bytes of one direction of a TCP connection into their order.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::{Buf as _, Bytes as Payload};

/// Memory that a segment takes that is held, beside its payload.
const BESIDE: usize = 128;

/// Largest distance of a segment from the place of the next byte: the largest window of TCP (RFC
/// 7323, 2.3). A segment farther away is of another connection between the same ports.
const MAX_WINDOW: u64 = 1 << 30;

/// Largest distance by which a segment may be ahead of the first one that was captured.
const MAX_BEFORE: u64 = 1 << 20;

/// The next bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Bytes(Payload),
    /// Bytes that the capture does not have.
    Missing(u64),
}

/// The order of the bytes of a connection.
#[derive(Debug)]
pub(super) struct InOrder {
    /// Places of the first byte, of the next one, and of the end, if that is known. The lower 32
    /// bits are the sequence number.
    first: u64,
    next: u64,
    end: Option<u64>,
    /// Bytes behind a gap.
    held: BTreeMap<u64, Payload>,
    held_memory: usize,
    /// Number of bytes that came again.
    pub(super) repeated: u64,
}

impl InOrder {
    /// Creates an order that begins with this sequence number.
    pub(super) fn new(sequence: u32) -> Self {
        let first = (1 << 32) + u64::from(sequence);
        let (held, held_memory) = (BTreeMap::new(), 0);
        Self { first, next: first, end: None, held, held_memory, repeated: 0 }
    }

    /// Returns the place of a sequence number; `None` if it is of another connection.
    pub(super) fn place(&self, sequence: u32) -> Option<u64> {
        let ahead = sequence.wrapping_sub(self.next as u32).cast_signed();
        let place = self.next.saturating_add_signed(ahead.into());
        (place + MAX_BEFORE >= self.first && place <= self.next + MAX_WINDOW).then_some(place)
    }

    /// Returns true if the connection begins at this place.
    pub(super) fn begins_at(&self, place: u64) -> bool {
        self.first == place
    }

    /// Notes that the connection ends at this place.
    pub(super) fn end_at(&mut self, place: u64) {
        self.end.get_or_insert(place);
    }

    /// Returns true if all bytes up to the end came.
    pub(super) fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| end <= self.next)
    }

    /// Returns true if all bytes up to the end came, and this place is behind it.
    pub(super) fn is_behind_end(&self, place: u64) -> bool {
        self.is_at_end() && self.end.is_some_and(|end| place > end)
    }

    /// Returns the memory that segments behind a gap take.
    pub(super) fn held_memory(&self) -> usize {
        self.held_memory
    }

    /// Takes a segment. Returns those of its bytes that are the next ones, and holds those behind a
    /// gap, or all if the next ones cannot be used yet.
    pub(super) fn take<'a>(&mut self, place: u64, payload: &'a [u8], is_early: bool) -> &'a [u8] {
        if payload.is_empty() {
            return payload;
        }
        if is_early || place > self.next {
            let held = self.held.get(&place).map_or(0, Payload::len);
            self.repeated += held.min(payload.len()) as u64;
            if payload.len() > held {
                self.held.insert(place, Payload::copy_from_slice(payload));
                self.held_memory += payload.len() - held + if held == 0 { BESIDE } else { 0 };
            }
            return &[];
        }
        // Bytes that came before are skipped.
        let known = (self.next - place).min(payload.len() as u64);
        self.repeated += known;
        self.next = self.next.max(place + payload.len() as u64);
        &payload[known as usize..]
    }

    /// Returns the next bytes that were held. If `gives_up`, these may be behind a gap.
    pub(super) fn held(&mut self, gives_up: bool) -> Option<Piece> {
        while let Some(entry) = self.held.first_entry() {
            let place = *entry.key();
            if place > self.next {
                return gives_up.then(|| self.skip_to(place));
            }
            let mut bytes = entry.remove();
            self.held_memory -= bytes.len() + BESIDE;
            // Bytes that came before are skipped.
            let known = (self.next - place).min(bytes.len() as u64);
            self.repeated += known;
            bytes.advance(known as usize);
            if !bytes.is_empty() {
                self.next += bytes.len() as u64;
                return Some(Piece::Bytes(bytes));
            }
        }
        let end = self.end.filter(|end| gives_up && *end > self.next)?;
        Some(self.skip_to(end))
    }

    fn skip_to(&mut self, place: u64) -> Piece {
        let missing = place - self.next;
        self.next = place;
        Piece::Missing(missing)
    }
}
