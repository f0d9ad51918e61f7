//! [`Paces`]: the paces at which a source sends to each builder, including builders that join
//! later.

use std::collections::BTreeMap;

use evb_core::id::BuilderId;

use crate::{cost::PacketCost, pace::Pace, pacing::Pacing};

/// The configured paces at which a source sends to each builder, including builders that join
/// later.
#[derive(Clone, Debug)]
pub struct Paces {
    /// The pace of every lane without an entry in `builders`; with `None`, only grants limit a
    /// lane.
    pub lane: Option<Pace>,
    /// Paces for the lanes to particular builders, in place of `lane`.
    pub builders: BTreeMap<BuilderId, Pace>,
    /// Other settings of the pacing; its field `lanes` is ignored.
    pub pacing: Pacing,
}

impl Paces {
    /// Returns a configuration without a pace for any lane.
    pub fn none(cost: PacketCost) -> Self {
        Self { lane: None, builders: BTreeMap::new(), pacing: Pacing::none(cost) }
    }

    /// Returns the pace of the lane to the given builder; `None`: only grants limit the lane.
    pub fn of(&self, builder: BuilderId) -> Option<Pace> {
        self.builders.get(&builder).copied().or(self.lane)
    }

    /// Returns the pacing of a source whose lanes lead to the given builders.
    pub fn plan(&self, builders: &[BuilderId]) -> Pacing {
        Pacing { lanes: builders.iter().map(|builder| self.of(*builder)).collect(), ..self.pacing.clone() }
    }
}
