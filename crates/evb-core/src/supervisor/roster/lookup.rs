//! [`Lookup`]: indexes of the builders' seats, so that the work for a message or a turn does not
//! grow with the number of builders.

#[cfg(test)]
mod tests;

use crate::{
    id::BuilderId,
    index::{BuilderIndex, Per},
    supervisor::{
        builders::BuilderSet,
        seats::{BuilderSeat, Leaving},
    },
};

/// Indexes of the builders' seats.
#[derive(Clone, Debug, Default)]
pub(in crate::supervisor) struct Lookup {
    /// Positions of the builders, ascending by id. Builders that were added during the run stand at
    /// the end of the roster, so that positions do not ascend with ids.
    by_id: Vec<(BuilderId, BuilderIndex)>,
    /// Builders that were asked to leave and not yet for their report.
    asked: BuilderSet,
    /// Builders that join during the run.
    joining: BuilderSet,
}

impl Lookup {
    pub(super) fn add(&mut self, id: BuilderId, index: BuilderIndex) {
        let place = self.by_id.partition_point(|(other, _)| *other < id);
        self.by_id.insert(place, (id, index));
    }

    pub(super) fn find(&self, id: BuilderId) -> Option<BuilderIndex> {
        let place = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.by_id.get(place).map(|(_, index)| *index)
    }

    /// Returns the builders that were asked to leave and not yet for their report.
    pub(in crate::supervisor) fn asked(&self) -> &BuilderSet {
        &self.asked
    }

    /// Returns the builders that join during the run.
    pub(in crate::supervisor) fn joining(&self) -> &BuilderSet {
        &self.joining
    }

    /// Enters a builder's present state; call this after each change of the seat's fields `leaving`
    /// and `joining`.
    pub(super) fn note(&mut self, index: BuilderIndex, seat: &BuilderSeat) {
        let enter = |set: &mut BuilderSet, is_in| {
            if is_in { set.insert(index) } else { set.remove(index) }
        };
        enter(&mut self.asked, seat.leaving == Leaving::Asked);
        enter(&mut self.joining, seat.joining.is_some());
    }

    /// Returns true if the indexes are those of `seats`.
    pub(super) fn agrees(&self, seats: &Per<BuilderIndex, BuilderSeat>) -> bool {
        let where_is =
            |holds: fn(&BuilderSeat) -> bool| seats.positions().filter(move |index| holds(&seats[*index]));
        self.by_id.is_sorted_by(|(a, _), (b, _)| a < b)
            && self.by_id.len() == seats.len()
            && seats.positions().all(|index| self.find(seats[index].id) == Some(index))
            && where_is(|seat| seat.leaving == Leaving::Asked).eq(self.asked.iter())
            && where_is(|seat| seat.joining.is_some()).eq(self.joining.iter())
    }
}
