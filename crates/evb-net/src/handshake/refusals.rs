//! One listener's log of those that it turned away: a port scanner must not fill the disk.

use std::{fmt::Display, num::NonZeroU32};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// Logs refusals, at most one a second on average and five in a row; counts the others.
#[derive(Debug)]
pub struct RefusalLog {
    listener: &'static str,
    limiter: DefaultDirectRateLimiter,
    unsaid: u64,
    total: u64,
}

impl RefusalLog {
    /// For the listener of that name.
    pub fn new(listener: &'static str) -> Self {
        const BURST: NonZeroU32 = NonZeroU32::new(5).expect("five is not zero");
        let quota = Quota::per_second(NonZeroU32::MIN).allow_burst(BURST);
        Self { listener, limiter: RateLimiter::direct(quota), unsaid: 0, total: 0 }
    }

    /// Says who was turned away and why, if it is not too soon.
    pub fn record(&mut self, peer: impl Display, reason: &dyn Display) {
        if let Some(unsaid) = self.next_line() {
            tracing::warn!(listener = self.listener, %peer, %reason, unsaid, "connection refused");
        }
    }

    /// Counts something worth a line in other words: how many lines before it were left out, or `None` if this one is, too.
    pub fn next_line(&mut self) -> Option<u64> {
        self.total += 1;
        if self.limiter.check().is_err() {
            self.unsaid += 1;
            return None;
        }
        Some(std::mem::take(&mut self.unsaid))
    }

    /// How many were turned away.
    pub fn total(&self) -> u64 {
        self.total
    }
}
