//! [`RoundTrip`]: how long an answer takes, and how long to wait for one.

use core::time::Duration;

use crate::undo;

/// Round-trip estimates after RFC 6298 (smoothed mean and variation), with the smallest one kept apart for reordering
/// windows (RFC 8985 §6.2).
#[derive(Clone, Debug)]
pub struct RoundTrip {
    /// `None` before the first measurement.
    smoothed: Option<Duration>,
    variation: Duration,
    /// Measured, or estimated from elsewhere.
    least: Option<Duration>,
    /// What waits in full queues on the way waits for so long.
    queue: Duration,
}

impl RoundTrip {
    /// No timer is shorter: what a busy host is late by is no loss.
    pub const FLOOR: Duration = Duration::from_millis(2);
    /// What a timer waits at least beyond the smoothed round trip (G of RFC 6298 §2.3): timers and schedulers are no finer.
    pub const GRANULARITY: Duration = Duration::from_millis(1);
    /// Before the first measurement. A shallow port at 25 Mbit/s holds a packet for 42 ms; RFC 6298 says a second.
    pub const INITIAL: Duration = Duration::from_millis(100);
    /// Where nothing is known: that of a local network.
    const USUAL: Duration = Duration::from_millis(1);
    /// No timer is longer, however often it has gone off in vain.
    pub const CEILING: Duration = Duration::from_secs(2);

    /// Nothing is known but an estimate from elsewhere, such as of another connection to the same peer.
    pub fn new(estimate: Option<Duration>) -> Self {
        let usual = undo::is_undone(undo::Fix::B023ab1).then_some(Self::USUAL);
        let least = estimate.or(usual);
        Self { smoothed: None, variation: Duration::ZERO, least, queue: Duration::ZERO }
    }

    /// A full port on the way holds for so long what comes to it: what was measured may be the round trips of an empty one.
    pub fn expect_queue(&mut self, longest: Duration) {
        self.queue = longest;
    }

    /// An answer took so long.
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

    /// The smoothed round trip, once measured.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The smallest round trip.
    pub fn least(&self) -> Duration {
        self.least.unwrap_or(Self::USUAL)
    }

    /// How long to wait for an answer, after `failures` timers went off in a row.
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
