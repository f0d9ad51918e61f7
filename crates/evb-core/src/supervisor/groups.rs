//! [`Group`]: a named group of sources, of which a least number must take part in a run.

use std::collections::BTreeSet;

use crate::{id::SourceId, index::SourceIndex, set::SourceSet};

/// A group of sources. While fewer than the least number of them take part, the run takes no
/// triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group: 1 to 64 bytes without control characters.
    pub name: String,
    /// Sources of the group.
    pub sources: BTreeSet<SourceId>,
    /// Least number of these sources; 0 if the group only has a name.
    pub at_least: u32,
}

/// Reason why a run takes no triggers: too few sources of a group take part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{present} of at least {at_least} sources of group {group} take part; see in `evbd ctl status` which are missing, and start or include them, or lower `at_least`"
)]
pub struct TooFew {
    /// Name of the group.
    pub group: String,
    /// Number of the group's sources that take part.
    pub present: u32,
    /// Least number of them.
    pub at_least: u32,
}

/// A group of which too few sources take part: its place in the plan, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shortage {
    pub(super) group: u16,
    pub(super) present: u16,
}

impl Shortage {
    /// Returns the shortage in words; `None` if the plan has no such group.
    pub(super) fn named(self, groups: &[Group]) -> Option<TooFew> {
        let group = groups.get(usize::from(self.group))?;
        Some(TooFew { group: group.name.clone(), present: self.present.into(), at_least: group.at_least })
    }
}

/// The groups of a run, as sets of positions in the roster.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    sets: Vec<SourceSet>,
    shortage: Option<Shortage>,
}

impl Groups {
    /// Returns the groups of a run with these sources.
    pub(super) fn new(groups: &[Group], sources: &[SourceId]) -> Self {
        let set = |group: &Group| {
            let members = sources.iter().enumerate().filter(|(_, id)| group.sources.contains(id));
            members.map(|(index, _)| index).collect()
        };
        Self { sets: groups.iter().map(set).collect(), shortage: None }
    }

    /// Returns the group because of which the run takes no triggers now.
    #[inline]
    pub(super) fn shortage(&self) -> Option<Shortage> {
        self.shortage
    }

    pub(super) fn set_shortage(&mut self, shortage: Option<Shortage>) {
        self.shortage = shortage;
    }

    /// Returns the number of sources of a group that take part by this rule.
    pub(super) fn present(&self, group: usize, takes_part: impl Fn(SourceIndex) -> bool) -> u32 {
        self.sets[group].iter().filter(|index| takes_part(SourceIndex::new(*index))).count() as u32
    }

    /// Returns the first group of which too few sources take part by this rule.
    pub(super) fn find_short(
        &self,
        groups: &[Group],
        takes_part: impl Fn(SourceIndex) -> bool,
    ) -> Option<Shortage> {
        let mut counted = groups.iter().enumerate().filter(|(_, group)| group.at_least > 0);
        counted.find_map(|(place, group)| {
            let present = self.present(place, &takes_part);
            let is_short = present < group.at_least;
            is_short.then_some(Shortage { group: place as u16, present: present as u16 })
        })
    }
}
