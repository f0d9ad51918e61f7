//! Counters of a builder's lanes over datagrams.

use crate::{
    lane::{IncomingDatagrams, RecoveryCounters},
    wire::control::LaneReport,
};

/// Counters of the datagrams of one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Datagrams of the source that arrived.
    pub segments: u64,
    /// Datagrams of the source that never arrived, by the gaps in their sequence numbers.
    pub absent: u64,
    /// Counters of losses and their repair.
    pub recovery: RecoveryCounters,
}

impl DatagramCounters {
    /// Copies the counters into a lane's part of the final report.
    pub(super) fn report(&self, lane: &mut LaneReport) {
        lane.segments = self.segments;
        lane.absent = self.absent;
        lane.lost_bytes = self.recovery.lost_bytes;
        lane.resends = self.recovery.resends;
        lane.timeouts = self.recovery.timeouts;
        lane.late_after_loss = self.recovery.late_after_loss;
        lane.duplicate_segments = self.recovery.duplicates;
    }

    /// Returns the sum of these counters and those of another association of the lane.
    pub(super) fn and(mut self, datagrams: &IncomingDatagrams) -> Self {
        self.segments += datagrams.segments;
        self.absent += datagrams.heard.absent();
        self.recovery += datagrams.recovery.counters();
        self
    }
}
