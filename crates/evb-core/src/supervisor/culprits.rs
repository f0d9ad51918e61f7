//! The peers that cause dead time, according to the loads that builders report.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::BTreeMap;

use super::{dead_time::Cause, phase::Phase, plan::RunPlan, roster::Roster, seats::BuilderSeat};
use crate::{id::Peer, quantities::counted, time::Instant};

/// Time between two lines in the log that say what a drain waits for.
const DRAIN_NOTICE: Duration = Duration::from_secs(5);

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

/// Returns for whom the events in the slots wait, with the number of events, in descending order:
/// the sinks of builders, and of each builder the source for whose fragments most events wait.
pub(super) fn waits(roster: &Roster) -> Vec<(Peer, u32)> {
    let mut counts = BTreeMap::<Peer, u32>::new();
    for seat in roster.builders().iter().filter(|seat| seat.is_active()) {
        let slowest = roster.source_numbered(seat.load.slowest).map(|index| roster.source(index).id);
        let at_source = slowest.map(|id| (Peer::Source(id), seat.load.slowest_events));
        for (peer, events) in at_source.into_iter().chain([(Peer::Builder(seat.id), seat.load.at_sink)]) {
            *counts.entry(peer).or_default() += events;
        }
    }
    let mut waits: Vec<_> = counts.into_iter().filter(|(_, events)| *events > 0).collect();
    waits.sort_by_key(|(_, events)| core::cmp::Reverse(*events));
    waits
}

/// Logs from time to time what a drain with `outstanding` events waits for, and for how long at
/// most.
pub(super) fn tell_drain(phase: &mut Phase, roster: &Roster, plan: &RunPlan, outstanding: u64, now: Instant) {
    let Phase::Draining { until, told } = phase else { return };
    if now.since(*told) < DRAIN_NOTICE {
        return;
    }
    *told = now;
    let wait = |(peer, events): (Peer, u32)| {
        let of = if matches!(peer, Peer::Builder(_)) { "the sink of " } else { "" };
        let verb = if events == 1 { "waits" } else { "wait" };
        format!("{} {verb} for {of}{}", counted(events, "event"), plan.named(peer))
    };
    let waits: Vec<String> = waits(roster).into_iter().map(wait).collect();
    let waits = if waits.is_empty() {
        "the builders do not say what they wait for".to_owned()
    } else {
        waits.join(", ")
    };
    let (run, open, left) = (plan.run, counted(outstanding, "event"), until.since(now).as_secs_f64());
    tracing::warn!(
        %run,
        "run {run} ends, and still builds {open}: {waits}; evb gives them up as lost in {left:.0} s, unless one of them is built before: look at the readouts, and at the disks of the builders"
    );
}
