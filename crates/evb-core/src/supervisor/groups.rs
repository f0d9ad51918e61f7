//! [`Group`]: a named group of sources, of which a least number must take part in a run.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{
    ChangeError, GroupSurvey, NotReady, RunPlan, SupervisorCore, beginning::lacks_front_end, roster::Roster,
};
use crate::{id::SourceId, index::SourceIndex, set::SourceSet, time::Instant};

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
    "{present} of at least {at_least} sources of group {group} take part; start or include more of them, or lower `at_least`"
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
    pub(super) fn new(plan: &RunPlan) -> Self {
        let set = |group: &Group| {
            let members = plan.sources.iter().enumerate().filter(|(_, id)| group.sources.contains(id));
            members.map(|(index, _)| index).collect()
        };
        Self { sets: plan.groups.iter().map(set).collect(), shortage: None }
    }

    /// Returns the group because of which the run takes no triggers now.
    #[inline]
    pub(super) fn shortage(&self) -> Option<Shortage> {
        self.shortage
    }

    /// Returns the number of sources of a group that take part by this rule.
    fn present(&self, group: usize, takes_part: impl Fn(SourceIndex) -> bool) -> u32 {
        Roster::positions(&self.sets[group]).filter(|index| takes_part(*index)).count() as u32
    }

    /// Returns the first group of which too few sources take part by this rule.
    fn find_short(&self, groups: &[Group], takes_part: impl Fn(SourceIndex) -> bool) -> Option<Shortage> {
        let mut counted = groups.iter().enumerate().filter(|(_, group)| group.at_least > 0);
        counted.find_map(|(place, group)| {
            let present = self.present(place, &takes_part);
            let is_short = present < group.at_least;
            is_short.then_some(Shortage { group: place as u16, present: present as u16 })
        })
    }
}

/// The supervisor while it counts the sources of groups.
#[derive(Debug)]
pub(super) struct LeastNumbers<'a> {
    pub(super) core: &'a mut SupervisorCore,
}

impl LeastNumbers<'_> {
    /// Counts again, after sources have come or gone, or time has passed.
    pub(super) fn count(&mut self, now: Instant) {
        let core = &mut *self.core;
        if core.plan.groups.is_empty() || !core.phase.is_running() {
            return;
        }
        let start = core.books.times().started;
        let is_early = start.is_some_and(|start| now < start + core.plan.start_timeout);
        let found =
            core.groups.find_short(&core.plan.groups, |index| takes_part(&core.roster, index, is_early));
        let before = core.groups.shortage.map(|shortage| shortage.group);
        core.groups.shortage = found;
        if before == found.map(|shortage| shortage.group) {
            return;
        }
        let run = core.plan.run;
        match found.and_then(|shortage| shortage.named(&core.plan.groups)) {
            Some(reason) => {
                tracing::warn!(%run, group = reason.group, "run {run} takes no triggers: {reason}");
            }
            None => tracing::info!(%run, "enough sources of every group take part in run {run} again"),
        }
        core.pulse.hasten(now);
    }

    /// Checks that a run can begin.
    ///
    /// # Errors
    /// Returns the group of which too few sources are connected and included.
    pub(super) fn check_start(&self) -> Result<(), NotReady> {
        let Some(reason) = too_few_to_begin(self.core) else { return Ok(()) };
        Err(NotReady::TooFew(reason))
    }

    /// Checks that a run can be resumed.
    ///
    /// # Errors
    /// Returns the group of which too few sources take part.
    pub(super) fn check_resume(&self) -> Result<(), ChangeError> {
        let core = &self.core;
        let short = core.groups.shortage.and_then(|shortage| shortage.named(&core.plan.groups));
        short.map_or(Ok(()), |reason| Err(ChangeError::TooFew(reason)))
    }
}

/// Returns the group because of which the run cannot begin: before the run, sources take part that
/// are connected to all builders and not excluded.
pub(super) fn too_few_to_begin(core: &SupervisorCore) -> Option<TooFew> {
    let roster = &core.roster;
    let takes_part =
        |index: SourceIndex| roster.source(index).is_ready() && !roster.owing().is_excluded(index);
    core.groups.find_short(&core.plan.groups, takes_part)?.named(&core.plan.groups)
}

/// Returns true if a run that is under way takes no triggers: an operator or a slip has paused it, or
/// too few sources of a group take part.
pub(super) fn is_paused(core: &SupervisorCore) -> bool {
    core.intake.is_paused() || core.groups.shortage.is_some()
}

/// Checks that the shortage is that of the present roster, for tests and the simulator. What only
/// depends on the time is not checked: readouts that have not connected.
///
/// # Panics
/// Panics if an invariant does not hold, which is a defect of evb.
pub(super) fn invariants(core: &SupervisorCore) {
    if !core.phase.is_running() || core.due.roster {
        return;
    }
    let found = |is_early| {
        core.groups.find_short(&core.plan.groups, |index| takes_part(&core.roster, index, is_early))
    };
    let shortage = core.groups.shortage;
    assert!(shortage == found(true) || shortage == found(false), "{shortage:?}: {:?}", core.roster);
}

/// Returns the state of every group, for operators.
pub(super) fn survey(core: &SupervisorCore) -> Vec<GroupSurvey> {
    let present = |group| core.groups.present(group, |index| takes_part(&core.roster, index, false));
    let groups = core.plan.groups.iter().enumerate().map(|(place, group)| GroupSurvey {
        name: group.name.clone(),
        sources: group.sources.iter().map(|id| id.number()).collect(),
        at_least: group.at_least,
        present: present(place),
    });
    groups.collect()
}

/// Returns true if a source takes part in the run: it is up, not excluded, and has a readout.
/// Early in the run, a readout may still be starting. A readout that is silent is connected, and
/// could deliver nothing while the run takes no triggers, so it counts.
fn takes_part(roster: &Roster, index: SourceIndex, is_early: bool) -> bool {
    roster.is_up(index)
        && !roster.owing().is_excluded(index)
        && !roster.readouts().is_gone(index)
        && (is_early || !lacks_front_end(roster.source(index).readout))
}
