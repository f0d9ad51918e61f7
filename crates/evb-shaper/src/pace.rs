//! [`Pace`]: the rate limit of a lane, class or link.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::cost::{ByteMeasure, PacketCost};

/// A rate limit: the rate, the kind of bytes that it counts, and the burst that may be sent to
/// catch up.
///
/// ```
/// use evb_core::units::{Bytes, Rate};
/// use evb_shaper::{
///     ByteMeasure, Pace,
///     cost::{CELL, PacketCost},
/// };
///
/// let (cost, rate) = (PacketCost::tcp(1500, CELL), Rate::from_bits_per_second(1_000_000_000));
/// // Eight lanes share the port's buffer of 512 KiB.
/// let pace = Pace::usual(rate, ByteMeasure::Line, &cost, Some(Bytes::kib(512) / 8));
/// assert_eq!(pace.burst, Bytes::kib(64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The rate, which is never exceeded in the long run.
    pub rate: Rate,
    /// Bytes that may leave at once when the sender is late, so that lateness does not lower the
    /// rate. A single packet may always leave, even if it is larger than the burst.
    pub burst: Bytes,
    /// The kind of bytes that rate and burst count.
    pub measure: ByteMeasure,
}

impl Pace {
    /// The lateness of a sender that a usual burst makes up for. The usual burst covers the delays
    /// of the scheduler on a busy host, which are longer than those of its timer. With a burst of
    /// only one millisecond, a virtual machine with two busy cores lost 10 % of 30 Mbit/s.
    pub const USUAL_LATENESS: Duration = Duration::from_millis(10);

    /// Creates a pace with the usual burst: the bytes of ten milliseconds at the rate, at most
    /// `share` (the lane's part of the port's buffer), at least two packets.
    pub fn usual(rate: Rate, measure: ByteMeasure, cost: &PacketCost, share: Option<Bytes>) -> Self {
        let burst = (rate * Self::USUAL_LATENESS).min(share.unwrap_or(Bytes::MAX));
        Self { rate, burst: burst.max(cost.packet_line() * 2), measure }
    }
}
