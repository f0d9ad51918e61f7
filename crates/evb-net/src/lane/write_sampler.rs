//! [`WriteSampler`]: how long a builder's grants take until they are written.

use std::time::Duration;

use evb_core::time::Instant;

use crate::{clock, stamps::Sampler};

/// Follows one grant of some from the machine to the end of its write.
#[derive(Debug)]
pub(super) struct WriteSampler {
    sampler: Sampler,
    /// Offset up to which the source has been told that it may send.
    said: u64,
    /// Time of the grant whose write is under way.
    given: Option<Instant>,
    took: Option<Duration>,
}

impl WriteSampler {
    pub(super) const fn new() -> Self {
        Self { sampler: Sampler::new(), said: 0, given: None, took: None }
    }

    /// Records are to be written that grant up to `granted`, since `now`.
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

    /// Everything is written.
    #[inline]
    pub(super) fn end(&mut self) {
        if let Some(given) = self.given.take() {
            self.took = Some(clock::now().since(given));
        }
    }

    /// Takes the sample, once.
    pub(super) fn take(&mut self) -> Option<Duration> {
        self.took.take()
    }
}
