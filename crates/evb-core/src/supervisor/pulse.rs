//! [`Pulse`]: the schedule of heartbeats and of checks for silent peers, and the time limits of a
//! run without sources or builders.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::{Instant, stood_still};

/// Schedule of heartbeats, and time limits of a run without any source or any builder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    every: Duration,
    next: Instant,
    /// Time of the last heartbeat that was late because the supervisor stood still.
    woke: Option<Instant>,
    /// Number of heartbeats so far.
    count: usize,
    /// True if all peers get the next heartbeat, or the present one.
    is_next_for_all: bool,
    is_for_all: bool,
    /// Time since which no source is up, and the limit for that state; `None` while a source is up.
    no_source_since: Option<(Instant, Duration)>,
    /// Time at which a run without builders fails; `None` while there is a builder.
    give_up_builders: Option<Instant>,
}

impl Pulse {
    /// Creates a pulse with a heartbeat after each time `every`.
    pub(super) fn new(now: Instant, every: Duration) -> Self {
        Self {
            every,
            next: now + every,
            woke: None,
            count: 0,
            is_next_for_all: false,
            is_for_all: false,
            no_source_since: None,
            give_up_builders: None,
        }
    }

    /// Makes a heartbeat due at once, for a supervisor that has restarted.
    pub(super) fn restart(&mut self, now: Instant) {
        self.next = now;
    }

    /// Makes a heartbeat to all peers due at once, which tells sources of a pause: readout need not
    /// deliver in that time.
    pub(super) fn hasten(&mut self, now: Instant) {
        (self.next, self.is_next_for_all) = (now, true);
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Begins the next interval; returns by how much this heartbeat was late.
    pub(super) fn beat(&mut self, now: Instant) -> Duration {
        let late = now.since(self.next);
        if stood_still(self.next, now) {
            self.woke = Some(now);
        }
        self.next = now + self.every;
        self.count = self.count.wrapping_add(1);
        self.is_for_all = core::mem::take(&mut self.is_next_for_all);
        late
    }

    /// Returns true if the supervisor stood still until less than `recently` ago.
    pub(super) fn stood_still(&self, recently: Duration, now: Instant) -> bool {
        stood_still(self.next, now) || self.woke.is_some_and(|woke| now.since(woke) < recently)
    }

    /// Returns true if the peer at that position gets this heartbeat; each peer gets one of
    /// `periods` heartbeats.
    pub(super) fn is_for(&self, position: usize, periods: usize) -> bool {
        self.is_for_all || self.count.wrapping_add(position).is_multiple_of(periods)
    }

    pub(super) fn lose_sources(&mut self, now: Instant, limit: Duration) {
        self.no_source_since = Some((now, limit));
    }

    pub(super) fn find_source(&mut self) {
        self.no_source_since = None;
    }

    /// Returns true if the run has been without a source for too long.
    pub(super) fn lacks_sources(&self, now: Instant) -> bool {
        self.no_source_since.is_some_and(|(since, limit)| now.since(since) >= limit)
    }

    pub(super) fn lose_builders(&mut self, until: Instant) {
        self.give_up_builders = Some(until);
    }

    pub(super) fn find_builder(&mut self) {
        self.give_up_builders = None;
    }

    /// Returns true if the run has been without a builder for too long.
    pub(super) fn lacks_builders(&self, now: Instant) -> bool {
        self.give_up_builders.is_some_and(|at| now >= at)
    }

    /// Extends the time limits of a run without sources or builders by `time`, during which the run
    /// could not make progress.
    pub(super) fn put_off(&mut self, time: Duration) {
        if let Some((since, _)) = &mut self.no_source_since {
            *since += time;
        }
        if let Some(at) = &mut self.give_up_builders {
            *at += time;
        }
    }
}
