//! [`Lines`]: a limit on the log lines that a peer can cause.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Instant;

/// Lines that may be written at once.
const BURST: u32 = 5;
/// Time after which one more line may be written.
const EACH: Duration = Duration::from_secs(1);

/// A limit on log lines: five at once, and one a second on average. Peers that break their
/// connections again and again must not fill a disk.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// The time at which all lines are free again.
    full: Instant,
    unsaid: u64,
}

impl Lines {
    /// Returns how many lines before this one were left out, or `None` if this one is left out,
    /// too.
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
