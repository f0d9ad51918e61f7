//! [`Owing`]: the sources that owe events no fragments.

use crate::{
    index::SourceIndex,
    set::SourceSet,
    supervisor::{
        RunPlan,
        nonsense::{Nonsense, nonsense},
    },
};

/// The excluded sources, and the expendable ones.
#[derive(Clone, Debug, Default)]
pub(in crate::supervisor) struct Owing {
    /// Sources that owe the next event nothing.
    excluded: SourceSet,
    /// Those of `excluded` for which earlier events do not wait either.
    released: SourceSet,
    /// Sources without which events are complete.
    expendable: SourceSet,
}

impl Owing {
    /// Returns which sources owe the first event nothing, by the plan.
    pub(super) fn of(plan: &RunPlan) -> Self {
        let all = plan.sources.iter().enumerate();
        let excluded = all.clone().filter(|(_, id)| plan.excluded.contains_key(id));
        let excluded: SourceSet = excluded.map(|(index, _)| index).collect();
        let expendable = all.filter(|(_, id)| plan.expendable.contains(id)).map(|(index, _)| index);
        Self { released: excluded.clone(), excluded, expendable: expendable.collect() }
    }

    pub(in crate::supervisor) fn excluded(&self) -> &SourceSet {
        &self.excluded
    }

    pub(in crate::supervisor) fn released(&self) -> &SourceSet {
        &self.released
    }

    pub(in crate::supervisor) fn expendable(&self) -> &SourceSet {
        &self.expendable
    }

    pub(in crate::supervisor) fn is_excluded(&self, index: SourceIndex) -> bool {
        self.excluded.contains(index.get())
    }

    pub(in crate::supervisor) fn is_expendable(&self, index: SourceIndex) -> bool {
        self.expendable.contains(index.get())
    }

    /// Returns true if the next event is owed a fragment of that source, so that a run may wait for
    /// it.
    pub(in crate::supervisor) fn owes(&self, index: SourceIndex) -> bool {
        !self.is_excluded(index) && !self.is_expendable(index)
    }

    /// Excludes a source from the next event on. Earlier events do not wait for it any more, if
    /// `releases` says so.
    pub(super) fn exclude(&mut self, index: SourceIndex, releases: bool) {
        self.excluded.insert(index.get());
        if releases {
            self.released.insert(index.get());
        }
    }

    /// Includes a source from the next event on.
    pub(super) fn include(&mut self, index: SourceIndex) {
        self.excluded.remove(index.get());
        self.released.remove(index.get());
    }

    /// Restores the excluded sources from the journal.
    pub(super) fn recall(&mut self, excluded: SourceSet, released: SourceSet) -> Result<(), Nonsense> {
        if !excluded.is_superset(&released) {
            return nonsense("a source is released that is not excluded");
        }
        (self.excluded, self.released) = (excluded, released);
        Ok(())
    }
}
