//! [`Paces`]: how fast a source sends to each builder, those included that come later.

use std::collections::BTreeMap;

use evb_core::id::BuilderId;

use crate::{cost::PacketCost, pace::Pace, pacing::Pacing};

/// Paces at which a source sends to each builder, including builders that come later.
#[derive(Clone, Debug)]
pub struct Paces {
    /// The pace of every lane; `None`: as fast as grants permit.
    pub lane: Option<Pace>,
    /// Paces that replace it for some builders.
    pub builders: BTreeMap<BuilderId, Pace>,
    /// Other settings by which departures are spaced; its own list of lanes is ignored.
    pub pacing: Pacing,
}

impl Paces {
    /// Returns paces without a limit for any lane.
    pub fn none(cost: PacketCost) -> Self {
        Self { lane: None, builders: BTreeMap::new(), pacing: Pacing::none(cost) }
    }

    /// Returns the pace of the lane to one builder.
    pub fn of(&self, builder: BuilderId) -> Option<Pace> {
        self.builders.get(&builder).copied().or(self.lane)
    }

    /// Returns how the lanes to these builders are paced.
    pub fn plan(&self, builders: &[BuilderId]) -> Pacing {
        Pacing { lanes: builders.iter().map(|builder| self.of(*builder)).collect(), ..self.pacing.clone() }
    }
}
