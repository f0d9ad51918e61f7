//! [`Clusters`]: packets that leave together, because the sender's timer is too coarse to space
//! them singly.

use core::time::Duration;

use evb_core::units::Bytes;

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
    /// k, the number of packets in a cluster; 1 if single packets are far enough apart.
    pub packets: u64,
    /// Lane bytes that a cluster carries, if it begins with one record header.
    pub lane: Bytes,
}

impl Clusters {
    /// Returns the clusters of full packets that keep the given pace and are at least `spacing`
    /// apart.
    pub fn of(pace: &Pace, spacing: Duration, cost: &PacketCost) -> Self {
        let packet = cost.packet(pace.measure);
        // The number of packets is k = ⌈T·r / P⌉, computed without rounding Δ first.
        let carried = spacing.as_nanos().saturating_mul(pace.rate.bits_per_second().into());
        let packets = carried.div_ceil(u128::from(packet.count()) * 8_000_000_000);
        let packets = u64::try_from(packets).unwrap_or(u64::MAX).max(1);
        Self { packets, lane: cost.full_packets(packets) }
    }
}

#[cfg(test)]
mod tests;
