//! [`RecoveryCounters`].

use core::ops::AddAssign;

/// What recovery counts, of one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryCounters {
    /// Transmissions declared lost, in lane bytes.
    pub lost_bytes: u64,
    /// Ranges that were asked for again.
    pub resends: u64,
    /// Timers that went off.
    pub timeouts: u64,
    /// Segments of transmissions that had been declared lost and arrived.
    pub late_after_loss: u64,
    /// Segments that brought nothing new.
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
