//! Sums of the counters in reports.

use super::LaneReport;

impl LaneReport {
    /// Adds the counters of `lane`, without overflow (docs/reference/protocol.md RUN-18).
    pub fn add(&mut self, lane: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.fragments, lane.fragments);
        add(&mut self.payload_bytes, lane.payload_bytes);
        add(&mut self.missing, lane.missing);
        add(&mut self.late, lane.late);
        add(&mut self.duplicate, lane.duplicate);
        add(&mut self.unexpected, lane.unexpected);
        add(&mut self.crc_errors, lane.crc_errors);
        add(&mut self.last, lane.last);
        add(&mut self.last_by_ns, lane.last_by_ns);
        add(&mut self.stalls, lane.stalls);
        add(&mut self.reconnects, lane.reconnects);
        add(&mut self.segments, lane.segments);
        add(&mut self.absent, lane.absent);
        add(&mut self.lost_bytes, lane.lost_bytes);
        add(&mut self.resends, lane.resends);
        add(&mut self.timeouts, lane.timeouts);
        add(&mut self.late_after_loss, lane.late_after_loss);
        add(&mut self.duplicate_segments, lane.duplicate_segments);
    }
}
