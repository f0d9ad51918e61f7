//! [`Lines`]: a rate limit for the log lines that a peer can cause.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Instant;

/// Number of lines that may be written at once.
const BURST: u32 = 5;
/// Interval at which one more line may be written.
const EACH: Duration = Duration::from_secs(1);

/// A rate limit for log lines: five at once, and one per second on average. Peers whose connections
/// break again and again must not fill the disk with log lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Time at which all `BURST` lines are available again.
    full: Instant,
    unsaid: u64,
}

impl Lines {
    /// Returns the number of lines that were suppressed before this one, or `None` if this line is
    /// to be suppressed, too.
    pub fn next(&mut self, now: Instant) -> Option<u64> {
        let after = self.full.max(now) + EACH;
        if after.since(now) > EACH * BURST {
            self.unsaid += 1;
            return None;
        }
        self.full = after;
        Some(core::mem::take(&mut self.unsaid))
    }
}
