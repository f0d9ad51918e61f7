//! [`Conditions`]: the conditions of a simulated network.

use core::time::Duration;

use evb_core::{
    rng::Rng,
    time::{ClockState, Instant, Utc, WallClock},
};

/// The conditions of a simulated network. Probabilities are in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Shortest time from one host to another.
    pub latency: Duration,
    /// Largest additional time, uniformly distributed from zero, by which datagrams may overtake
    /// each other.
    pub jitter: Duration,
    /// Rate of a host's link, in bytes per second.
    pub bandwidth: u64,
    /// Probability that a datagram is lost, in parts per million.
    pub loss: u32,
    /// Number of a host's successive datagrams that are lost at once, as from a full queue.
    pub burst: u32,
    /// Probability that a datagram arrives twice, in parts per million.
    pub repeat: u32,
    /// Probability that a datagram is delayed by up to [`Self::late`], in parts per million.
    pub delay: u32,
    /// Longest additional delay of a datagram.
    pub late: Duration,
    /// Probability that a datagram arrives with a wrong bit, in parts per million.
    pub damage: u32,
    /// Probability that a piece of a stream is delayed by a retransmission timer, in parts per
    /// million.
    pub stall: u32,
}

/// Denominator of the probabilities in [`Conditions`].
pub(crate) const MILLION: u64 = 1_000_000;

impl Conditions {
    /// Returns conditions with a constant latency and without faults.
    pub const fn steady(latency: Duration, bandwidth: u64) -> Self {
        Self {
            latency,
            jitter: Duration::ZERO,
            bandwidth,
            loss: 0,
            burst: 1,
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

    /// Returns the time for which the given number of bytes keeps a host's link busy.
    pub(crate) fn busy(&self, bytes: usize) -> Duration {
        Duration::from_nanos(bytes as u64 * 1_000_000_000 / self.bandwidth.max(1))
    }

    /// Draws the time that a piece takes from one host to another.
    pub(crate) fn flight(&self, rng: &mut Rng) -> Duration {
        self.latency + below(self.jitter, rng)
    }
}

/// Draws a duration between zero and `limit`, uniformly distributed.
pub(crate) fn below(limit: Duration, rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.below(limit.as_nanos() as u64 + 1))
}

/// UTC of the beginning of the simulated time, in ns: some moment of the year 2025.
const BEGINNING: u64 = 1_763_000_000_000_000_000;

const HOUR: u64 = 3_600_000_000_000;

/// Time between two settings of wall clocks.
const SETTINGS_PERIOD: u64 = 200_000_000;

/// Returns a reading of the wall clocks of all hosts. With every other seed, the clocks are set by
/// up to an hour at some times.
pub(crate) fn wall_clock(seed: u64, now: Instant) -> WallClock {
    let nanos = now.as_nanos();
    let mut utc = BEGINNING + nanos;
    if seed.is_multiple_of(2) {
        let mut rng = Rng::new(seed ^ (nanos / SETTINGS_PERIOD));
        utc = utc - HOUR + rng.below(3) * HOUR;
    }
    WallClock { utc: Utc::from_nanos(utc), state: ClockState::Unknown }
}
