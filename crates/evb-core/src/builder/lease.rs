//! [`Lease`]: how long a builder may go on writing without a word from the supervisor.

use core::time::Duration;

use crate::time::Instant;

/// What a builder may give to its sink now. The supervisor assigns a builder's events anew when it has not heard from it for
/// two leases; so a builder that it cannot hear stops by then (Gray & Cheriton, SOSP 1989).
#[derive(Debug)]
pub(super) struct Lease {
    /// Zero: for ever.
    length: Duration,
    until: Instant,
}

impl Lease {
    /// One that begins with the first sign that the supervisor heard us.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, until: Instant::ZERO }
    }

    /// The supervisor heard what we sent at `sent`.
    pub(super) fn renew(&mut self, sent: Instant) {
        self.until = self.until.max(sent + self.length);
    }

    /// Whether events may be given to the sink.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.length.is_zero() || now < self.until
    }
}
