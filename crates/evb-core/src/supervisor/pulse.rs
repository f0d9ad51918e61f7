//! [`Pulse`]: when to send heartbeats and to look who is silent, and how long nobody may be left.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Instant;

/// The times of heartbeats, and the limits of a run without any source or any builder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    every: Duration,
    next: Instant,
    /// Since when no source is up, and how long that may be.
    no_source_since: Option<(Instant, Duration)>,
    /// While no builder is left, when that has been for too long.
    give_up_builders: Option<Instant>,
}

impl Pulse {
    pub(super) fn new(now: Instant, every: Duration) -> Self {
        Self { every, next: now + every, no_source_since: None, give_up_builders: None }
    }

    /// The first heartbeat of a supervisor that goes on comes at once.
    pub(super) fn restart(&mut self, now: Instant) {
        self.next = now;
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Begins the next interval; returns how late this heartbeat is.
    pub(super) fn beat(&mut self, now: Instant) -> Duration {
        let late = now.since(self.next);
        self.next = now + self.every;
        late
    }

    pub(super) fn lose_sources(&mut self, now: Instant, limit: Duration) {
        self.no_source_since = Some((now, limit));
    }

    pub(super) fn find_source(&mut self) {
        self.no_source_since = None;
    }

    /// Returns true if no source has been up for too long.
    pub(super) fn lacks_sources(&self, now: Instant) -> bool {
        self.no_source_since.is_some_and(|(since, limit)| now.since(since) >= limit)
    }

    pub(super) fn lose_builders(&mut self, until: Instant) {
        self.give_up_builders = Some(until);
    }

    pub(super) fn find_builder(&mut self) {
        self.give_up_builders = None;
    }

    /// Returns true if no builder has been left for too long.
    pub(super) fn lacks_builders(&self, now: Instant) -> bool {
        self.give_up_builders.is_some_and(|at| now >= at)
    }

    /// Puts the limits off: time stood still.
    pub(super) fn put_off(&mut self, time: Duration) {
        if let Some((since, _)) = &mut self.no_source_since {
            *since += time;
        }
        if let Some(at) = &mut self.give_up_builders {
            *at += time;
        }
    }
}
