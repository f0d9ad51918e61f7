//! [`RoundTrip`]: estimates of the time that an answer takes, and the timers that follow from them.

use core::time::Duration;

use crate::undo;

/// Round-trip estimates as in RFC 6298 (smoothed mean and variation). The smallest round trip is
/// kept apart for reordering windows (RFC 8985 §6.2).
#[derive(Clone, Debug)]
pub struct RoundTrip {
    /// Smoothed round trip; `None` before the first measurement.
    smoothed: Option<Duration>,
    variation: Duration,
    /// The smallest round trip, measured or estimated from elsewhere.
    least: Option<Duration>,
    /// Longest time that a datagram waits in full queues on the way.
    queue: Duration,
}

impl RoundTrip {
    /// Shortest timer. The delays of a busy host are no losses.
    pub const FLOOR: Duration = Duration::from_millis(2);
    /// Least margin of a timer beyond the smoothed round trip (G of RFC 6298 §2.3), as timers and
    /// schedulers are no finer.
    pub const GRANULARITY: Duration = Duration::from_millis(1);
    /// Shortest timer before the first measurement. A shallow port at 25 Mbit/s holds a packet for
    /// 42 ms; RFC 6298 has one second.
    pub const INITIAL: Duration = Duration::from_millis(100);
    /// Round trip to assume if nothing is known: that of a local network.
    const USUAL: Duration = Duration::from_millis(1);
    /// Longest timer, however often it has gone off in vain.
    pub const CEILING: Duration = Duration::from_secs(2);

    /// Returns an estimator without measurements. `estimate` comes from elsewhere, such as another
    /// connection to the same peer.
    pub fn new(estimate: Option<Duration>) -> Self {
        let usual = undo::is_undone(undo::Fix::B023ab1).then_some(Self::USUAL);
        let least = estimate.or(usual);
        Self { smoothed: None, variation: Duration::ZERO, least, queue: Duration::ZERO }
    }

    /// Sets the longest time that a full port on the way holds a datagram. Measured round trips may
    /// be those of an empty port.
    pub fn expect_queue(&mut self, longest: Duration) {
        self.queue = longest;
    }

    /// Counts the time that an answer took.
    pub fn sample(&mut self, took: Duration) {
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        match self.smoothed {
            None => {
                self.variation = took / 2;
                self.smoothed = Some(took);
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(took)) / 4;
                self.smoothed = Some((smoothed * 7 + took) / 8);
            }
        }
    }

    /// Returns the smoothed round trip, once measured.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the smallest round trip.
    pub fn least(&self) -> Duration {
        self.least.unwrap_or(Self::USUAL)
    }

    /// Returns the time to wait for an answer, after `failures` timers went off in a row.
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
