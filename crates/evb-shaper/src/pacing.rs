//! [`Pacing`]: the configuration of the paces at which a source sends.

use core::time::Duration;

use crate::{clusters::Clusters, cost::PacketCost, link_plan::LinkPlan, pace::Pace};

/// Settings for the pacing of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Cost of lane bytes on the wire.
    pub cost: PacketCost,
    /// The pace of each lane. A lane with `None`, or beyond the end of the list, is limited only by
    /// grants and the link.
    pub lanes: Vec<Option<Pace>>,
    /// The link that all lanes share with control messages, which are charged with
    /// [`PacedSource::charge_link`](crate::PacedSource::charge_link).
    pub link: LinkPlan,
    /// Largest time by which a train may be handed to the caller before its departure time, for
    /// callers that hold trains until their departure (kernel departure times). With zero, trains
    /// leave when they are handed to the caller.
    pub lead: Duration,
    /// Least time between the trains of a lane, if its burst permits: packets that would be closer
    /// leave as one train. The spacing must not be shorter than the sender's timer precision.
    pub spacing: Duration,
}

impl Pacing {
    /// The usual spacing if a timer wakes the sender. Each departure wakes the source and the
    /// builder, which takes tens of microseconds of processor time on a virtual machine: 10 000
    /// departures per second took up to 0.8 of a core.
    pub const TIMER_SPACING: Duration = Duration::from_millis(1);

    /// Returns settings without paces, with which the lanes send in turn.
    pub fn none(cost: PacketCost) -> Self {
        Self::uniform(None, 0, cost)
    }

    /// Returns settings in which each of `lanes` lanes has the same pace.
    pub fn uniform(pace: Option<Pace>, lanes: usize, cost: PacketCost) -> Self {
        Self {
            cost,
            lanes: vec![pace; lanes],
            link: LinkPlan::unlimited(),
            lead: Duration::ZERO,
            spacing: Self::TIMER_SPACING,
        }
    }

    /// Returns the time that a train may wait to leave together with trains of other lanes: half
    /// the spacing. The time is zero if the caller holds trains until their departure times, and
    /// also if the link has a rate limit, because the link would be idle during the wait.
    pub(crate) fn join(&self) -> Duration {
        if self.lead.is_zero() && self.link.link().is_none() { self.spacing / 2 } else { Duration::ZERO }
    }

    /// Returns the largest number of lane bytes in one train of a lane, or `None` if neither the
    /// lane nor the link is paced. A train is one cluster of the pace ([`Clusters`]) in full
    /// packets; at most half a burst, so that another train can follow a late one at once; and at
    /// most one send with segmentation offload ([`PacketCost::longest_train`]).
    pub(crate) fn train(&self, lane: Option<&Pace>) -> Option<u64> {
        let of_pace = |pace: &Pace| {
            let clusters = Clusters::of(pace, self.spacing, &self.cost);
            clusters.lane.min(self.cost.train(pace.burst / 2, pace.measure))
        };
        let longest = self.cost.longest_train();
        let pace = lane.or_else(|| self.link.link());
        pace.map(|pace| of_pace(pace).min(longest).count())
    }
}
