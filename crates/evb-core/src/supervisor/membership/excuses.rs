//! The part of [`PeerMembership`] for sources that lost their connection while the supervisor stood
//! still: events wait for them for a moment, because they connect again.

use super::PeerMembership;
use crate::{supervisor::SourceLoss, time::Instant};

impl PeerMembership<'_> {
    /// Returns true if the supervisor stood still a moment ago. Its peers gave up their connections
    /// then, and are about to connect again.
    pub(super) fn is_excused(&self, now: Instant) -> bool {
        self.pulse.stood_still(self.plan.down_after, now)
    }

    /// Waits no longer for sources that were excused and do not come back.
    pub(in crate::supervisor) fn end_excuses(&mut self, now: Instant) {
        if self.plan.on_source_loss == SourceLoss::Wait {
            return;
        }
        for index in self.roster.sources().positions() {
            let down = self.roster.source(index).down;
            let is_over = down.is_some_and(|down| now.since(down) >= self.plan.down_after);
            if is_over && self.roster.awaited().contains(index.get()) {
                self.roster.set_awaited(index, false);
                self.due.roster = true;
            }
        }
    }
}
