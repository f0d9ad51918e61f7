//! [`Free`]: the builders with free slots, in the order in which the policy chooses them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::{
    index::{BuilderIndex, Per},
    supervisor::plan::AssignmentPolicy,
};

/// The builders that have free slots. The next builder is found without a look at those that have
/// none, so that the cost of a decision does not grow with the builders.
#[derive(Clone, Debug)]
pub(super) enum Free {
    /// Builders for [`AssignmentPolicy::RoundRobin`].
    InTurn(BTreeSet<BuilderIndex>),
    /// Builders for [`AssignmentPolicy::LeastLoaded`], by their number of free slots.
    ByCount(BTreeSet<(u32, BuilderIndex)>),
}

impl Free {
    pub(super) fn new(policy: AssignmentPolicy) -> Self {
        match policy {
            AssignmentPolicy::RoundRobin => Self::InTurn(BTreeSet::new()),
            AssignmentPolicy::LeastLoaded => Self::ByCount(BTreeSet::new()),
        }
    }

    /// Notes that the number of a builder's free slots changes from `before` to `now`.
    #[inline]
    pub(super) fn change(&mut self, builder: BuilderIndex, before: u32, now: u32) {
        match self {
            Self::InTurn(set) => match (before > 0, now > 0) {
                (false, true) => {
                    set.insert(builder);
                }
                (true, false) => {
                    set.remove(&builder);
                }
                _ => {}
            },
            Self::ByCount(set) => {
                set.remove(&(before, builder));
                if now > 0 {
                    set.insert((now, builder));
                }
            }
        }
    }

    /// Returns the next builder in turn after `last`, of those that the policy prefers; `None` if
    /// no builder has a free slot. `free` contains the numbers of free slots.
    #[inline]
    pub(super) fn choose(&self, last: BuilderIndex, free: &Per<BuilderIndex, u32>) -> Option<BuilderIndex> {
        let next = BuilderIndex::new(last.get() + 1);
        match self {
            // Usually the next builder has a free slot, and no search is necessary.
            Self::InTurn(_) if free.get(next).is_some_and(|free| *free > 0) => Some(next),
            Self::InTurn(set) => set.range(next..).next().or_else(|| set.first()).copied(),
            Self::ByCount(set) => {
                let most = set.last()?.0;
                // After the last builder, the turn begins again at the first one.
                let behind = || set.range((most, BuilderIndex::new(0))..).next();
                set.range((most, next)..).next().or_else(behind).map(|(_, builder)| *builder)
            }
        }
    }

    /// Returns true if these are the builders that have free slots according to `free`.
    pub(super) fn agrees(&self, free: impl Iterator<Item = u32>) -> bool {
        let free = (0..).map(BuilderIndex::new).zip(free).filter(|(_, free)| *free > 0);
        match self {
            Self::InTurn(set) => set.iter().copied().eq(free.map(|(builder, _)| builder)),
            Self::ByCount(set) => {
                *set == free.map(|(builder, free)| (free, builder)).collect::<BTreeSet<_>>()
            }
        }
    }
}
