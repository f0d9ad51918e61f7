//! The peers that cause dead time, according to the loads that builders report.

#[cfg(test)]
mod tests;

use super::{dead_time::Cause, roster::Roster, seats::BuilderSeat};

/// Returns the causes of dead time: for each active builder the peer at fault, if there is one.
pub(super) fn culprits(roster: &Roster, slots: u32) -> Vec<Cause> {
    let active = roster.builders().iter().filter(|seat| seat.is_active());
    active.filter_map(|seat| culprit(roster, seat, slots)).collect()
}

/// Returns the peer that occupies at least half of a builder's slots: the builder's sink, or a
/// source. A source counts if at least twice as many events wait for it as for the median of the
/// other sources. If events wait for all sources alike, the network is full, and no peer is at
/// fault.
///
/// A peer that is at fault at one builder causes the dead time at all builders: the others have no
/// free slot either, but only because they got the events that this builder could not take.
fn culprit(roster: &Roster, seat: &BuilderSeat, slots: u32) -> Option<Cause> {
    let (load, half) = (seat.load, slots.div_ceil(2).max(1));
    if load.at_sink >= half {
        return Some(Cause::Sink(seat.id));
    }
    let stands_out = load.slowest_events >= half && load.slowest_events / 2 >= load.others_events;
    let slowest = roster.source_numbered(load.slowest).filter(|_| stands_out);
    slowest.map(|index| Cause::Source(roster.source(index).id))
}
