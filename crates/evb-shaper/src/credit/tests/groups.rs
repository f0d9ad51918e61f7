//! Tests of limits for groups of lanes.

use std::sync::Arc;

use evb_core::set::LaneSet;
use proptest::prelude::*;

use super::*;
use crate::BudgetGroup;

fn group(lanes: &[usize], limit: u64) -> BudgetGroup {
    let lanes: LaneSet = lanes.iter().copied().map(LaneIndex::new).collect();
    BudgetGroup { lanes: Arc::new(lanes), limit: Bytes::new(limit) }
}

fn port(lanes: usize, budget: u64, groups: Vec<BudgetGroup>) -> Port {
    let mut port = Port::new(lanes, budget, 1000, None);
    let (budget, chunk) = (Bytes::new(budget), Bytes::new(1000));
    let config = CreditConfig { budget, groups, chunk, sources_at_once: None, offset: 0, cost: cost() };
    port.credit = Policy::credit(config, lanes);
    port
}

fn lanes_of(grants: &[(usize, u64)]) -> Vec<usize> {
    grants.iter().map(|(lane, _)| *lane).collect()
}

#[test]
fn a_group_without_room_leaves_the_budget_to_other_lanes() {
    let mut port = port(4, 100_000, vec![group(&[0, 1], 5000)]);
    for lane in 0..2 {
        port.announce(LaneIndex::new(lane), 1, 50_000);
    }
    for lane in 2..4 {
        port.announce(LaneIndex::new(lane), 2, 50_000);
    }
    let lanes = lanes_of(&port.grants(at(0)));
    assert_eq!(lanes.iter().filter(|lane| **lane < 2).count(), 2, "{lanes:?}");
    assert!(lanes.len() > 40, "the other lanes get the rest of the budget: {lanes:?}");
    assert_eq!(lanes[..2], [0, 1], "the oldest event comes first");
    // Bytes that arrive make room for the group again.
    port.receive(LaneIndex::new(0), 1000, at(1));
    assert_eq!(lanes_of(&port.grants(at(1))), [0], "and only for it, for the others have no new room");
}

#[test]
fn a_small_chunk_does_not_overtake_in_its_group() {
    let mut port = port(4, 100_000, vec![group(&[0, 1, 2], 5000), group(&[2], 50_000)]);
    port.announce(LaneIndex::new(0), 1, 50_000);
    assert_eq!(port.grants(at(0)).len(), 4, "the group has room for less than a chunk");
    port.announce(LaneIndex::new(1), 2, 50_000);
    port.announce(LaneIndex::new(2), 3, 10);
    port.announce(LaneIndex::new(3), 4, 10);
    assert_eq!(lanes_of(&port.grants(at(0))), [3], "lane 2 waits behind the older event");
}

#[test]
fn lanes_that_bring_nothing_give_way_in_their_group() {
    let mut port = port(3, 100_000, vec![group(&[0, 1], 5000)]);
    port.announce(LaneIndex::new(0), 1, 50_000);
    assert!(!port.grants(at(0)).is_empty());
    port.announce(LaneIndex::new(2), 2, 1000);
    port.grants(at(0));
    port.receive(LaneIndex::new(2), 1000, at(1));
    port.credit.handle_timeout(at(50));
    assert_eq!(port.withholding(at(200)), None, "no other lane waits");
    port.announce(LaneIndex::new(1), 3, 50_000);
    port.grants(at(200));
    assert_eq!(port.withholding(at(200)), Some(LaneIndex::new(0)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// Checks that no limit is ever exceeded, and that all bytes are granted in the end.
    #[test]
    fn no_group_exceeds_its_limit(
        ready in proptest::collection::vec(1u64..60_000, 6),
        limits in proptest::collection::vec(2000u64..20_000, 3),
        steps in proptest::collection::vec((0usize..6, 1u64..5000), 32),
    ) {
        let groups = vec![group(&[0, 1, 2], limits[0]), group(&[2, 3], limits[1]), group(&[4], limits[2])];
        let mut port = port(6, 40_000, groups.clone());
        for (lane, ready) in ready.iter().enumerate() {
            port.announce(LaneIndex::new(lane), lane as u64 % 3 + 1, *ready);
        }
        let mut charged = vec![Vec::new(); 6];
        for (which, step) in steps.into_iter().cycle().take(ready.iter().sum::<u64>() as usize) {
            while let Some(grant) = port.poll(at(0)) {
                charged[grant.lane.get()].push((grant.end, cost().buffer(Bytes::new(grant.end - grant.start))));
                for group in &groups {
                    let under_way: Bytes =
                        group.lanes.iter().flat_map(|lane| &charged[lane.get()]).map(|(_, cost)| *cost).sum();
                    prop_assert!(under_way <= group.limit, "{under_way} of {}", group.limit);
                }
            }
            let busy: Vec<_> =
                (0..6).filter(|lane| port.lanes[*lane].granted > port.lanes[*lane].received).collect();
            let Some(lane) = busy.get(which % busy.len().max(1)).copied() else { break };
            let received = port.lanes[lane].granted.min(port.lanes[lane].received + step);
            port.receive(LaneIndex::new(lane), received, at(0));
            charged[lane].retain(|(end, _)| *end > received);
        }
        for (demand, ready) in port.lanes.iter().zip(ready) {
            prop_assert_eq!(demand.received, ready);
        }
    }
}
