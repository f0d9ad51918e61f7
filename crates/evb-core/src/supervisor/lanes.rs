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

/// Adds the counters of `lane`, without overflow (docs/reference/protocol.md RUN-18).
pub(super) fn add(sum: &mut LaneReport, lane: &LaneReport) {
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    add(&mut sum.fragments, lane.fragments);
    add(&mut sum.payload_bytes, lane.payload_bytes);
    add(&mut sum.missing, lane.missing);
    add(&mut sum.late, lane.late);
    add(&mut sum.duplicate, lane.duplicate);
    add(&mut sum.unexpected, lane.unexpected);
    add(&mut sum.crc_errors, lane.crc_errors);
    add(&mut sum.last, lane.last);
    add(&mut sum.last_by_ns, lane.last_by_ns);
    add(&mut sum.stalls, lane.stalls);
    add(&mut sum.reconnects, lane.reconnects);
    add(&mut sum.segments, lane.segments);
    add(&mut sum.absent, lane.absent);
    add(&mut sum.lost_bytes, lane.lost_bytes);
    add(&mut sum.resends, lane.resends);
    add(&mut sum.timeouts, lane.timeouts);
    add(&mut sum.late_after_loss, lane.late_after_loss);
    add(&mut sum.duplicate_segments, lane.duplicate_segments);
}

/// Number of events to which a source contributed the last fragment, and the total delay of these
/// fragments behind the previous ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    pub(super) last: u64,
    pub(super) last_by_ns: u64,
}

/// The facts about a builder's lanes that operators see during the run.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneFacts {
    pub(super) crc_errors: u64,
    pub(super) late: u64,
    pub(super) duplicate: u64,
    /// Lateness of the sources that were last in any event.
    pub(super) lateness: Vec<(SourceIndex, Lateness)>,
}

impl LaneFacts {
    /// Returns the facts about `lanes`; `source` finds the source with a number.
    pub(super) fn of(lanes: &[LaneReport], source: impl Fn(u32) -> Option<SourceIndex>) -> Self {
        let sum = |of: fn(&LaneReport) -> u64| lanes.iter().map(of).fold(0, u64::saturating_add);
        let lateness = |lane: &LaneReport| {
            let lateness = Lateness { last: lane.last, last_by_ns: lane.last_by_ns };
            Some((source(lane.source)?, lateness)).filter(|_| lane.last > 0 || lane.last_by_ns > 0)
        };
        Self {
            crc_errors: sum(|lane| lane.crc_errors),
            late: sum(|lane| lane.late),
            duplicate: sum(|lane| lane.duplicate),
            lateness: lanes.iter().filter_map(lateness).collect(),
        }
    }
}
