//! [`Seats`]: the builders that a source has met in a run, and their lanes.

use crate::{
    id::{BuilderId, Incarnation},
    index::LaneIndex,
    wire::control::{MAX_BUILDERS, MalformedMessage},
};

/// The builders of a run in the order in which they first appeared in a roster. A builder's
/// position is the index of its lane for the whole run, even if the builder leaves and joins again.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    /// Builders in ascending order, each with its lane, for binary search.
    ranks: Vec<(BuilderId, LaneIndex)>,
}

#[derive(Debug)]
struct Seat {
    incarnation: Incarnation,
    is_listed: bool,
}

impl Seats {
    /// Returns a list with the builders of the first roster, which are ascending.
    pub(super) fn new(builders: &[BuilderId]) -> Self {
        let seat = |_: &BuilderId| Seat { incarnation: Incarnation::default(), is_listed: true };
        let ranks =
            builders.iter().enumerate().map(|(lane, builder)| (*builder, LaneIndex::new(lane))).collect();
        let mut new = Self { seats: builders.iter().map(seat).collect(), ranks };
        new.ranks.sort_unstable();
        new
    }

    /// Returns the number of builders that are or were in a roster.
    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// Returns the lane of a builder that is or was in a roster.
    pub(super) fn lane(&self, builder: BuilderId) -> Option<LaneIndex> {
        let rank = self.ranks.binary_search_by_key(&builder, |(id, _)| *id).ok()?;
        Some(self.ranks[rank].1)
    }

    /// Returns the builders that are or were in a roster, ascending, with their lanes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BuilderId, LaneIndex)> {
        self.ranks.iter().copied()
    }

    /// Returns true if the lane's builder is in the latest roster.
    pub(super) fn is_listed(&self, lane: LaneIndex) -> bool {
        self.seats[lane].is_listed
    }

    /// Applies a roster. Calls `over` for each lane that ends or begins again. Returns the number
    /// of new lanes.
    pub(super) fn publish(
        &mut self,
        roster: &[(BuilderId, Incarnation)],
        mut over: impl FnMut(LaneIndex),
    ) -> Result<usize, MalformedMessage> {
        let before = self.seats.len();
        let mut listed = vec![false; before];
        for (builder, incarnation) in roster {
            let Some(lane) = self.lane(*builder) else {
                if self.seats.len() == MAX_BUILDERS {
                    let problem = "the run has had more builders than it can have";
                    return Err(MalformedMessage { message: "Roster", problem });
                }
                let rank = self.ranks.partition_point(|(id, _)| id < builder);
                self.ranks.insert(rank, (*builder, LaneIndex::new(self.seats.len())));
                self.seats.push(Seat { incarnation: *incarnation, is_listed: true });
                continue;
            };
            let seat = &mut self.seats[lane];
            // The first roster only sets the incarnations of the builders that the source began
            // with.
            let is_same = seat.incarnation == *incarnation || seat.incarnation == Incarnation::default();
            seat.incarnation = *incarnation;
            if seat.is_listed && !is_same {
                over(lane);
            }
            seat.is_listed = true;
            if let Some(listed) = listed.get_mut(lane.get()) {
                *listed = true;
            }
        }
        for lane in (0..before).filter(|lane| !listed[*lane]) {
            if core::mem::take(&mut self.seats[lane].is_listed) {
                over(LaneIndex::new(lane));
            }
        }
        Ok(self.seats.len() - before)
    }
}
