//! [`RecoveryCounters`]: counts of losses on a lane and of their repair.

use core::ops::AddAssign;

/// Counters of the losses on one lane and of their repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryCounters {
    /// Lane bytes of transmissions that were declared lost.
    pub lost_bytes: u64,
    /// Ranges that were requested again.
    pub resends: u64,
    /// Timers that expired before the awaited bytes arrived.
    pub timeouts: u64,
    /// Segments that arrived after their transmission had been declared lost.
    pub late_after_loss: u64,
    /// Segments with no new bytes.
    pub duplicates: u64,
}

impl AddAssign for RecoveryCounters {
    fn add_assign(&mut self, other: Self) {
        self.lost_bytes += other.lost_bytes;
        self.resends += other.resends;
        self.timeouts += other.timeouts;
        self.late_after_loss += other.late_after_loss;
        self.duplicates += other.duplicates;
    }
}
