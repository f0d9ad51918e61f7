//! The findings about the announcements of a run's triggers.

use crate::{
    quantities::counted,
    trigger::{announcement::MAX_COUNT, numbers::AnnouncementCounts},
};

/// Returns the problems of a run with these announcements.
pub(super) fn problems(counts: &AnnouncementCounts) -> Vec<String> {
    let AnnouncementCounts { repeated, restarts, too_far_ahead, .. } = *counts;
    let restarted = (restarts > 0).then(|| {
        format!(
            "the trigger program began to count again, and {repeated} of its announcements were ignored, so no events were built for them: start a new run together with the trigger program"
        )
    });
    let leaps = (too_far_ahead > 0).then(|| {
        format!(
            "evb ignored {} of triggers more than {MAX_COUNT} ahead of the last one, and built no event from that: let the trigger program count from 1 at the start of the run, in steps of 1",
            counted(too_far_ahead, "announcement")
        )
    });
    restarted.into_iter().chain(leaps).collect()
}

/// Returns the remarks on a run with these announcements.
pub(super) fn remarks(counts: &AnnouncementCounts) -> Vec<String> {
    let AnnouncementCounts { unannounced, repeated, restarts, before_start, .. } = *counts;
    let remark =
        |count: u64, noun: &str, what: &str| (count > 0).then(|| format!("{} {what}", counted(count, noun)));
    [
        remark(
            unannounced,
            "announcement",
            "of the trigger program did not arrive: evb took the missing triggers with the next one, so no event is lost",
        ),
        remark(
            if restarts == 0 { repeated } else { 0 },
            "announcement",
            "of the trigger program arrived again: evb ignored the copies, so no event is lost",
        ),
        remark(
            before_start,
            "trigger",
            "came before the run began and made no event: start the trigger program after the run",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
