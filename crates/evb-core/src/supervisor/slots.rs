//! [`Slots`]: the free slots of builders, the choice of the next builder, and the time without any
//! free slot.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::plan::AssignmentPolicy;
use crate::{
    index::{BuilderIndex, Per},
    time::Instant,
};

/// The free slots of all builders.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    policy: AssignmentPolicy,
    run_length: u32,
    /// Free slots per builder; zero for one that gets no events.
    free: Per<BuilderIndex, u32>,
    total: u32,
    /// Number of slots given back that become free together.
    batch: u32,
    /// Slots given back that are not free yet, per builder.
    resting: Per<BuilderIndex, u32>,
    /// The builder that got the last event, and the remaining number of its consecutive events.
    last: BuilderIndex,
    run_left: u32,
    all_busy: BusyTime,
    busy: Per<BuilderIndex, BusyTime>,
    /// True if no more triggers come.
    closed: bool,
}

/// A sum of the times during which a condition held.
#[derive(Clone, Copy, Debug, Default)]
struct BusyTime {
    since: Option<Instant>,
    total: Duration,
}

impl BusyTime {
    fn begin(&mut self, now: Instant) {
        self.since = self.since.or(Some(now));
    }

    fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.total += now.since(since);
        }
    }
}

impl Slots {
    /// Creates slots for that many builders, none of which has a free slot yet. Slots given back
    /// become free `batch` at a time: a decision that takes all of them then covers about as many
    /// events in one message. `batch` is at most the number of a builder's slots, or none would
    /// become free again.
    pub(super) fn new(builders: usize, policy: AssignmentPolicy, run_length: u32, batch: u32) -> Self {
        Self {
            policy,
            run_length,
            free: core::iter::repeat_n(0, builders).collect(),
            total: 0,
            batch,
            resting: core::iter::repeat_n(0, builders).collect(),
            last: BuilderIndex::new(builders.saturating_sub(1)),
            run_left: 0,
            all_busy: BusyTime::default(),
            busy: core::iter::repeat_n(BusyTime::default(), builders).collect(),
            closed: false,
        }
    }

    /// Adds a builder without free slots.
    pub(super) fn add_builder(&mut self) {
        self.free.push(0);
        self.resting.push(0);
        self.busy.push(BusyTime::default());
    }

    /// Returns the number of builders.
    pub(super) fn builders(&self) -> usize {
        self.free.len()
    }

    /// Returns the number of free slots of all builders together.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Sets the number of a builder's free slots.
    pub(super) fn set(&mut self, builder: BuilderIndex, free: u32, now: Instant) {
        let place = &mut self.free[builder];
        self.total = self.total - *place + free;
        *place = free;
        self.resting[builder] = 0;
        self.note(builder, now);
    }

    /// Takes a slot for the next event; returns `None` if there is none.
    pub(super) fn take(&mut self, now: Instant) -> Option<BuilderIndex> {
        if self.total == 0 {
            return None;
        }
        let chosen = if self.run_left > 0 && self.free[self.last] > 0 {
            self.run_left -= 1;
            self.last
        } else {
            self.run_left = self.run_length - 1;
            self.choose()
        };
        self.last = chosen;
        self.free[chosen] -= 1;
        self.total -= 1;
        if self.free[chosen] == 0 {
            self.note(chosen, now);
        }
        Some(chosen)
    }

    /// Gives a slot back.
    pub(super) fn give(&mut self, builder: BuilderIndex, now: Instant) {
        self.resting[builder] += 1;
        if self.resting[builder] < self.batch {
            return;
        }
        let (batch, was_free) = (core::mem::take(&mut self.resting[builder]), self.free[builder]);
        self.free[builder] += batch;
        self.total += batch;
        if was_free == 0 {
            self.note(builder, now);
        }
    }

    /// Notes that events begin: earlier time without a free slot does not count as busy.
    pub(super) fn open(&mut self) {
        self.all_busy = BusyTime::default();
        self.busy.iter_mut().for_each(|busy| *busy = BusyTime::default());
    }

    /// Notes that no more events come: time from now on does not count as busy.
    pub(super) fn close(&mut self, now: Instant) {
        self.closed = true;
        self.all_busy.end(now);
        self.busy.iter_mut().for_each(|busy| busy.end(now));
    }

    /// Returns the time for which no builder had a free slot.
    pub(super) fn all_busy(&self) -> Duration {
        self.all_busy.total
    }

    /// Returns the time for which that builder had no free slot.
    pub(super) fn busy(&self, builder: BuilderIndex) -> Duration {
        self.busy[builder].total
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub(super) fn invariants(&self) {
        assert_eq!(self.free.iter().sum::<u32>(), self.total, "{self:?}");
        assert!(
            self.resting.iter().all(|resting| *resting < self.batch),
            "a batch that rests is free: {self:?}"
        );
    }

    /// Returns a builder with a free slot, in turn after the last one; there is one.
    fn choose(&self) -> BuilderIndex {
        let (count, next) = (self.free.len(), self.last.get() + 1);
        let mut in_turn = (next..count).chain(0..next.min(count)).map(BuilderIndex::new);
        match self.policy {
            AssignmentPolicy::RoundRobin => in_turn.find(|at| self.free[*at] > 0),
            // `max_by_key` prefers the last of equals, but in turn the first is right.
            AssignmentPolicy::LeastLoaded => in_turn.rev().max_by_key(|at| self.free[*at]),
        }
        .unwrap_or(self.last)
    }

    fn note(&mut self, builder: BuilderIndex, now: Instant) {
        if self.closed {
            return;
        }
        let busy = &mut self.busy[builder];
        if self.free[builder] == 0 {
            busy.begin(now)
        } else {
            busy.end(now)
        }
        if self.total == 0 { self.all_busy.begin(now) } else { self.all_busy.end(now) }
    }
}
