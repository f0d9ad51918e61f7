//! [`Lines`]: how many lines of log a peer can cause.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Instant;

/// Lines at once.
const BURST: u32 = 5;
/// One more each.
const EACH: Duration = Duration::from_secs(1);

/// Limits lines of log: five at once, and one a second on average. Peers that break their connections again and again must not
/// fill a disk.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// When all lines are free again.
    full: Instant,
    unsaid: u64,
}

impl Lines {
    /// Returns how many lines before this one were left out, or `None` if this one is, too.
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
