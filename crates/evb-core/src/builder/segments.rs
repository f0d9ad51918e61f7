//! [`Segments`]: consecutive datagrams that arrived together and are handled at once.

use crate::wire::datagram::{DatagramHeader, DatagramKind};

/// Most datagrams that the kernel merges (`UDP_MAX_SEGMENTS` in `include/linux/udp.h` was 64 and is
/// now 128).
const MOST: usize = 64;

/// One datagram, or several data datagrams with consecutive sequence numbers and lane offsets.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    /// Header of the first datagram.
    header: DatagramHeader,
    bodies: [&'a [u8]; MOST],
    count: usize,
    length: u64,
}

impl<'a> Segments<'a> {
    /// Returns the segments of a single datagram.
    pub fn one(header: DatagramHeader, body: &'a [u8]) -> Self {
        let mut bodies: [&[u8]; MOST] = [&[]; MOST];
        bodies[0] = body;
        Self { header, bodies, count: 1, length: body.len() as u64 }
    }

    /// Adds the next datagram. Returns false if the datagram is of another kind, not consecutive,
    /// or one too many.
    pub fn join(&mut self, next: &DatagramHeader, body: &'a [u8]) -> bool {
        let expected = DatagramHeader {
            sequence: self.header.sequence.wrapping_add(self.count as u32),
            offset: self.header.offset.wrapping_add(self.length),
            ..self.header
        };
        let is_data = next.kind == DatagramKind::Data && self.length > 0 && !body.is_empty();
        if !is_data || *next != expected || self.count == MOST {
            return false;
        }
        self.bodies[self.count] = body;
        self.count += 1;
        self.length += body.len() as u64;
        true
    }

    /// Returns the header of the first datagram. The headers of the others differ only in sequence
    /// and offset.
    pub fn header(&self) -> &DatagramHeader {
        &self.header
    }

    /// Returns header and body of the first datagram.
    pub fn first(&self) -> (&DatagramHeader, &'a [u8]) {
        (&self.header, self.bodies[0])
    }

    pub(super) fn bodies(&self) -> &[&'a [u8]] {
        &self.bodies[..self.count]
    }

    /// Returns the number of datagrams.
    pub fn count(&self) -> u32 {
        self.count as u32
    }

    /// Returns the sum of the lengths of all bodies, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns each datagram as [`Segments`] of its own.
    pub(super) fn apart(&self) -> impl Iterator<Item = Self> {
        let mut header = self.header;
        self.bodies().iter().map(move |body| {
            let one = Self::one(header, body);
            header.sequence = header.sequence.wrapping_add(1);
            header.offset = header.offset.wrapping_add(body.len() as u64);
            one
        })
    }
}

#[cfg(test)]
mod tests;
