//! What a builder's slots are taken by: who is to blame for dead time.

use super::{BuilderCore, assembly::State};
use crate::{grant::GrantPolicy, set::MAX_SOURCES, wire::control::Load};

impl<P: GrantPolicy> BuilderCore<P> {
    /// Looks through the slots; for every heartbeat.
    pub(super) fn load(&self) -> Load {
        let mut load = Load::default();
        let mut waiting = [0u32; MAX_SOURCES];
        for slot in &self.slots {
            match slot.state {
                State::Free => {}
                State::Writing => load.at_sink += 1,
                State::Open => {
                    load.building += 1;
                    slot.awaits().iter().for_each(|source| waiting[source] += 1);
                }
            }
        }
        let sources = self.config.sources.len();
        let slowest = (0..sources).max_by_key(|source| waiting[*source]);
        if let Some(slowest) = slowest.filter(|source| waiting[*source] > 0) {
            load.slowest = self.config.sources[slowest].number().into();
            load.slowest_events = waiting[slowest];
            let others = &mut waiting[..sources];
            others.sort_unstable();
            // The last of them is the slowest; of an even number of others, the lower one in the middle.
            load.others_events =
                others.get(sources.saturating_sub(2) / 2).filter(|_| sources > 1).copied().unwrap_or(0);
        }
        load
    }
}
