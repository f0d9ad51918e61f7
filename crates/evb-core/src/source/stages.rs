//! Samples of a source's part of the way from a grant to its data.

use core::time::Duration;

use super::SourceCore;

impl SourceCore {
    /// Counts a sample of the source's wake-up: from the kernel's receipt of a grant to its read.
    pub fn record_grant_wake(&mut self, took: Duration) {
        self.stages.wake.record(took);
    }

    /// Counts a sample of the source's answer: from the read of a grant to the end of the write of its first data.
    pub fn record_grant_answer(&mut self, took: Duration) {
        self.stages.write.record(took);
    }

    /// Returns the lane offset up to which a builder has granted.
    pub fn granted(&self, lane: usize) -> u64 {
        self.lanes[lane].granted()
    }
}
