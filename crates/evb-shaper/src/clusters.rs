//! [`Clusters`]: packets that leave together, because the sender's timer is too coarse to space
//! them singly.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::{cost::PacketCost, pace::Pace};

/// Clustered packet spacing, as K. Hiraki, M. Nakamura, J. Senbon, Y. Sugawara, T. Itoh and M.
/// Inaba propose it for TCP's slow start over long fat paths: "End-node transmission rate control
/// kind to intermediate routers — towards 10Gbps era". They let the clusters grow from single
/// packets that are T apart; here, a pace determines the clusters for as long as it lasts.
///
/// At a rate of r, packets of P bytes are Δ = P / r apart. A sender with a timer precision of T
/// cannot keep intervals shorter than T, and a sender that needs a wake-up for each departure
/// should not, as wake-ups cost more than packets. So packets leave in clusters: k = ⌈T / Δ⌉
/// packets together, with k·Δ ≥ T from one cluster to the next. Clusters do not change the rate:
/// departure times come from an [`EdtBucket`](crate::EdtBucket), to which a cluster is one train,
/// and never from the rounded interval. The cost is buffer space: if the clusters of N lanes
/// coincide at a switch port, N·k packets meet in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// Δ, the interval between packets, rounded up.
    pub packet_interval: Duration,
    /// k, the number of packets in a cluster; 1 if single packets are far enough apart.
    pub packets: u64,
    /// k·Δ, the interval between clusters, rounded up.
    pub interval: Duration,
    /// Lane bytes that a cluster carries, if it begins with one record header.
    pub lane: Bytes,
    /// Buffer bytes of a cluster.
    pub buffer: Bytes,
}

impl Clusters {
    /// Returns the clusters of full packets that keep the given pace and are at least `spacing`
    /// apart.
    pub fn of(pace: &Pace, spacing: Duration, cost: &PacketCost) -> Self {
        let packet = cost.packet(pace.measure);
        // The number of packets is k = ⌈T·r / P⌉, computed without rounding Δ first.
        let carried = spacing.as_nanos().saturating_mul(pace.rate.bits_per_second().into());
        let packets = carried.div_ceil(u128::from(packet.count()) * 8_000_000_000);
        Self::with(u64::try_from(packets).unwrap_or(u64::MAX).max(1), packet, pace.rate, cost)
    }

    /// Limits a cluster to at most `packets` packets, and at least one. With the limit, the
    /// intervals may become shorter than the sender's precision, so that some clusters leave late
    /// and together.
    pub fn limited(self, packets: u64, pace: &Pace, cost: &PacketCost) -> Self {
        let packet = cost.packet(pace.measure);
        Self::with(self.packets.min(packets).max(1), packet, pace.rate, cost)
    }

    /// Returns the port buffer that holds coinciding clusters of `lanes` lanes, at any speed of the
    /// senders' links.
    pub fn coinciding(&self, lanes: u64) -> Bytes {
        self.buffer * lanes
    }

    /// Returns the port buffer that holds coinciding clusters of `lanes` lanes, if no sender's link
    /// is faster than the port's. The port sends the bytes of one cluster while the clusters
    /// arrive, so the buffer must hold all other clusters and one packet.
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
