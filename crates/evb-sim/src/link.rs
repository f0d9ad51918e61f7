//! [`Link`]: a sending network interface and its cable.

use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use evb_shaper::cost::LINE_OVERHEAD;

/// Length to which shorter frames are padded: 64 bytes (IEEE 802.3 §4A.2.3.2.4) without the check
/// sequence, which [`LINE_OVERHEAD`] includes.
const MINIMAL_FRAME: u64 = 60;

/// A network interface with a first-in, first-out queue. A frame arrives one latency after its last
/// bit has left. The interface sends at line rate. With a token bucket, as in a lab without real
/// cables, it sends the content of the bucket at once; the bucket fills up at line rate.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    rate: Rate,
    latency: Duration,
    /// Time that the line takes to carry a full bucket.
    bucket: Duration,
    free_at: Instant,
}

impl Link {
    /// Creates an idle link.
    pub(crate) fn new(rate: Rate, latency: Duration) -> Self {
        Self { rate, latency, bucket: Duration::ZERO, free_at: Instant::ZERO }
    }

    /// Adds a token bucket of `bucket` line bytes to the link.
    pub(crate) fn with_bucket(self, bucket: Bytes) -> Self {
        Self { bucket: bucket / self.rate, ..self }
    }

    /// Queues an L2 frame, and returns the times at which its last bit leaves and arrives.
    pub(crate) fn send(&mut self, frame: Bytes, now: Instant) -> (Instant, Instant) {
        let line = Bytes::new(frame.count().max(MINIMAL_FRAME) + LINE_OVERHEAD);
        self.free_at = self.free_at.max(now) + line / self.rate;
        let left = now.max(self.free_at.shifted(-(self.bucket.as_nanos() as i64)));
        (left, left + self.latency)
    }
}
