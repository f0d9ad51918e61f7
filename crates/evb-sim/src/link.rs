//! [`Link`]: a sending interface and the cable behind it.

use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use evb_shaper::cost::LINE_OVERHEAD;

/// Shorter frames are padded: 64 bytes (IEEE 802.3 §4A.2.3.2.4) without the check sequence, which [`LINE_OVERHEAD`] has.
const MINIMAL_FRAME: u64 = 60;

/// A first-in, first-out interface at line rate; what it sends arrives one latency after its last bit has left.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    rate: Rate,
    latency: Duration,
    free_at: Instant,
}

impl Link {
    /// An idle link.
    pub(crate) fn new(rate: Rate, latency: Duration) -> Self {
        Self { rate, latency, free_at: Instant::ZERO }
    }

    /// Queues an L2 frame: when its last bit leaves, and when it arrives.
    pub(crate) fn send(&mut self, frame: Bytes, now: Instant) -> (Instant, Instant) {
        let line = Bytes::new(frame.count().max(MINIMAL_FRAME) + LINE_OVERHEAD);
        self.free_at = self.free_at.max(now) + line / self.rate;
        (self.free_at, self.free_at + self.latency)
    }
}
