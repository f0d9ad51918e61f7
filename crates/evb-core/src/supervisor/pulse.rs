//! [`Pulse`]: the times of heartbeats and checks for silent peers, and the limits of a run without
//! sources or builders.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Instant;

/// The times of heartbeats, and the limits of a run without any source or any builder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    every: Duration,
    next: Instant,
    /// The time since which no source is up, and the limit of that time.
    no_source_since: Option<(Instant, Duration)>,
    /// The time at which a run without builders fails; `None` while there is a builder.
    give_up_builders: Option<Instant>,
}

impl Pulse {
    pub(super) fn new(now: Instant, every: Duration) -> Self {
        Self { every, next: now + every, no_source_since: None, give_up_builders: None }
    }

    /// Sends the first heartbeat of a restarted supervisor at once.
    pub(super) fn restart(&mut self, now: Instant) {
        self.next = now;
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Begins the next interval; returns the lateness of this heartbeat.
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

    /// Returns true if there has been no builder for too long.
    pub(super) fn lacks_builders(&self, now: Instant) -> bool {
        self.give_up_builders.is_some_and(|at| now >= at)
    }

    /// Puts off the limits by a time that does not count.
    pub(super) fn put_off(&mut self, time: Duration) {
        if let Some((since, _)) = &mut self.no_source_since {
            *since += time;
        }
        if let Some(at) = &mut self.give_up_builders {
            *at += time;
        }
    }
}
