//! [`Lease`]: the time for which a builder may give events to its sink without an answer from the
//! supervisor.

use core::time::Duration;

use crate::time::Instant;

/// A builder's permission to give events to its sink. The supervisor reassigns the events of a
/// builder only after two leases of silence, and the builder stops writing one lease after the last
/// answered heartbeat; so no event is written twice (Gray & Cheriton, SOSP 1989).
#[derive(Debug)]
pub(super) struct Lease {
    /// A length of zero means that the lease never ends.
    length: Duration,
    until: Instant,
}

impl Lease {
    /// Returns a lease that does not hold until the first renewal.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, until: Instant::ZERO }
    }

    /// Renews the lease. `sent` is the time at which the builder sent a message that the supervisor
    /// answered.
    pub(super) fn renew(&mut self, sent: Instant) {
        self.until = self.until.max(sent + self.length);
    }

    /// Returns true if the builder may give events to the sink at `now`.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.length.is_zero() || now < self.until
    }
}
