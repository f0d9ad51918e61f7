//! [`Pace`]: how fast a lane, class or link may go.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::cost::{ByteMeasure, PacketCost};

/// A rate, what it counts, and how much of it may be caught up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The rate.
    pub rate: Rate,
    /// What the executor's lateness may add up to without loss of rate; also the most that leaves at once. At least one
    /// packet goes in any case.
    pub burst: Bytes,
    /// Which bytes rate and burst count.
    pub measure: ByteMeasure,
}

impl Pace {
    /// The lateness that a usual burst pays for: a busy host's scheduler, not its timer. Lanes that share a port share its
    /// rate, so all of them together bring at most a millisecond of the line into its buffer.
    pub const USUAL_LATENESS: Duration = Duration::from_millis(1);

    /// With the usual burst: a millisecond of the rate, at most `share` (the lane's part of the port's buffer), at least two
    /// packets.
    pub fn usual(rate: Rate, measure: ByteMeasure, cost: &PacketCost, share: Option<Bytes>) -> Self {
        let burst = (rate * Self::USUAL_LATENESS).min(share.unwrap_or(Bytes::MAX));
        Self { rate, burst: burst.max(cost.packet_line() * 2), measure }
    }
}
