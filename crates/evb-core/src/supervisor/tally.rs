//! [`BuilderTally`]: counts of a builder's events by outcome.

use super::nonsense::{Nonsense, count, nonsense, total};
use crate::wire::journal::BuilderCounts;

/// Counts of a builder's events by outcome, as the supervisor counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BuilderTally {
    pub(super) assigned: u64,
    pub(super) complete: u64,
    pub(super) incomplete: u64,
    pub(super) rejected: u64,
    /// Events that the builder reported as lost.
    pub(super) lost: u64,
    /// Events that were given to another builder.
    pub(super) moved: u64,
    /// Events that were lost when the builder died, or that it never settled.
    pub(super) lost_with_it: u64,
    /// Completions that the builder sent for events that it did not have.
    pub(super) faults: u64,
}

impl BuilderTally {
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

    /// Returns the counts as a message for the journal.
    pub(super) fn message(&self) -> BuilderCounts {
        let Self { assigned, complete, incomplete, rejected, lost, moved, lost_with_it, faults } = *self;
        BuilderCounts { assigned, complete, incomplete, rejected, lost, moved, lost_with_it, faults }
    }

    /// Reads counts from the journal.
    pub(super) fn recall(counts: Option<&BuilderCounts>) -> Result<Self, Nonsense> {
        let counts = counts.copied().unwrap_or_default();
        let BuilderCounts { assigned, complete, incomplete, rejected, lost, moved, lost_with_it, faults } =
            counts;
        if total([complete, incomplete, rejected, lost, moved, lost_with_it])? > count(assigned)? {
            return nonsense("a builder has settled more events than were assigned to it");
        }
        let faults = count(faults)?;
        Ok(Self { assigned, complete, incomplete, rejected, lost, moved, lost_with_it, faults })
    }
}
