//! [`Told`]: the lanes in a builder's interim reports.

use super::reception::Reception;
use crate::{
    index::LaneIndex,
    wire::control::{LaneReport, MAX_CHANGED},
};

/// The part of the lanes' counters that interim reports have stated on the present connection to
/// the supervisor.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// For each lane, the stated number of events to which the lane's source contributed the last
    /// fragment.
    lasts: Vec<u64>,
    /// Lane at which the next report begins to look for changes. With more changed lanes than a
    /// report has room for, each lane gets its turn.
    next: usize,
}

impl Told {
    /// Forgets what was stated, because messages may have been lost with the connection.
    pub(super) fn forget(&mut self) {
        self.lasts.clear();
    }

    /// Returns the lanes that have changed since they were stated, with the counters that interim
    /// reports have of each lane (docs/reference/protocol.md RUN-37).
    pub(super) fn changes(&mut self, lanes: &[Reception]) -> Vec<LaneReport> {
        let count = lanes.len();
        self.lasts.resize(count, 0);
        let mut changes = Vec::new();
        for lane in (self.next..count).chain(0..self.next.min(count)).map(LaneIndex::new) {
            let &LaneReport { source, last, last_by_ns, .. } = lanes[lane].counters();
            if last == self.lasts[lane] {
                continue;
            }
            if changes.len() == MAX_CHANGED {
                self.next = lane.get();
                break;
            }
            self.lasts[lane] = last;
            changes.push(LaneReport { source, last, last_by_ns, ..LaneReport::default() });
        }
        changes
    }
}

#[cfg(test)]
mod tests;
