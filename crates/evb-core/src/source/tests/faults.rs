//! Tests of a source when builders join, leave and restart, and of the fragments that their lanes
//! held.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{FOUR, NINE, at, decisions, fragment, report, source, wishes};
use crate::{
    id::{BuilderId, EventId, Incarnation},
    index::LaneIndex,
    lane::Taken,
    rng::Rng,
    source::SourceCore,
    units::Bytes,
    wire::control::{Holding, Holdings, MAX_BUILDERS, Verdict},
};

fn roster(builders: &[(u16, u32)]) -> Vec<(BuilderId, Incarnation)> {
    let listed = |(id, life): &(u16, u32)| (BuilderId::new(*id), Incarnation::new(*life));
    builders.iter().map(listed).collect()
}

/// Returns the message with the outstanding events of each builder. The number 0 stands for events
/// without a builder.
fn holdings(decided: u64, held: &[(u32, &[u64])]) -> Holdings {
    let holding = |(builder, events): &(u32, &[u64])| {
        let steps = core::iter::once(0).chain(events.iter().copied()).zip(events.iter());
        let holder = if *builder == 0 { 0 } else { builder + 1 };
        Holding { holder, events: steps.map(|(before, event)| event - before).collect() }
    };
    Holdings { decided, held: held.iter().map(holding).collect() }
}

/// Returns a source that is connected to builders 4 and 9.
fn connected(on_demand: bool) -> SourceCore {
    let mut source = source(on_demand);
    source.handle_roster(&roster(&[(4, 1), (9, 1)])).unwrap();
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.handle_lane_connected(LaneIndex::new(1), 0, 0).unwrap();
    source
}

/// Returns the events whose fragments are in that lane.
fn in_lane(source: &SourceCore, lane: LaneIndex) -> Vec<u64> {
    source.lanes[lane].held_events().map(EventId::number).collect()
}

#[test]
fn lanes_keep_their_index_whoever_comes_and_goes() {
    let mut source = connected(false);
    source.handle_roster(&roster(&[(2, 1), (9, 1)])).unwrap();
    let lanes = [2, 4, 9].map(|id| source.lane_index(BuilderId::new(id)).map(LaneIndex::get));
    assert_eq!((lanes, source.lane_count()), ([Some(2), Some(0), Some(1)], 3));
    assert!(!source.is_connected(), "the lane to builder 2 is not connected");
    source.handle_lane_connected(LaneIndex::new(2), 0, 0).unwrap();
    assert!(source.is_connected(), "builder 4 is not in the roster");
    source.handle_roster(&roster(&[(2, 1), (4, 2), (9, 1)])).unwrap();
    assert_eq!((source.lane_index(BuilderId::new(4)).map(LaneIndex::get), source.lane_count()), (Some(0), 3));
    assert!(!source.is_connected());
}

/// Fragments of a builder that has left wait until another builder gets their events
/// (docs/reference/protocol.md RUN-34, RUN-35).
#[test]
fn fragments_of_a_builder_that_is_gone_wait_for_another() {
    let mut source = connected(false);
    for event in 1..=4 {
        source.push(fragment(event), at(0)).unwrap();
    }
    source.handle_decisions(&decisions(1, &[FOUR, FOUR, NINE, FOUR])).unwrap();
    source.announce(LaneIndex::new(0), at(0), &mut bytes::BytesMut::new());
    // The bytes of event 1 are under way, and event 2 is committed before event 1.
    source.handle_grant(LaneIndex::new(0), 2 * 66).unwrap();
    assert!(matches!(source.take(LaneIndex::new(0), 2 * 66), Some(Taken { .. })));
    source.handle_commit(LaneIndex::new(0), 0, std::slice::from_ref(&(66..2 * 66))).unwrap();
    source.handle_roster(&roster(&[(9, 1)])).unwrap();
    assert_eq!((source.uncommitted(), source.sendable(LaneIndex::new(0))), (3, 0));
    assert_eq!((in_lane(&source, LaneIndex::new(0)), in_lane(&source, LaneIndex::new(1))), (vec![], vec![3]));
    // Builder 9 builds event 1 now, event 4 waits for a builder, and the fragment of event 5 has
    // just been pushed without a decision.
    source.push(fragment(5), at(1)).unwrap();
    source.handle_holdings(&holdings(6, &[(0, &[4]), (9, &[1, 3, 5])])).unwrap();
    assert_eq!(in_lane(&source, LaneIndex::new(1)), [3, 1, 5]);
    assert_eq!((source.uncommitted(), source.backlog()), (4, Bytes::ZERO));
    source.handle_holdings(&holdings(6, &[(9, &[3])])).unwrap();
    assert_eq!(in_lane(&source, LaneIndex::new(1)), [3, 1, 5], "lanes of present builders do not change");
    assert_eq!((source.uncommitted(), report(&source).closed), (3, 1), "event 4 has ended");
    assert_eq!(source.undecided(), EventId::new(7));
}

