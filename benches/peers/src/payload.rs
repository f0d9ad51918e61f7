//! The data that the sources send: a header, then a payload.
//!
//! A payload is 16 bytes of stamp (source, event, length) and then bytes copied out of a template,
//! from an offset that changes with source and event. Large payloads are in memory before they are
//! sent, like the data that a readout card has written: the plain program only overwrites their
//! stamps, and ZeroMQ, whose messages own their memory, copies them once.

#[cfg(test)]
mod tests;

/// Length of a payload's stamp, and therefore of the smallest payload, in bytes.
pub const STAMP_LENGTH: usize = 16;

const STAMP_KEY: u64 = 0x9e37_79b9_7f4a_7c15;
const PIECE: usize = 64 * 1024;
const SHIFTS: usize = 4096;

/// The bytes from which every payload is cut.
#[derive(Debug)]
pub struct Template(Vec<u8>);

impl Template {
    /// Creates the template of pseudo-random bytes, which is the same for every source.
    pub fn new() -> Self {
        let mut state = STAMP_KEY;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        Self(std::iter::repeat_with(next).take(PIECE + SHIFTS).collect())
    }

    /// Appends the payload of `source` for `event`, `size` bytes, to `out`.
    pub fn append(&self, out: &mut Vec<u8>, source: u32, event: u64, size: usize) {
        out.extend_from_slice(&stamp(source, event, size));
        let shift = Self::shift(source, event);
        let mut left = size.saturating_sub(STAMP_LENGTH);
        while left > 0 {
            let piece = left.min(PIECE);
            out.extend_from_slice(&self.0[shift..shift + piece]);
            left -= piece;
        }
    }

    /// Writes the payload of `source` for `event` over the whole of `out`.
    pub fn fill(&self, out: &mut [u8], source: u32, event: u64) {
        let size = out.len();
        let (head, body) = out.split_at_mut(STAMP_LENGTH.min(size));
        head.copy_from_slice(&stamp(source, event, size)[..head.len()]);
        let shift = Self::shift(source, event);
        for piece in body.chunks_mut(PIECE) {
            piece.copy_from_slice(&self.0[shift..shift + piece.len()]);
        }
    }

    fn shift(source: u32, event: u64) -> usize {
        (event.wrapping_mul(31).wrapping_add(u64::from(source).wrapping_mul(17)) as usize * 16) % SHIFTS
    }
}

/// Returns the first 16 bytes of the payload of `source` for `event`.
pub fn stamp(source: u32, event: u64, size: usize) -> [u8; STAMP_LENGTH] {
    let mut bytes = [0; STAMP_LENGTH];
    bytes[..8].copy_from_slice(&(event ^ STAMP_KEY).to_le_bytes());
    bytes[8..12].copy_from_slice(&source.to_le_bytes());
    bytes[12..].copy_from_slice(&(size as u32).to_le_bytes());
    bytes
}

/// The header of every payload of the plain program: 16 bytes, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The event id, from 1; 0 is the hello of a source.
    pub event: u64,
    /// The source id, from 1.
    pub source: u32,
    /// Length of the payload that follows, in bytes.
    pub length: u32,
}

impl Header {
    /// Length of an encoded header, in bytes.
    pub const LENGTH: usize = 16;

    /// Encodes the header as it is sent.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.event.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.source.to_le_bytes());
        bytes[12..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads a header from the start of `bytes`; `None` if they are too few.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let event = u64::from_le_bytes(*bytes.first_chunk()?);
        let source = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        let length = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
        Some(Self { event, source, length })
    }
}
