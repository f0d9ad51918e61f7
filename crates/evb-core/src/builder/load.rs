//! Load of a builder's slots, which lets the supervisor find the cause of dead time.

use super::assembly::{Assembly, AssemblyState};
use crate::{id::SourceId, set::MAX_SOURCES, wire::control::Load};

/// Counts the events in the slots by what they wait for, for a heartbeat.
pub(super) fn load(slots: &[Assembly], sources: &[SourceId]) -> Load {
    let mut load = Load::default();
    let mut waiting = [0u32; MAX_SOURCES];
    for slot in slots {
        match slot.state() {
            AssemblyState::Free => {}
            AssemblyState::Writing => load.at_sink += 1,
            AssemblyState::Open => {
                load.building += 1;
                slot.awaits().iter().for_each(|source| waiting[source] += 1);
            }
        }
    }
    let slowest = (0..sources.len()).max_by_key(|source| waiting[*source]);
    if let Some(slowest) = slowest.filter(|source| waiting[*source] > 0) {
        load.slowest = sources[slowest].number().into();
        load.slowest_events = waiting[slowest];
        let others = &mut waiting[..sources.len()];
        others.sort_unstable();
        // After sorting, the last element is the slowest source. The median is that of the other
        // sources; of an even number, the lower median is used.
        let middle = sources.len().saturating_sub(2) / 2;
        load.others_events = others.get(middle).filter(|_| sources.len() > 1).copied().unwrap_or(0);
    }
    load
}
