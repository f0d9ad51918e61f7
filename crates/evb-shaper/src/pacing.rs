//! [`Pacing`]: how a source's departures are spaced, as configured.

use core::time::Duration;

use crate::{clusters::Clusters, cost::PacketCost, link::LinkPlan, pace::Pace};

/// Settings by which a source's departures are spaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Cost of bytes.
    pub cost: PacketCost,
    /// Each lane's pace; `None`, or none in the list: as fast as the rest permits.
    pub lanes: Vec<Option<Pace>>,
    /// The link that all lanes share with other traffic. Lanes are in its first class; others are
    /// charged by [`PacedSource::charge`](crate::PacedSource::charge).
    pub link: LinkPlan,
    /// Time by which trains are handed out ahead of their departure, for an executor that holds
    /// them until then (kernel departure times). Zero: they depart when they are handed out.
    pub lead: Duration,
    /// Time between a lane's trains where its burst permits: packets that are closer leave as one
    /// train. It is at least the executor's precision.
    pub spacing: Duration,
}

impl Pacing {
    /// The spacing by a timer. Each departure wakes source and builder, which takes tens of
    /// microseconds of processor time on a virtual machine: 10 000 departures per second took up to
    /// 0.8 of a core.
    pub const TIMER_SPACING: Duration = Duration::from_millis(1);

    /// Returns settings without paces: lanes take turns.
    pub fn none(cost: PacketCost) -> Self {
        Self::uniform(None, 0, cost)
    }

    /// Gives each of `lanes` lanes the same pace.
    pub fn uniform(pace: Option<Pace>, lanes: usize, cost: PacketCost) -> Self {
        Self {
            cost,
            lanes: vec![pace; lanes],
            link: LinkPlan::unlimited(),
            lead: Duration::ZERO,
            spacing: Self::TIMER_SPACING,
        }
    }

    /// Returns the time that a train may wait for those of other lanes: half the spacing. It is
    /// zero where the executor holds trains until their times, and where the link is limited, since
    /// the link would idle.
    pub(crate) fn join(&self) -> Duration {
        if self.lead.is_zero() && self.link.link().is_none() { self.spacing / 2 } else { Duration::ZERO }
    }

    /// Returns the most lane bytes of one train of a lane: a cluster of the pace ([`Clusters`]), in
    /// full packets; at most half a burst, so that a late train can be followed by another, and at
    /// most one segmented send ([`PacketCost::longest_train`]). `None` without pacing, which has no
    /// trains.
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
