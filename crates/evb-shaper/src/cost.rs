//! What lane bytes cost on an Ethernet: in a switch port's buffer, and on the line.
//!
//! Two measures, never mixed. **Buffer bytes** are what a port holds: whole L2 frames, each at least a buffer cell.
//! **Line bytes** are what a link is busy with: L2 frames, check sequence, preamble and gap.

use evb_core::{units::Bytes, wire::record::RECORD_HEADER};

/// Ethernet header (14), IPv4 (20), TCP with time stamps (32): RFC 894, RFC 791, RFC 7323.
pub const TCP_FRAME_HEADERS: u64 = 14 + 20 + 32;

/// IPv4 and TCP with time stamps, which count towards the MTU.
const WITHIN_MTU: u64 = 20 + 32;

/// Check sequence 4, preamble and start delimiter 8, gap 12: IEEE 802.3 clause 4.
pub const LINE_OVERHEAD: u64 = 24;

/// The least that a packet takes of a port's buffer: common switch chips hand memory out in cells of 80 to 256 bytes.
pub const CELL: Bytes = Bytes::new(256);

/// How the bytes of one grant become packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCost {
    payload: u64,
    cell: u64,
}

impl PacketCost {
    /// For links of that MTU (at least 576) and switches of that cell size.
    pub fn tcp(mtu: u32, cell: Bytes) -> Self {
        Self { payload: u64::from(mtu.max(576)) - WITHIN_MTU, cell: cell.count() }
    }

    /// Lane bytes that fill one packet.
    pub fn packet_payload(&self) -> Bytes {
        Bytes::new(self.payload)
    }

    /// Buffer bytes of one grant: `lane` bytes behind their record header, in full packets and a last one.
    pub fn buffer(&self, lane: Bytes) -> Bytes {
        let stream = lane.count() + RECORD_HEADER as u64;
        let (full, rest) = (stream / self.payload, stream % self.payload);
        let last = if rest == 0 { 0 } else { (rest + TCP_FRAME_HEADERS).max(self.cell) };
        Bytes::new(full * (self.payload + TCP_FRAME_HEADERS) + last)
    }

    /// Line bytes of the same.
    pub fn line(&self, lane: Bytes) -> Bytes {
        let stream = lane.count() + RECORD_HEADER as u64;
        Bytes::new(stream + stream.div_ceil(self.payload) * (TCP_FRAME_HEADERS + LINE_OVERHEAD))
    }

    /// The most lane bytes, in full packets, that take at most `line` bytes of the line; at least one packet.
    pub fn train(&self, line: Bytes) -> Bytes {
        let packets = line.count() / (self.payload + TCP_FRAME_HEADERS + LINE_OVERHEAD);
        Bytes::new(packets.max(1) * self.payload - RECORD_HEADER as u64)
    }

    /// The usual turn of credit within a budget: full packets, at most eleven (15 912 B at an MTU of 1500; half as many
    /// grants as with 8 kB, and few of the packets that TCP sends again for their order), and two of them in the quarter of the
    /// budget that one lane may hold, so that a lane alone is not stopped by each round trip.
    pub fn chunk(&self, budget: Bytes) -> Bytes {
        let packets = budget.count() / 8 / (self.payload + TCP_FRAME_HEADERS);
        Bytes::new(packets.clamp(1, 11) * self.payload - RECORD_HEADER as u64)
    }

    /// The most lane bytes whose grant costs at most `buffer`.
    pub fn affordable(&self, buffer: Bytes) -> Bytes {
        let frame = self.payload + TCP_FRAME_HEADERS;
        let (full, rest) = (buffer.count() / frame, buffer.count() % frame);
        let last = if rest >= self.cell.max(TCP_FRAME_HEADERS + 1) { rest - TCP_FRAME_HEADERS } else { 0 };
        Bytes::new((full * self.payload + last).saturating_sub(RECORD_HEADER as u64))
    }
}

#[cfg(test)]
mod tests;
