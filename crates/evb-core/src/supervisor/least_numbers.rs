//! Counts the sources of groups that take part in the run.

#[cfg(test)]
mod tests;

use super::{ChangeError, GroupSurvey, SupervisorCore, roster::Roster};
use crate::{index::SourceIndex, time::Instant};

/// Finds the first group of which too few sources take part, and logs a change. To be called after
/// sources have come or gone, or time has passed.
pub(super) fn count(core: &mut SupervisorCore, now: Instant) {
    if core.plan.groups.is_empty() || !core.phase.is_running() {
        return;
    }
    let is_early = is_early(core, now);
    let found =
        core.roster.groups.find_short(&core.plan.groups, |index| takes_part(&core.roster, index, is_early));
    let before = core.roster.groups.shortage().map(|shortage| shortage.group);
    core.roster.groups.set_shortage(found);
    if before == found.map(|shortage| shortage.group) {
        return;
    }
    let run = core.plan.run;
    match found.and_then(|shortage| shortage.named(&core.plan.groups)) {
        Some(reason) => {
            tracing::warn!(%run, group = reason.group, "run {run} takes no triggers until enough sources take part: {reason}");
        }
        None => {
            tracing::info!(%run, "enough sources of every group take part in run {run} again, and nothing needs to be done")
        }
    }
    core.pulse.hasten(now);
}

/// Checks that a run can be resumed.
///
/// # Errors
/// Returns the group of which too few sources take part.
pub(super) fn check_resume(core: &SupervisorCore) -> Result<(), ChangeError> {
    let short = core.roster.groups.shortage().and_then(|shortage| shortage.named(&core.plan.groups));
    short.map_or(Ok(()), |reason| Err(ChangeError::TooFew(reason)))
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
        core.roster.groups.find_short(&core.plan.groups, |index| takes_part(&core.roster, index, is_early))
    };
    let shortage = core.roster.groups.shortage();
    assert!(shortage == found(true) || shortage == found(false), "{shortage:?}: {:?}", core.roster);
}

/// Returns the state of every group, for operators.
pub(super) fn survey(core: &SupervisorCore, now: Instant) -> Vec<GroupSurvey> {
    let is_early = is_early(core, now);
    let present =
        |group| core.roster.groups.present(group, |index| takes_part(&core.roster, index, is_early));
    let groups = core.plan.groups.iter().enumerate().map(|(place, group)| GroupSurvey {
        name: group.name.clone(),
        sources: group.sources.iter().map(|id| id.number()).collect(),
        at_least: group.at_least,
        present: present(place),
    });
    groups.collect()
}

/// Returns true before the run, and for the time of a start after it has begun.
fn is_early(core: &SupervisorCore, now: Instant) -> bool {
    core.books.times().started.is_none_or(|start| now < start + core.plan.start_timeout)
}

/// Returns true if a source takes part in the run: it is up, not excluded, and has a readout.
/// Early in the run, a readout may still be starting. A readout that is silent is connected, and
/// could deliver nothing while the run takes no triggers, so it counts.
fn takes_part(roster: &Roster, index: SourceIndex, is_early: bool) -> bool {
    roster.is_up(index)
        && !roster.owing().is_excluded(index)
        && !roster.readouts().is_gone(index)
        && (is_early || !roster.source(index).lacks_front_end())
}
