//! Methods of [`Roster`] for the sources that owe no fragments: excluded and expendable ones.

use super::{Roster, SourceSeat};
use crate::{
    id::SourceId,
    index::SourceIndex,
    set::SourceSet,
    supervisor::{RunPlan, outbox::Outbox},
};

impl Roster {
    /// Adopts from the plan which sources are expendable, and which are excluded from the first
    /// event on.
    pub(super) fn adopt_owing(&mut self, plan: &RunPlan) {
        self.expendable =
            plan.expendable.iter().filter_map(|id| self.source_index(*id)).map(SourceIndex::get).collect();
        self.excluded =
            plan.excluded.keys().filter_map(|id| self.source_index(*id)).map(SourceIndex::get).collect();
        self.released = self.excluded.clone();
    }

    /// Returns the sources that owe the next event nothing.
    pub(in crate::supervisor) fn excluded(&self) -> &SourceSet {
        &self.excluded
    }

    /// Returns those of the excluded sources for which earlier events do not wait either.
    pub(in crate::supervisor) fn released(&self) -> &SourceSet {
        &self.released
    }

    pub(in crate::supervisor) fn is_excluded(&self, index: SourceIndex) -> bool {
        self.excluded.contains(index.get())
    }

    pub(in crate::supervisor) fn is_expendable(&self, index: SourceIndex) -> bool {
        self.expendable.contains(index.get())
    }

    /// Returns true if events owe a fragment of that source, so that a run may wait for it.
    pub(in crate::supervisor) fn owes(&self, index: SourceIndex) -> bool {
        !self.is_excluded(index) && !self.is_expendable(index)
    }

    /// Excludes a source from the next event on. Earlier events do not wait for it any more, if
    /// `releases` says so.
    pub(in crate::supervisor) fn exclude(&mut self, index: SourceIndex, releases: bool) {
        self.excluded.insert(index.get());
        self.awaited.remove(index.get());
        if releases {
            self.released.insert(index.get());
        }
    }

    /// Includes a source from the next event on. `is_awaited` is true if events wait for it
    /// although it is down, or its readout is quiet.
    pub(in crate::supervisor) fn include(&mut self, index: SourceIndex, is_awaited: bool) {
        self.excluded.remove(index.get());
        self.released.remove(index.get());
        if is_awaited {
            self.awaited.insert(index.get());
        }
    }

    /// Returns the sources that are up and not excluded.
    pub(in crate::supervisor) fn contributing(&self) -> SourceSet {
        self.up.without(&self.excluded)
    }

    /// Returns the seats of the sources without which a run does not begin.
    pub(super) fn needed_sources(&self) -> impl Iterator<Item = &SourceSeat> {
        self.sources.iter().filter(|seat| self.is_needed(seat.id))
    }

    /// Returns true if a run does not begin without that source.
    pub(in crate::supervisor) fn is_needed(&self, id: SourceId) -> bool {
        self.source_index(id).is_some_and(|index| self.owes(index))
    }

    /// Sends later decisions to the sources that are up, under the present roster version.
    pub(in crate::supervisor) fn address(&self, outbox: &mut Outbox) {
        outbox.address(self.contributing(), self.up.intersection(&self.excluded), self.version);
    }
}
