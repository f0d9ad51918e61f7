//! [`OpenFragment`]: a fragment whose packets are arriving.

use bytes::{Bytes as Payload, BytesMut};
use evb_core::{fragment::Timestamp, framing::MAX_PACKETS, time::Instant};

/// A packet of a fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoardPacket<'d> {
    pub(super) counter: u64,
    pub(super) timestamp: Timestamp,
    /// Number of the packet, or offset of its payload.
    pub(super) place: u64,
    /// Number of packets, or length of the fragment, if the packet shows it.
    pub(super) end: Option<u64>,
    /// True if places are offsets.
    pub(super) is_placed: bool,
    pub(super) payload: &'d [u8],
}

/// The outcome of adding a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    New,
    /// It, or a part of it, is there already.
    Double,
    /// It contradicts the other packets, or the fragment would be too large.
    Contradiction,
}

/// A fragment whose packets are arriving.
#[derive(Debug)]
pub(super) struct OpenFragment {
    counter: u64,
    timestamp: Timestamp,
    /// Number of packets or length of the fragment; `None` until a packet shows it.
    end: Option<u64>,
    is_placed: bool,
    /// Time of the latest packet.
    latest: Instant,
    /// The packets, ascending by their places.
    pieces: Vec<Piece>,
    /// The payloads, in the order of arrival.
    bytes: BytesMut,
    /// True if the packets came in the order of their places.
    is_sorted: bool,
}

/// The payload of a packet.
#[derive(Clone, Copy, Debug)]
struct Piece {
    place: u64,
    /// Offset of the payload in [`OpenFragment::bytes`].
    start: usize,
    length: usize,
}

impl OpenFragment {
    /// Creates the fragment of a packet, which is still to be added.
    pub(super) fn new(packet: &BoardPacket<'_>, limit: u64) -> Self {
        let size = packet.payload.len() as u64;
        let room = match packet.end {
            Some(end) if packet.is_placed => end,
            Some(end) => end.saturating_mul(size),
            None => size,
        };
        Self {
            counter: packet.counter,
            timestamp: packet.timestamp,
            end: None,
            is_placed: packet.is_placed,
            latest: Instant::ZERO,
            pieces: Vec::new(),
            bytes: BytesMut::with_capacity(room.min(limit) as usize),
            is_sorted: true,
        }
    }

    pub(super) fn counter(&self) -> u64 {
        self.counter
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    pub(super) fn latest(&self) -> Instant {
        self.latest
    }

    /// Adds a packet.
    pub(super) fn add(&mut self, packet: &BoardPacket<'_>, limit: u64, now: Instant) -> Added {
        let length = packet.payload.len();
        let last = self.pieces.last().map_or(0, |last| self.behind(last));
        // The end of the packet, as an offset of bytes or as a number of packets.
        let reach =
            if packet.is_placed { packet.place.saturating_add(length as u64) } else { packet.place + 1 };
        let contradicts = match (self.end, packet.end) {
            (Some(known), Some(end)) => known != end,
            (None, Some(end)) => last > end,
            (_, None) => false,
        } || self.end.or(packet.end).is_some_and(|end| reach > end.max(1));
        let is_too_large = (self.bytes.len() + length) as u64 > limit
            || (packet.is_placed && packet.end.is_some_and(|end| end > limit))
            || self.pieces.len() >= MAX_PACKETS as usize;
        if contradicts || is_too_large {
            return Added::Contradiction;
        }
        // Most packets come in their order.
        let index = match self.pieces.last() {
            Some(last) if packet.place < self.behind(last) => {
                self.pieces.partition_point(|piece| piece.place < packet.place)
            }
            _ => self.pieces.len(),
        };
        let is_double = index.checked_sub(1).is_some_and(|at| self.behind(&self.pieces[at]) > packet.place)
            || self.pieces.get(index).is_some_and(|next| next.place < reach);
        if is_double {
            return Added::Double;
        }
        (self.latest, self.end) = (now, self.end.or(packet.end));
        self.is_sorted &= index == self.pieces.len();
        self.pieces.insert(index, Piece { place: packet.place, start: self.bytes.len(), length });
        self.bytes.extend_from_slice(packet.payload);
        Added::New
    }

    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if no packet has come.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the place behind a packet.
    fn behind(&self, piece: &Piece) -> u64 {
        piece.place + if self.is_placed { piece.length as u64 } else { 1 }
    }

    /// Returns true if all packets have come.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some() && self.lacks() == 0
    }

    /// Returns the number of packets or bytes that have not come.
    fn lacks(&self) -> u64 {
        let here = if self.is_placed { self.bytes.len() } else { self.pieces.len() } as u64;
        // Without its last packet, a fragment lacks at least that one.
        let end = self.end.unwrap_or_else(|| self.pieces.last().map_or(1, |last| self.behind(last) + 1));
        end.saturating_sub(here)
    }

    /// Returns the number of packets that have not come. Where packets state offsets, they count as
    /// having `size` bytes each.
    pub(super) fn lost(&self, size: usize) -> u64 {
        match self.is_placed {
            false => self.lacks(),
            true => self.lacks().div_ceil(size.max(1) as u64),
        }
    }

    /// Returns the size of the largest payload of a packet.
    pub(super) fn largest(&self) -> usize {
        self.pieces.iter().map(|piece| piece.length).max().unwrap_or(0)
    }

    /// Returns the payloads that have come, without gaps.
    pub(super) fn joined(self) -> Payload {
        if self.is_sorted {
            return self.bytes.freeze();
        }
        let mut joined = BytesMut::with_capacity(self.bytes.len());
        for Piece { start, length, .. } in &self.pieces {
            joined.extend_from_slice(&self.bytes[*start..start + length]);
        }
        joined.freeze()
    }

    /// Returns the payloads with zeros in place of those that have not come. Where packets have
    /// numbers, each of these has `size` bytes. No bytes if this is more than `limit`.
    pub(super) fn filled(self, size: usize, limit: u64) -> Payload {
        let zeros = if self.is_placed { self.lacks() } else { self.lacks() * size as u64 };
        let whole = self.bytes.len() as u64 + zeros;
        if whole > limit {
            return Payload::new();
        }
        let mut filled = BytesMut::with_capacity(whole as usize);
        let mut next = 0;
        for piece in &self.pieces {
            let gap = (piece.place - next) as usize * if self.is_placed { 1 } else { size };
            filled.resize(filled.len() + gap, 0);
            filled.extend_from_slice(&self.bytes[piece.start..piece.start + piece.length]);
            next = self.behind(piece);
        }
        filled.resize(whole as usize, 0);
        filled.freeze()
    }
}
