//! [`Doubt`] and [`Survey`]: what a builder tells the supervisor when clocks disagree.

use core::cmp::Reverse;

use super::{
    relation::Relation,
    scale::{PER_NANOSECOND, Scale},
};
use crate::{id::EventId, index::ClockIndex, time::Instant};

/// A builder's doubt about the clock of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The clock.
    pub clock: ClockIndex,
    /// First event of the disagreements, among the events of this builder.
    pub first: EventId,
    /// True if the clock disagreed so often that it lost its vote.
    pub suspect: bool,
    /// True if as many clocks agreed with it as with the lead, so that
    /// either side may be right.
    pub tie: bool,
}

/// The relations of all clocks of a builder, at one event.
#[derive(Clone, Debug)]
pub struct Survey {
    pub(super) scales: Vec<Scale>,
    pub(super) relations: Vec<Known>,
    /// The clock that counts time.
    pub(super) lead: usize,
    pub(super) now: Present,
}

/// The time of the last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Present {
    /// The time by the lead.
    pub(super) lead: i64,
    /// The time by the host.
    pub(super) host: Instant,
}

/// A relation that a builder reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) relation: Relation,
    /// True if the clock was locked at some time, so that the relation is to be believed.
    pub(super) is_proven: bool,
    /// True if the last readings do not fit the relation.
    pub(super) is_suspect: bool,
}

impl Survey {
    /// Returns the number of clocks.
    pub fn len(&self) -> usize {
        self.relations.len()
    }

    /// Returns true if there are no clocks.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// Returns the clock that counts time.
    pub fn lead(&self) -> ClockIndex {
        ClockIndex::new(self.lead)
    }

    /// Returns the number of clocks whose relation is to be believed.
    pub fn proven(&self) -> usize {
        self.relations.iter().filter(|known| known.is_proven).count()
    }

    /// Returns true if the last readings of a clock do not fit its relation.
    pub fn is_suspect(&self, clock: ClockIndex) -> bool {
        self.relations.get(clock.get()).is_some_and(|known| known.is_suspect)
    }

    /// Returns true if a clock was believed at some time since it was to be learnt.
    pub(crate) fn is_proven(&self, clock: ClockIndex) -> bool {
        self.relations.get(clock.get()).is_some_and(|known| known.is_proven)
    }

    /// Returns the clock that serves as the ruler for a judgement about `suspect`: the lead, or
    /// another one if the lead itself is suspect.
    pub fn ruler(&self, suspect: ClockIndex) -> Option<ClockIndex> {
        if self.lead != suspect.get() {
            return Some(self.lead());
        }
        self.best_ruler(ClockIndex::all(self.len()).filter(|clock| *clock != suspect))
    }

    /// Returns the clock that serves best as a ruler: one whose wraps the host can tell apart, and
    /// whose relation is to be believed.
    pub(super) fn best_ruler(&self, clocks: impl Iterator<Item = ClockIndex>) -> Option<ClockIndex> {
        let rank = |clock: &ClockIndex| {
            let wide = self.scales[clock.get()].is_wide();
            (u8::from(wide) + 2 * u8::from(self.relations[clock.get()].is_proven), Reverse(*clock))
        };
        clocks.max_by_key(rank)
    }

    /// Returns the uncertainty of a ruler's times: none if it is the lead, which defines them.
    pub(super) fn room(&self, ruler: ClockIndex, at: i64) -> f64 {
        if ruler == self.lead() {
            return 0.0;
        }
        self.relations[ruler.get()].relation.limit(&self.scales[ruler.get()], at)
    }

    /// Returns the time of a reading that was taken at about `host`.
    pub(super) fn time(&self, ruler: ClockIndex, ticks: u64, host: Instant) -> i64 {
        let near = self.now.lead.wrapping_add(between(self.now.host, host));
        self.relations[ruler.get()].relation.time(&self.scales[ruler.get()], ticks, near).0
    }
}

/// Returns the time from one instant of the host to another, in units of a guard.
#[inline]
pub(super) fn between(from: Instant, to: Instant) -> i64 {
    let nanos = to.as_nanos().wrapping_sub(from.as_nanos()).cast_signed();
    nanos.saturating_mul(PER_NANOSECOND as i64)
}
