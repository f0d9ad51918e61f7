//! [`Clusters`]: packets that leave together, because the executor cannot tell their times apart.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::{cost::PacketCost, pace::Pace};

/// Clustered packet spacing.
///
/// At a rate of r, packets of P bytes are Δ = P / r apart. An executor that is exact to T cannot
/// keep intervals shorter than T, and one that is woken for each departure should not, as wake-ups
/// cost more than packets. It sends k = ⌈T / Δ⌉ packets together every k·Δ ≥ T instead. The rate is
/// the same: departure times come from an [`EdtBucket`](crate::EdtBucket), to which a cluster is
/// one train, and never from the rounded interval. The price is buffer: where N lanes' clusters
/// coincide at a port, N·k packets meet there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// Δ, rounded up.
    pub packet_interval: Duration,
    /// k: 1 where packets alone are far enough apart.
    pub packets: u64,
    /// k·Δ, rounded up.
    pub interval: Duration,
    /// Lane bytes of a cluster, behind one record header.
    pub lane: Bytes,
    /// Buffer bytes of a cluster.
    pub buffer: Bytes,
}

impl Clusters {
    /// Full packets at that pace, in clusters that are at least `spacing` apart.
    pub fn of(pace: &Pace, spacing: Duration, cost: &PacketCost) -> Self {
        let packet = cost.packet(pace.measure);
        // ⌈T·r / P⌉ without rounding Δ first.
        let carried = spacing.as_nanos().saturating_mul(pace.rate.bits_per_second().into());
        let packets = carried.div_ceil(u128::from(packet.count()) * 8_000_000_000);
        Self::with(u64::try_from(packets).unwrap_or(u64::MAX).max(1), packet, pace.rate, cost)
    }

    /// Limits a cluster to that many packets, at least one; the executor then has shorter
    /// intervals, and sends clusters late and together.
    pub fn limited(self, packets: u64, pace: &Pace, cost: &PacketCost) -> Self {
        let packet = cost.packet(pace.measure);
        Self::with(self.packets.min(packets).max(1), packet, pace.rate, cost)
    }

    /// Returns the port buffer that is needed where the clusters of that many lanes coincide, at
    /// any speed of the senders' links.
    pub fn coinciding(&self, lanes: u64) -> Bytes {
        self.buffer * lanes
    }

    /// Returns the port buffer that is needed where no sender's link is faster than the port's: the
    /// port sends while they arrive, so that all but one of the clusters have to wait, and of that
    /// one the packet that is under way.
    pub fn coinciding_at_line_rate(&self, lanes: u64) -> Bytes {
        let packet = self.buffer / self.packets;
        self.buffer * lanes.saturating_sub(1) + if lanes > 0 { packet } else { Bytes::ZERO }
    }

    fn with(packets: u64, packet: Bytes, rate: Rate, cost: &PacketCost) -> Self {
        Self {
            packet_interval: packet / rate,
            packets,
            interval: packet * packets / rate,
            lane: cost.full_packets(packets),
            buffer: cost.packet_buffer() * packets,
        }
    }
}

#[cfg(test)]
mod tests;
