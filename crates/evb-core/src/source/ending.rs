//! The end of the run: when a source gives its last report.

use core::time::Duration;

use super::SourceCore;
use crate::{lane::OutgoingLane, time::Instant};

/// Time for which a source waits at the end of the run for commits that are under way.
pub const LAST_COMMITS: Duration = Duration::from_secs(2);

impl SourceCore {
    /// Fragments that are held until their builder commits them, or a builder is found for them.
    pub fn uncommitted(&self) -> usize {
        self.lanes.iter().map(OutgoingLane::held_fragments).sum::<usize>() + self.parking.len()
    }

    /// Notes that the run is ending (docs/protocol.md RUN-17): every event is settled, and only
    /// commits may still be under way.
    pub fn handle_finish(&mut self, now: Instant) {
        self.finish = Some(now + LAST_COMMITS);
    }

    /// Returns when the last report is due at the latest; `None` if it is not asked for, or has
    /// been given.
    pub fn next_finish(&self) -> Option<Instant> {
        self.finish
    }

    /// Returns true if the last report is due, once for each time that it was asked for: all is committed, or
    /// [`LAST_COMMITS`] have passed.
    pub fn finish(&mut self, now: Instant) -> bool {
        self.finish.take_if(|limit| *limit <= now).is_some()
            || (self.uncommitted() == 0 && self.finish.take().is_some())
    }
}
