//! [`Jury`]: the vote of all clocks about a slip that one clock has beside another.

use super::{
    super::{case::Case, gathered::Gathered, survey::Survey},
    judge::shift_of,
};
use crate::index::ClockIndex;

/// Result of the vote: the largest group of clocks that agree with each other is right. The builder
/// that doubts may know only few clocks, and believe the one that slipped.
pub(super) struct Jury {
    /// The clock that slipped.
    pub(super) accused: ClockIndex,
    /// A clock of the largest group.
    pub(super) ruler: ClockIndex,
    /// True if two groups are equal; `None` if no other clock says anything.
    pub(super) is_tie: Option<bool>,
}

impl Jury {
    /// Lets the clocks vote about `clock`, which slipped by `slip` beside `ruler` from the event
    /// `since` on.
    pub(super) fn new(
        survey: &Survey,
        gathered: &Gathered,
        [clock, ruler]: [ClockIndex; 2],
        (slip, since): (i64, u64),
    ) -> Self {
        // The shifts of all clocks beside the ruler.
        let shift = |clock| Some((clock, shift_of(&Case::new(survey, gathered, clock, ruler, since)?)?));
        let others = ClockIndex::all(survey.len()).filter(|other| ![clock, ruler].contains(other));
        let mut shifts = vec![(ruler, 0), (clock, slip)];
        shifts.extend(others.filter_map(shift));
        let group_size = |shift: i64| shifts.iter().filter(|(_, other)| *other == shift).count();
        // Clocks with the same shift agree with each other. Without a larger group, that of the
        // ruler is right.
        let largest = shifts.iter().map(|(_, shift)| *shift).max_by_key(|shift| group_size(*shift));
        let right_shift = largest.filter(|shift| group_size(*shift) > group_size(0)).unwrap_or(0);
        let group = shifts.iter().filter(|(_, shift)| *shift == right_shift).map(|(clock, _)| *clock);
        let trusted = survey.best_ruler(group).filter(|_| right_shift != 0).unwrap_or(ruler);
        let accused = if right_shift == slip { ruler } else { clock };
        let is_even = |(_, shift): &(ClockIndex, i64)| {
            *shift != right_shift && group_size(*shift) == group_size(right_shift)
        };
        let is_tie = (shifts.len() > 2).then(|| shifts.iter().any(is_even));
        Self { accused, ruler: trusted, is_tie }
    }
}
