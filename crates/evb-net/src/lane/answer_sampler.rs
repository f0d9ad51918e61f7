//! [`AnswerSampler`]: how long a source takes from a grant in its kernel to the grant's first data.

#[cfg(test)]
mod tests;

use std::{os::fd::BorrowedFd, time::Duration};

use evb_core::time::Instant;

use crate::{clock, stamps::ReadSampler};

/// Follows one grant of some: its wait in the kernel, and its answer.
#[derive(Debug)]
pub(super) struct AnswerSampler {
    reads: ReadSampler,
    /// The read that is a sample, until its records are taken: the time it had waited, and when it
    /// happened.
    read: Option<(Option<Duration>, Instant)>,
    /// The first lane byte of the grant that is followed, and when that was read.
    follows: Option<(u64, Instant)>,
    took: Option<Duration>,
}

impl AnswerSampler {
    /// Creates the sampler of a stream that brings grants.
    pub(super) fn of(stream: BorrowedFd<'_>) -> Self {
        Self { reads: ReadSampler::of(stream), read: None, follows: None, took: None }
    }

    /// Returns true if the next read is a sample.
    pub(super) fn is_due(&self) -> bool {
        self.reads.sampler.is_due()
    }

    /// The stream is about to be read.
    pub(super) fn begin_read(&mut self, stream: BorrowedFd<'_>) {
        self.read = Some((self.reads.waited(stream), clock::now()));
    }

    /// The stream was read.
    #[inline]
    pub(super) fn count(&mut self) {
        self.reads.sampler.count();
    }

    /// All records of the last read were taken.
    #[inline]
    pub(super) fn end_read(&mut self) {
        self.read = None;
    }

    /// Notes a grant that permits lane bytes from `from` on. Returns the time it had waited, if it
    /// is a sample.
    #[inline]
    pub(super) fn note_grant(&mut self, from: u64) -> Option<Duration> {
        let (waited, at) = self.read.take()?;
        self.follows.get_or_insert((from, at));
        waited
    }

    /// Lane bytes are written up to there.
    #[inline]
    pub(super) fn note_written(&mut self, end: u64) {
        if let Some((_, at)) = self.follows.take_if(|(from, _)| *from < end) {
            self.took = Some(clock::now().since(at));
        }
    }

    /// Takes the sample, once.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Duration> {
        self.took.take()
    }
}
