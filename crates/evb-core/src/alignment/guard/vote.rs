//! The vote of the clocks about an event on which they disagree: the largest group of clocks that
//! agree with each other is right.

use super::{Guard, Ruled, Watched};
use crate::time::Instant;

/// Number of disagreeing clocks that are tried as the judge, so that the cost stays linear.
const JUDGES: usize = 8;

/// Result of a vote.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vote {
    /// Time of the event by the majority, if the ruling clock is wrong.
    pub(super) at: Option<i64>,
    /// Uncertainty of that time.
    pub(super) room: f64,
    /// True if the two sides are equal.
    pub(super) is_tie: bool,
}

impl Guard {
    /// Lets the locked clocks vote. The clocks that agree with the ruling clock vote for its time;
    /// of the others, the largest group that agrees within itself has one time, which wins with
    /// more votes.
    pub(super) fn vote(&self, host: Instant, readings: &[Option<u64>], ruled: &Ruled) -> Vote {
        // A time that far from that of the trigger on the host cannot be the time of this event.
        let leaps = ruled.at.wrapping_sub(self.near(host)).unsigned_abs() > self.leap;
        let voters = || {
            let all = self.watched.iter().zip(readings).enumerate();
            all.filter_map(|(position, (watched, reading))| {
                watched.track.is_locked().then_some((position, watched, (*reading)?))
            })
        };
        let is_against = |position: usize, watched: &Watched| {
            position != ruled.by && (leaps || watched.residual.abs() > watched.limit)
        };
        let against = || voters().filter(|(position, watched, _)| is_against(*position, watched));
        if against().next().is_none() {
            return Vote::default();
        }
        // A clock whose limit is as large as the disagreement cannot tell who is right.
        let largest = against().map(|(_, watched, _)| watched.residual.abs()).fold(0.0, f64::max);
        let tells = |position: usize, watched: &Watched| position == ruled.by || watched.limit < largest;
        let for_ruler = voters()
            .filter(|(position, watched, _)| !is_against(*position, watched) && tells(*position, watched))
            .count();
        // A ruling clock that leaps gets no votes, not even its own.
        let for_ruler = if leaps { 0 } else { for_ruler };
        let (mut most_votes, mut at, mut room_of_judge) = (0, ruled.at, 0.0);
        // Each of the first few clocks is asked once which others agree with it.
        for (judge, watched, ticks) in
            against().filter(|(_, watched, _)| watched.scale.is_wide()).take(JUDGES)
        {
            let relation = &watched.track.relation;
            let (judged, _) = relation.time(&watched.scale, ticks, self.near(host));
            let room = relation.limit(&watched.scale, judged);
            let agrees = |watched: &Watched, ticks: u64| {
                let relation = &watched.track.relation;
                let residual = relation.residual(&watched.scale, ticks, judged);
                residual.abs() <= relation.limit(&watched.scale, judged) + room
            };
            // The judge belongs to its own group, whatever its residual is after rounding.
            let group = against()
                .filter(|(voter, watched, ticks)| *voter == judge || agrees(watched, *ticks))
                .count();
            if group > most_votes {
                (most_votes, at, room_of_judge) = (group, judged, room);
            }
        }
        Vote {
            at: (most_votes > for_ruler).then_some(at),
            room: room_of_judge,
            is_tie: most_votes == for_ruler,
        }
    }
}
