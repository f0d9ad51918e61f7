//! Counts of a builder's events by outcome, as the supervisor counts them and writes them to its
//! journal.
//!
//! `lost` are events that the builder reported as lost, `lost_with_it` those that were lost when it
//! died, or that it never settled. `moved` are events that were given to another builder, and
//! `faults` are completions that it sent for events that it did not have.

use super::nonsense::{Nonsense, count, nonsense, total};
use crate::wire::journal::BuilderCounts;

impl BuilderCounts {
    /// Returns the number of the builder's outstanding events.
    pub(super) fn outstanding(&self) -> u64 {
        let settled = self.complete + self.incomplete + self.rejected + self.all_lost();
        self.assigned - settled - self.moved
    }

    /// Returns the number of events that the builder's sinks accepted, according to the ledger.
    pub(super) fn accepted(&self) -> u64 {
        self.complete + self.incomplete
    }

    /// Returns the number of events that the builder reported as lost, or that were lost when it
    /// died.
    pub(super) fn all_lost(&self) -> u64 {
        self.lost + self.lost_with_it
    }

    /// Returns the sums of these counts and the `other` ones.
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            assigned: self.assigned + other.assigned,
            complete: self.complete + other.complete,
            incomplete: self.incomplete + other.incomplete,
            rejected: self.rejected + other.rejected,
            lost: self.lost + other.lost,
            moved: self.moved + other.moved,
            lost_with_it: self.lost_with_it + other.lost_with_it,
            faults: self.faults + other.faults,
        }
    }

    /// Checks counts from the journal.
    pub(super) fn checked(self) -> Result<Self, Nonsense> {
        let Self { assigned, complete, incomplete, rejected, lost, moved, lost_with_it, faults } = self;
        if total([complete, incomplete, rejected, lost, moved, lost_with_it])? > count(assigned)? {
            return nonsense("a builder has settled more events than were assigned to it");
        }
        count(faults)?;
        Ok(self)
    }
}
