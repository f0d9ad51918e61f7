//! The findings about the announcements of a run's triggers.

use crate::trigger::{announcement::MAX_COUNT, numbers::AnnouncementCounts};

/// Returns the problems of a run with these announcements.
pub(super) fn problems(counts: &AnnouncementCounts) -> Vec<String> {
    let AnnouncementCounts { repeated, restarts, too_far_ahead, .. } = *counts;
    let restarted = (restarts > 0).then(|| {
        format!(
            "the trigger program began to count again, and {repeated} of its announcements were ignored: start a new run together with the trigger program"
        )
    });
    let leaps = (too_far_ahead > 0).then(|| {
        format!(
            "{too_far_ahead} trigger announcements were ignored, because their numbers were more than {MAX_COUNT} ahead: let the trigger program count from 1 at the start of the run, in steps of 1"
        )
    });
    restarted.into_iter().chain(leaps).collect()
}

/// Returns the remarks on a run with these announcements.
pub(super) fn remarks(counts: &AnnouncementCounts) -> Vec<String> {
    let AnnouncementCounts { unannounced, repeated, restarts, before_start, .. } = *counts;
    let remark = |what: &str, count: u64| (count > 0).then(|| format!("{what}: {count}"));
    [
        remark(
            "announcements of the trigger program that did not arrive, and whose triggers were taken with the next one (no event is lost)",
            unannounced,
        ),
        remark(
            "announcements of the trigger program that came again, and were ignored (no event is lost)",
            if restarts == 0 { repeated } else { 0 },
        ),
        remark("triggers that came before the run began, and were not taken (start the trigger program after the run)", before_start),
    ]
    .into_iter()
    .flatten()
    .collect()
}
