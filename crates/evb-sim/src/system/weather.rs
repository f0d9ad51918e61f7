//! [`Weather`]: how a network treats its traffic.

use core::time::Duration;

use evb_core::rng::Rng;

/// A network's treatment of its traffic; chances are in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Least time that anything takes.
    pub latency: Duration,
    /// Additional time, uniform from zero, by which datagrams overtake each other.
    pub jitter: Duration,
    /// Bytes per second that leave a host.
    pub bandwidth: u64,
    /// Datagrams that are lost.
    pub loss: u32,
    /// Datagrams that come twice.
    pub repeat: u32,
    /// Datagrams that come late, by up to [`Self::late`].
    pub delay: u32,
    /// The longest delay of a late datagram.
    pub late: Duration,
    /// Datagrams with a wrong bit.
    pub damage: u32,
    /// Pieces of a stream that wait for a retransmission timer.
    pub stall: u32,
}

/// One million.
pub(crate) const MILLION: u64 = 1_000_000;

impl Weather {
    /// Returns a network that delays everything equally and has no faults.
    pub const fn steady(latency: Duration, bandwidth: u64) -> Self {
        Self {
            latency,
            jitter: Duration::ZERO,
            bandwidth,
            loss: 0,
            repeat: 0,
            delay: 0,
            late: Duration::ZERO,
            damage: 0,
            stall: 0,
        }
    }

    /// Returns true with a probability of `chance` in a million.
    pub(crate) fn strikes(chance: u32, rng: &mut Rng) -> bool {
        chance > 0 && rng.below(MILLION) < u64::from(chance)
    }

    /// Returns how long these bytes keep a host's link busy.
    pub(crate) fn busy(&self, bytes: usize) -> Duration {
        Duration::from_nanos(bytes as u64 * 1_000_000_000 / self.bandwidth.max(1))
    }

    /// Returns how long something is on its way, chance included.
    pub(crate) fn flight(&self, rng: &mut Rng) -> Duration {
        self.latency + below(self.jitter, rng)
    }
}

/// Returns a duration below a limit, uniformly.
pub(crate) fn below(limit: Duration, rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.below(limit.as_nanos() as u64 + 1))
}
