//! [`RunSeries`]: the counts of a run over its time, in a limited number of points.

use serde::{Deserialize, Serialize};

/// Most points; when there are more, every other one is left out.
const MAX_POINTS: usize = 240;

/// Counts from the beginning of a run to a time in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunPoint {
    /// Time since the beginning of the run, in seconds.
    pub at_s: f64,
    /// Number of triggers.
    pub triggered: u64,
    /// Number of triggers that were inhibited, which is dead time.
    pub inhibited: u64,
    /// Number of built events, complete or incomplete.
    pub events: u64,
    /// Payload bytes of the events that sinks accepted, by the latest reports of the builders.
    pub payload_bytes: u64,
}

/// The counts of a run at ascending times. Differences between two points are rates, so points can
/// be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSeries {
    /// Number of updates of the record between two points: 1, 2, 4 and so on.
    pub every: u64,
    /// The points; the last one is that of the latest update.
    pub points: Vec<RunPoint>,
}

impl Default for RunSeries {
    fn default() -> Self {
        Self { every: 1, points: Vec::new() }
    }
}

impl RunPoint {
    /// Returns the point with counts that are not below those of an earlier one: a supervisor that
    /// goes on with a run has no reports of the builders at first.
    fn after(self, earlier: &Self) -> Self {
        Self {
            at_s: self.at_s,
            triggered: self.triggered.max(earlier.triggered),
            inhibited: self.inhibited.max(earlier.inhibited),
            events: self.events.max(earlier.events),
            payload_bytes: self.payload_bytes.max(earlier.payload_bytes),
        }
    }
}

impl RunSeries {
    /// Adds the state at an update of the record, or takes it in place of the last one if that is
    /// too soon after the point before.
    pub(in crate::supervisor) fn add(&mut self, point: RunPoint, pause_s: f64) {
        let point = self.points.last().map_or(point, |last| point.after(last));
        if let [.., before, last] = &mut self.points[..]
            && last.at_s - before.at_s < pause_s * (self.every as f64 - 0.5)
        {
            *last = point;
            return;
        }
        self.points.push(point);
        // Every second point is dropped, and the next points are twice as far apart.
        if self.points.len() > MAX_POINTS {
            let mut place = 0;
            self.points.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
    }
}

#[cfg(test)]
mod tests;
