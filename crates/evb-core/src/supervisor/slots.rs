//! [`Slots`]: keeps the free slots of builders, chooses the builder of the next event, and measures
//! the time without free slots.

mod free;
#[cfg(test)]
mod tests;

use core::time::Duration;

use free::Free;

use super::plan::AssignmentPolicy;
use crate::{
    index::{BuilderIndex, Per},
    time::Instant,
};

/// The free slots of all builders.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    run_length: u32,
    /// Number of free slots of each builder; zero for a builder that gets no events.
    free: Per<BuilderIndex, u32>,
    /// The builders that have free slots.
    builders: Free,
    total: u32,
    /// Number of returned slots that become free together.
    batch: u32,
    /// Number of returned slots of each builder that are not free yet.
    resting: Per<BuilderIndex, u32>,
    /// Builder that got the last event.
    last: BuilderIndex,
    run_left: u32,
    all_busy: BusyTime,
    busy: Per<BuilderIndex, BusyTime>,
    /// True if no more triggers will come.
    closed: bool,
}

/// Total time for which a condition held.
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
    /// Creates the slots of that many builders; no builder has a free slot yet. Returned slots
    /// become free `batch` at a time, so that one message can assign that many events. `batch` must
    /// be at most the number of a builder's slots; otherwise no slot would become free again.
    pub(super) fn new(builders: usize, policy: AssignmentPolicy, run_length: u32, batch: u32) -> Self {
        Self {
            run_length,
            free: core::iter::repeat_n(0, builders).collect(),
            builders: Free::new(policy),
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

    /// Sets the number of free slots of a builder.
    pub(super) fn set(&mut self, builder: BuilderIndex, free: u32, now: Instant) {
        self.change(builder, free);
        self.resting[builder] = 0;
        self.note(builder, now);
    }

    /// Takes a free slot for the next event; returns its builder, or `None` if no slot is free.
    pub(super) fn take(&mut self, now: Instant) -> Option<BuilderIndex> {
        if self.total == 0 {
            return None;
        }
        // Some events in a row go to one builder, as many as the plan says.
        let chosen = if self.run_left > 0 && self.free[self.last] > 0 {
            self.run_left -= 1;
            self.last
        } else {
            self.run_left = self.run_length - 1;
            self.builders.choose(self.last, &self.free).unwrap_or(self.last)
        };
        self.last = chosen;
        self.change(chosen, self.free[chosen] - 1);
        if self.free[chosen] == 0 {
            self.note(chosen, now);
        }
        Some(chosen)
    }

    /// Returns a slot to the builder; it becomes free with the other slots of its batch.
    pub(super) fn give(&mut self, builder: BuilderIndex, now: Instant) {
        self.resting[builder] += 1;
        if self.resting[builder] < self.batch {
            return;
        }
        let (batch, was_free) = (core::mem::take(&mut self.resting[builder]), self.free[builder]);
        self.change(builder, was_free + batch);
        if was_free == 0 {
            self.note(builder, now);
        }
    }

    /// Notes that events can now be assigned: time before this does not count as busy.
    pub(super) fn open(&mut self) {
        self.all_busy = BusyTime::default();
        self.busy.iter_mut().for_each(|busy| *busy = BusyTime::default());
    }

    /// Notes that no more events will be assigned: time after this does not count as busy.
    pub(super) fn close(&mut self, now: Instant) {
        self.closed = true;
        self.all_busy.end(now);
        self.busy.iter_mut().for_each(|busy| busy.end(now));
    }

    /// Returns the time for which no builder had a free slot.
    pub(super) fn all_busy(&self) -> Duration {
        self.all_busy.total
    }

    /// Returns the time for which `builder` had no free slot.
    pub(super) fn busy(&self, builder: BuilderIndex) -> Duration {
        self.busy[builder].total
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        assert_eq!(self.free.iter().sum::<u32>(), self.total, "{self:?}");
        assert!(self.builders.agrees(self.free.iter().copied()), "{self:?}");
        assert!(
            self.resting.iter().all(|resting| *resting < self.batch),
            "fewer returned slots wait than a batch has: {self:?}"
        );
    }

    fn change(&mut self, builder: BuilderIndex, free: u32) {
        let before = core::mem::replace(&mut self.free[builder], free);
        self.total = self.total - before + free;
        self.builders.change(builder, before, free);
    }

    /// Notes for the dead time whether the builder has no free slot, and whether no builder has
    /// one.
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
