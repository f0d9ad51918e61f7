//! One listener's log of those that it turned away: a port scanner must not fill the disk.

use std::{fmt::Display, net::SocketAddr, num::NonZeroU32};

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
    pub fn record(&mut self, peer: SocketAddr, reason: &dyn Display) {
        self.total += 1;
        if self.limiter.check().is_err() {
            self.unsaid += 1;
            return;
        }
        tracing::warn!(listener = self.listener, %peer, %reason, unsaid = self.unsaid, "connection refused");
        self.unsaid = 0;
    }

    /// How many were turned away.
    pub fn total(&self) -> u64 {
        self.total
    }
}