#[test]
fn a_builder_with_the_id_0_is_not_taken_for_none() {
    let mut source = source(false);
    source.handle_roster(&roster(&[(0, 1), (9, 1)])).unwrap();
    source.push(fragment(1), at(0)).unwrap();
    let held =
        |builder| Holdings { decided: 1, held: vec![Holding { events: vec![1], ..Holding::of(builder) }] };
    source.handle_holdings(&held(None)).unwrap();
    let lane = source.lane_index(BuilderId::new(0)).unwrap();
    assert_eq!((in_lane(&source, lane), source.uncommitted()), (vec![], 1));
    source.handle_holdings(&held(Some(BuilderId::new(0)))).unwrap();
    assert_eq!(in_lane(&source, lane), [1]);
}

#[test]
fn a_lane_to_another_life_begins_at_0() {
    let mut source = connected(false);
    source.push(fragment(1), at(0)).unwrap();
    source.handle_decisions(&decisions(1, &[FOUR])).unwrap();
    source.announce(LaneIndex::new(0), at(0), &mut bytes::BytesMut::new());
    source.handle_grant(LaneIndex::new(0), 66).unwrap();
    assert!(source.take(LaneIndex::new(0), 66).is_some());
    source.handle_roster(&roster(&[(4, 2), (9, 1)])).unwrap();
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.handle_holdings(&holdings(1, &[(4, &[1])])).unwrap();
    assert_eq!(wishes(&mut source, at(0)).0, [0]);
    source.announce(LaneIndex::new(0), at(0), &mut bytes::BytesMut::new());
    source.handle_grant(LaneIndex::new(0), 66).unwrap();
    assert_eq!(source.take(LaneIndex::new(0), 66), Some(Taken { range: 0..66, request: 0 }));
}

#[test]
fn what_comes_after_all_goes_where_its_event_is_by_then() {
    let mut source = connected(false);
    source.handle_decisions(&decisions(1, &[FOUR, FOUR, FOUR, Verdict::Inhibited])).unwrap();
    source.handle_roster(&roster(&[(9, 1)])).unwrap();
    source.push(fragment(1), at(0)).unwrap();
    assert_eq!(source.uncommitted(), 1, "event 1 has no builder now");
    source.handle_holdings(&holdings(4, &[(0, &[2]), (9, &[1, 3])])).unwrap();
    for event in 2..=4 {
        source.push(fragment(event), at(0)).unwrap();
    }
    assert_eq!(in_lane(&source, LaneIndex::new(1)), [1, 3]);
    assert_eq!(source.uncommitted(), 3, "event 2 waits for a builder");
    source.push(fragment(3), at(0)).unwrap();
    let counted = report(&source);
    assert_eq!((counted.repeats, counted.closed), (1, 1), "event 3 again, and event 4");
}

#[test]
fn readout_on_demand_is_asked_again_for_what_is_not_here() {
    let mut source = connected(true);
    source.handle_decisions(&decisions(1, &[FOUR, FOUR])).unwrap();
    assert_eq!(wishes(&mut source, at(0)).1, [1, 2]);
    source.push(fragment(1), at(0)).unwrap();
    // Builder 4 has restarted. The fragment of event 1 has been pushed, and readout is making that
    // of event 2. Event 7 was decided while the source was not connected to the supervisor, so its
    // fragment has not been requested.
    source.handle_roster(&roster(&[(4, 2), (9, 1)])).unwrap();
    source.handle_holdings(&holdings(9, &[(4, &[1, 2]), (9, &[7])])).unwrap();
    assert_eq!(wishes(&mut source, at(0)).1, [7]);
    source.push(fragment(2), at(0)).unwrap();
    source.push(fragment(7), at(0)).unwrap();
    assert_eq!(
        (in_lane(&source, LaneIndex::new(0)), in_lane(&source, LaneIndex::new(1))),
        (vec![1, 2], vec![7])
    );
    // A source that joined during the run has not been asked for any fragment before.
    let mut fresh = connected(true);
    fresh.handle_holdings(&holdings(100, &[(4, &[40]), (9, &[99])])).unwrap();
    assert_eq!(wishes(&mut fresh, at(0)).1, [40, 99]);
    fresh.push(fragment(40), at(0)).unwrap();
    fresh.handle_decisions(&decisions(101, &[NINE])).unwrap();
    assert_eq!((in_lane(&fresh, LaneIndex::new(0)), wishes(&mut fresh, at(0)).1), (vec![40], vec![101]));
}

#[test]
fn without_a_supervisor_nothing_is_too_late() {
    let mut source = connected(false);
    source.push(fragment(1), at(0)).unwrap();
    source.handle_supervisor_lost();
    source.handle_timeout(at(60_000));
    assert_eq!(wishes(&mut source, at(60_000)), (vec![], vec![]));
    assert_eq!(report(&source).unexpected, 0);
    source.handle_registered(at(60_000));
    source.handle_timeout(at(64_999));
    assert_eq!(report(&source).unexpected, 0, "the wait begins again");
    source.handle_timeout(at(65_000));
    assert_eq!(report(&source).unexpected, 1);
}

