//! [`Pace`]: how fast a lane, class or link may go.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::cost::{ByteMeasure, PacketCost};

/// A rate, what it counts, and how much of it may be caught up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The rate.
    pub rate: Rate,
    /// Bytes that pay for the executor's lateness without loss of rate; also the most that leaves
    /// at once. At least one packet goes in any case.
    pub burst: Bytes,
    /// Bytes that rate and burst count.
    pub measure: ByteMeasure,
}

impl Pace {
    /// The lateness that a usual burst pays for: that of a busy host's scheduler, not of its timer.
    /// More lateness loses rate: a virtual machine with two busy cores lost 10 % of 30 Mbit/s with
    /// a burst of a millisecond.
    pub const USUAL_LATENESS: Duration = Duration::from_millis(10);

    /// Creates a pace with the usual burst: ten milliseconds of the rate, at most `share` (the
    /// lane's part of the port's buffer), at least two packets.
    pub fn usual(rate: Rate, measure: ByteMeasure, cost: &PacketCost, share: Option<Bytes>) -> Self {
        let burst = (rate * Self::USUAL_LATENESS).min(share.unwrap_or(Bytes::MAX));
        Self { rate, burst: burst.max(cost.packet_line() * 2), measure }
    }
}
