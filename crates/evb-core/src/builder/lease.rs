//! [`Lease`]: the time for which a builder may write without an answer from the supervisor.

use core::time::Duration;

use crate::time::Instant;

/// A builder's permission to give events to its sink. The supervisor reassigns the events of a
/// builder that it has not heard from for two leases, so a builder that it cannot hear has stopped
/// by then (Gray & Cheriton, SOSP 1989).
#[derive(Debug)]
pub(super) struct Lease {
    /// Zero means that the lease never ends.
    length: Duration,
    until: Instant,
}

impl Lease {
    /// Returns a lease that begins with the first sign that the supervisor heard us.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, until: Instant::ZERO }
    }

    /// Renews the lease from `sent`, the time at which we sent a message that the supervisor heard.
    pub(super) fn renew(&mut self, sent: Instant) {
        self.until = self.until.max(sent + self.length);
    }

    /// Returns true if events may be given to the sink.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.length.is_zero() || now < self.until
    }
}
