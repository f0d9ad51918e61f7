//! [`AnswerSampler`]: measures the time that a source takes from the arrival of a grant to the
//! grant's first data.

#[cfg(test)]
mod tests;

use std::{os::fd::BorrowedFd, time::Duration};

use evb_core::time::Instant;

use crate::{clock, stamps::ReadSampler};

/// Measures a sample of the grants that a source receives: the wait of the grant in the kernel, and
/// the time until the grant's first data is written.
#[derive(Debug)]
pub(super) struct AnswerSampler {
    reads: ReadSampler,
    /// The read that is being measured, until its records are processed: the time that its data had
    /// waited in the kernel, and the time of the read.
    read: Option<(Option<Duration>, Instant)>,
    /// The grant that is being measured: its first lane byte, and the time at which it was read.
    follows: Option<(u64, Instant)>,
    took: Option<Duration>,
}

impl AnswerSampler {
    /// Creates the sampler of a stream that brings grants.
    pub(super) fn of(stream: BorrowedFd<'_>) -> Self {
        Self { reads: ReadSampler::of(stream), read: None, follows: None, took: None }
    }

    /// Returns true if the next read is to be measured.
    pub(super) fn is_due(&self) -> bool {
        self.reads.sampler.is_due()
    }

    /// Begins the measurement of a read, just before the stream is read.
    pub(super) fn begin_read(&mut self, stream: BorrowedFd<'_>) {
        self.read = Some((self.reads.waited(stream), clock::now()));
    }

    /// Counts one read of the stream.
    #[inline]
    pub(super) fn count(&mut self) {
        self.reads.sampler.count();
    }

    /// Notes that all records of the last read have been processed.
    #[inline]
    pub(super) fn end_read(&mut self) {
        self.read = None;
    }

    /// Notes a grant that permits lane bytes from `from` on. Returns the time that the grant waited
    /// in the kernel, if this wait was measured.
    #[inline]
    pub(super) fn note_grant(&mut self, from: u64) -> Option<Duration> {
        let (waited, at) = self.read.take()?;
        self.follows.get_or_insert((from, at));
        waited
    }

    /// Notes that the lane bytes below `end` have been written.
    #[inline]
    pub(super) fn note_written(&mut self, end: u64) {
        if let Some((_, at)) = self.follows.take_if(|(from, _)| *from < end) {
            self.took = Some(clock::now().since(at));
        }
    }

    /// Returns the measured time from a grant to its first data, once for each measurement.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Duration> {
        self.took.take()
    }
}
