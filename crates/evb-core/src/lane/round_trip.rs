//! [`RoundTrip`]: estimates of the round trip time, and the timers that follow from them.

use core::time::Duration;

/// Round trip estimates as in RFC 6298 (smoothed mean and variation). The shortest round trip is
/// also kept, for reordering windows (RFC 8985 §6.2).
#[derive(Clone, Debug)]
pub struct RoundTrip {
    /// Smoothed round trip time; `None` before the first measurement.
    smoothed: Option<Duration>,
    variation: Duration,
    /// Shortest round trip time, measured or estimated from another connection.
    least: Option<Duration>,
    /// Longest time that a datagram waits in full queues on the way.
    queue: Duration,
}

impl RoundTrip {
    /// Shortest timer: a busy host delays packets by up to about that time without losing them.
    pub const FLOOR: Duration = Duration::from_millis(2);
    /// Least margin of a timer beyond the smoothed round trip time (G of RFC 6298 §2.3), because
    /// the timers and schedulers of hosts are no more precise.
    pub const GRANULARITY: Duration = Duration::from_millis(1);
    /// Shortest timer before the first measurement. A port with a small buffer at 25 Mbit/s holds a
    /// packet for 42 ms; the initial timer of RFC 6298 is one second.
    pub const INITIAL: Duration = Duration::from_millis(100);
    /// Round trip time that is assumed if nothing is known; it is that of a local network.
    const USUAL: Duration = Duration::from_millis(1);
    /// Longest timer, however many timers have expired in a row.
    pub const CEILING: Duration = Duration::from_secs(2);

    /// Returns an estimator without measurements. `estimate` is a round trip time from another
    /// measurement, such as another connection to the same peer.
    pub fn new(estimate: Option<Duration>) -> Self {
        Self { smoothed: None, variation: Duration::ZERO, least: estimate, queue: Duration::ZERO }
    }

    /// Sets the longest time that a full switch port on the path holds a datagram. Measured round
    /// trips may be those of an empty port, so timers must allow for that time.
    pub fn expect_queue(&mut self, longest: Duration) {
        self.queue = longest;
    }

    /// Adds a measured round trip.
    pub fn sample(&mut self, took: Duration) {
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        match self.smoothed {
            None => {
                self.variation = took / 2;
                self.smoothed = Some(took);
            }
            Some(smoothed) => {
                // The weights of TCP's estimator (RFC 6298).
                self.variation = (self.variation * 3 + smoothed.abs_diff(took)) / 4;
                self.smoothed = Some((smoothed * 7 + took) / 8);
            }
        }
    }

    /// Returns the smoothed round trip time; `None` before the first measurement.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the shortest round trip time.
    pub fn least(&self) -> Duration {
        self.least.unwrap_or(Self::USUAL)
    }

    /// Returns the time for which bytes are certainly under way, or the request for them: three
    /// quarters of the shortest round trip. While none is known, assumes [`Self::INITIAL`], because
    /// the builder waits for about as long before it asks.
    pub fn flight(&self) -> Duration {
        self.least.unwrap_or(Self::INITIAL) * 3 / 4
    }

    /// Returns the time to wait for an answer after `failures` timers have expired in a row.
    pub fn timeout(&self, failures: u32) -> Duration {
        let patience = match self.smoothed {
            Some(smoothed) => (smoothed + (self.variation * 4).max(Self::GRANULARITY)).max(Self::FLOOR),
            None => (self.least() * 3).max(Self::INITIAL),
        };
        let patient = patience.saturating_mul(1 << failures.min(16)).min(Self::CEILING.max(patience));
        patient.max(self.least().max(Self::FLOOR) + self.queue)
    }
}

#[cfg(test)]
mod tests;
