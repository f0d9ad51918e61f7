//! A journal that takes nothing for a while. Nobody hears of what is not written down, so nothing new is decided meanwhile, and
//! no time runs out for those who could not be told.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::{Phase, SupervisorCore};
use crate::time::Instant;

impl SupervisorCore {
    /// The journal takes nothing: until [`journal_goes_on`](Self::journal_goes_on), triggers are inhibited, and limits of time
    /// stand still.
    pub fn stall_journal(&mut self, now: Instant) {
        if self.plan.journal {
            self.stalled.get_or_insert(now);
        }
    }

    /// The journal takes entries again, or is kept no more.
    pub fn journal_goes_on(&mut self, now: Instant) {
        let Some(since) = self.stalled.take() else { return };
        self.put_off(now.since(since));
    }

    /// Returns the limit, unless it stands still.
    pub(super) fn running(&self, limit: Instant) -> Option<Instant> {
        Some(limit).filter(|_| self.stalled.is_none())
    }

    /// Returns true if the limit has passed and does not stand still.
    pub(super) fn is_over(&self, limit: Instant, now: Instant) -> bool {
        self.running(limit).is_some_and(|limit| now >= limit)
    }

    fn put_off(&mut self, time: Duration) {
        match &mut self.phase {
            Phase::Gathering { until }
            | Phase::Recovering { until }
            | Phase::Draining { until }
            | Phase::Reporting { until } => *until += time,
            Phase::Running { .. } | Phase::Ended => {}
        }
        if let Some((since, _)) = &mut self.pulse.no_source_since {
            *since += time;
        }
        if let Some(at) = &mut self.pulse.give_up_builders {
            *at += time;
        }
        for since in self.builders.iter_mut().filter_map(|seat| seat.joining.as_mut()) {
            *since += time;
        }
    }
}
