//! [`Owing`]: the sources that owe events no fragments.

use core::time::Duration;

use crate::{
    index::SourceIndex,
    set::SourceSet,
    supervisor::{
        RunPlan,
        nonsense::{Nonsense, nonsense},
    },
};

/// The excluded sources, the expendable ones, and the sporadic ones.
#[derive(Clone, Debug, Default)]
pub(in crate::supervisor) struct Owing {
    /// Sources that owe the next event nothing.
    excluded: SourceSet,
    /// Those of `excluded` for which earlier events do not wait either.
    released: SourceSet,
    /// Sources without which events are complete.
    pub(super) expendable: SourceSet,
    /// Those of `expendable` that send fragments of some events only.
    pub(super) sporadic: SourceSet,
    /// Time for which an event that has all other fragments waits for sporadic sources.
    pub(super) sporadic_wait: Duration,
}

impl Owing {
    /// Returns which sources owe the first event nothing, by the plan.
    pub(super) fn of(plan: &RunPlan) -> Self {
        let all = plan.sources.iter().enumerate();
        let excluded = all.clone().filter(|(_, id)| plan.excluded.contains_key(id));
        let excluded: SourceSet = excluded.map(|(index, _)| index).collect();
        let sporadic = all.clone().filter(|(_, id)| plan.sporadic.contains_key(id));
        let sporadic: SourceSet = sporadic.map(|(index, _)| index).collect();
        let expendable = all.filter(|(_, id)| plan.expendable.contains(id)).map(|(index, _)| index);
        let expendable = expendable.collect::<SourceSet>().union(&sporadic);
        let sporadic_wait = plan.sporadic.values().max().copied().unwrap_or_default();
        Self { released: excluded.clone(), excluded, expendable, sporadic, sporadic_wait }
    }

    pub(in crate::supervisor) fn excluded(&self) -> &SourceSet {
        &self.excluded
    }

    pub(in crate::supervisor) fn released(&self) -> &SourceSet {
        &self.released
    }

    pub(in crate::supervisor) fn is_sporadic(&self, index: SourceIndex) -> bool {
        self.sporadic.contains(index.get())
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
