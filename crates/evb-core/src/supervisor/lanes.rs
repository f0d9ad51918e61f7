//! The lanes in the reports of builders, in the form in which the supervisor keeps them: with
//! thousands of sources and hundreds of builders, the reports themselves would need gigabytes.

use crate::{
    index::SourceIndex,
    wire::{
        control::{BuilderReport, LaneReport},
        encoding::Encoding,
    },
};

/// The lanes of a builder's final report, encoded: most of their counters are small or zero.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedLanes(Vec<u8>);

impl PackedLanes {
    pub(super) fn of(lanes: Vec<LaneReport>) -> Self {
        Self(BuilderReport { lanes, ..BuilderReport::default() }.encode_to_vec())
    }

    /// Returns the lanes as they were reported.
    pub(super) fn lanes(&self) -> Vec<LaneReport> {
        BuilderReport::decode(&self.0).map(|report| report.lanes).unwrap_or_default()
    }
}

/// Number of events to which a source contributed the last fragment, and the total delay of these
/// fragments behind the previous ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastFragments {
    pub(super) last: u64,
    pub(super) last_by_ns: u64,
}

/// The facts about a builder's lanes that operators see during the run.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneFacts {
    /// Sums over all lanes.
    pub(super) sum: LaneReport,
    /// Lateness of the sources that were last in any event, ascending.
    pub(super) lateness: Vec<(SourceIndex, LastFragments)>,
}

impl LaneFacts {
    /// Applies an interim report: the sums, and the lanes that have changed. `source` finds the
    /// source with a number.
    pub(super) fn update(
        &mut self,
        sum: LaneReport,
        changed: &[LaneReport],
        source: impl Fn(u32) -> Option<SourceIndex>,
    ) {
        self.sum = sum;
        for lane in changed {
            let Some(index) = source(lane.source) else { continue };
            let lateness = LastFragments { last: lane.last, last_by_ns: lane.last_by_ns };
            match self.lateness.binary_search_by_key(&index, |(index, _)| *index) {
                Ok(at) => self.lateness[at].1 = lateness,
                Err(at) => self.lateness.insert(at, (index, lateness)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
