//! [`WriteSampler`]: measures the time until a builder's grants are written.

use std::time::Duration;

use evb_core::time::Instant;

use crate::{clock, stamps::Sampler};

/// Measures a sample of a builder's grants: the time from the decision of the lane's state machine
/// to the end of the grant's write.
#[derive(Debug)]
pub(super) struct WriteSampler {
    sampler: Sampler,
    /// Lane offset up to which the latest grant permits the source to send.
    said: u64,
    /// Time of the grant whose write is being measured.
    given: Option<Instant>,
    took: Option<Duration>,
}

impl WriteSampler {
    pub(super) const fn new() -> Self {
        Self { sampler: Sampler::new(), said: 0, given: None, took: None }
    }

    /// Notes that records will be written that grant lane bytes up to `granted`, as decided at
    /// `now`.
    pub(super) fn note(&mut self, granted: u64, now: Instant) {
        if granted <= self.said {
            return;
        }
        self.said = granted;
        if self.sampler.is_due() && self.given.is_none() {
            self.given = Some(now);
        }
        self.sampler.count();
    }

    /// Notes that all queued records are written.
    #[inline]
    pub(super) fn end(&mut self) {
        if let Some(given) = self.given.take() {
            self.took = Some(clock::now().since(given));
        }
    }

    /// Returns the measured time from a grant to the end of its write, once for each measurement.
    pub(super) fn take(&mut self) -> Option<Duration> {
        self.took.take()
    }
}
