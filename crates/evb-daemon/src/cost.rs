//! What payload costs on Ethernet, in the two byte measures that must never be mixed.
//!
//! *Buffer bytes* are whole L2 frames, as a switch port's memory or tc's tbf counts them; *line bytes* add the
//! preamble, check sequence and gap that only the wire sees (IEEE 802.3: 8 + 4 + 12).

use evb_core::units::Bytes;

#[cfg(test)]
mod tests;

/// Ethernet header.
const ETHERNET: u64 = 14;
/// IPv4 header, and TCP header with timestamps.
const IP_AND_TCP: u64 = 20 + 32;
/// Preamble, frame check sequence, gap.
const LINE_EXTRA: u64 = 24;
/// The shortest frame without its check sequence.
const SHORTEST_FRAME: u64 = 60;
/// What a small packet occupies at least in a switch's buffer, unless the configuration says otherwise.
pub const CELL: Bytes = Bytes::new(256);

/// The payload of one full packet.
pub fn full_payload(mtu: Bytes) -> Bytes {
    Bytes::new(mtu.count().saturating_sub(IP_AND_TCP).max(1))
}

/// What `payload` bytes in one burst occupy in a switch port's buffer; each packet at least `cell`.
pub fn buffer_bytes(payload: Bytes, mtu: Bytes, cell: Bytes) -> Bytes {
    over_packets(payload, mtu, |frame| frame.max(cell.count()))
}

/// What `payload` bytes in one burst take of the line.
pub fn line_bytes(payload: Bytes, mtu: Bytes) -> Bytes {
    over_packets(payload, mtu, |frame| frame.max(SHORTEST_FRAME) + LINE_EXTRA)
}

/// Line bytes per byte of payload when every packet is full: what a lane pays in which fragments share packets.
pub fn line_factor(mtu: Bytes) -> f64 {
    line_bytes(full_payload(mtu), mtu).count() as f64 / full_payload(mtu).count() as f64
}

fn over_packets(payload: Bytes, mtu: Bytes, cost: impl Fn(u64) -> u64) -> Bytes {
    let full = full_payload(mtu).count();
    let (packets, rest) = (payload.count() / full, payload.count() % full);
    let whole = Bytes::new(cost(full + IP_AND_TCP + ETHERNET)) * packets;
    match rest {
        0 => whole,
        rest => whole + Bytes::new(cost(rest + IP_AND_TCP + ETHERNET)),
    }
}