#[test]
fn holdings_that_make_no_sense_are_refused() {
    let mut source = connected(false);
    for (decided, held) in [
        (5, vec![(70_000, vec![1])]),
        (5, vec![(7, vec![1])]),
        (5, vec![(4, vec![6])]),
        (5, vec![(4, vec![0])]),
        (5, vec![(4, vec![2, 0])]),
        (5, vec![(4, vec![1, u64::MAX])]),
        (u64::MAX, vec![]),
    ] {
        let held =
            held.into_iter().map(|(builder, events)| Holding { holder: builder + 1, events }).collect();
        let fault = source.handle_holdings(&Holdings { decided, held });
        assert!(fault.is_err(), "{decided}");
    }
    let flood = Holding { holder: 0, events: vec![1; (1 << 20) + 1] };
    assert!(source.handle_holdings(&Holdings { decided: 1 << 40, held: vec![flood] }).is_err());
    let many: Vec<_> = (1..=MAX_BUILDERS as u16 + 1).map(|id| (id, 1)).collect();
    assert!(source.handle_roster(&roster(&many)).is_err(), "more lanes than a source can have");
}

proptest! {
    /// Whatever builders do, a pushed fragment is in exactly one place until its event has ended,
    /// and no byte is lost.
    #[test]
    fn fragments_are_kept_until_their_events_are_over(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let mut source = connected(false);
        let (mut lives, mut alive) = ([1, 1], [true, true]);
        let ids = [4u16, 9];
        // Outstanding events with their builders; `None` for an event without a builder.
        let mut open: Vec<(u64, Option<usize>)> = Vec::new();
        let mut pushed = BTreeSet::new();
        let mut next = 1;
        for _ in 0..300 {
            match rng.below(10) {
                0..3 => {
                    let Some(builder) = (0..2).find(|b| alive[(*b + next as usize) % 2]) else { continue };
                    let builder = (builder + next as usize) % 2;
                    let verdict = Verdict::Assigned(BuilderId::new(ids[builder]));
                    source.handle_decisions(&decisions(next, &[verdict])).unwrap();
                    open.push((next, Some(builder)));
                    next += 1;
                }
                3..7 => {
                    let event = 1 + rng.below(next);
                    if pushed.insert(event) {
                        source.push(fragment(event), at(0)).unwrap();
                    }
                }
                7 => {
                    let builder = rng.below(2) as usize;
                    alive[builder] = !alive[builder];
                    lives[builder] += u32::from(alive[builder]);
                    if alive[builder] {
                        // A builder that comes back has a new incarnation.
                    } else {
                        open.iter_mut().filter(|(_, home)| *home == Some(builder)).for_each(|(_, home)| *home = None);
                    }
                    let listed: Vec<_> =
                        (0..2).filter(|b| alive[*b]).map(|b| (ids[b], lives[b])).collect();
                    source.handle_roster(&roster(&listed)).unwrap();
                    tell(&mut source, next, &open, &ids);
                }
                8 => {
                    // A present builder takes over all events without a builder.
                    if let Some(builder) = (0..2).find(|b| alive[*b]) {
                        open.iter_mut().for_each(|(_, home)| *home = home.or(Some(builder)));
                        tell(&mut source, next, &open, &ids);
                    }
                }
                _ => {
                    // An event without a builder is settled as lost or completed.
                    if let Some(at) = open.iter().position(|(_, home)| home.is_none()) {
                        open.remove(at);
                        tell(&mut source, next, &open, &ids);
                    }
                }
            }
            for lane in 0..2 {
                let here: BTreeSet<u64> = in_lane(&source, LaneIndex::new(lane)).into_iter().collect();
                prop_assert_eq!(here.len(), in_lane(&source, LaneIndex::new(lane)).len(), "a fragment is in a lane twice");
                let of_it = |(event, home): &&(u64, Option<usize>)| *home == Some(lane) && pushed.contains(event);
                let meant: BTreeSet<u64> = open.iter().filter(of_it).map(|(event, _)| *event).collect();
                prop_assert_eq!(here, meant);
            }
            let meant = open.iter().filter(|(event, _)| pushed.contains(event)).count();
            prop_assert_eq!(source.uncommitted(), meant);
        }
    }
}

fn tell(source: &mut SourceCore, next: u64, open: &[(u64, Option<usize>)], ids: &[u16; 2]) {
    let of = |home: Option<usize>| -> Vec<u64> {
        open.iter().filter(|(_, of)| *of == home).map(|(event, _)| *event).collect()
    };
    let (none, first, second) = (of(None), of(Some(0)), of(Some(1)));
    let held = [(0, &none[..]), (u32::from(ids[0]), &first[..]), (u32::from(ids[1]), &second[..])];
    source.handle_holdings(&holdings(next - 1, &held)).unwrap();
}
