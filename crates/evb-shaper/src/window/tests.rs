use evb_core::{
    grant::{Fate, Grant, GrantPolicy, LaneDemand, Lost},
    id::EventId,
    index::LaneIndex,
    time::Instant,
    units::Bytes,
};
use proptest::prelude::*;

use crate::{
    Policy,
    cost::{CELL, PacketCost},
};

fn lane(ready: u64) -> LaneDemand {
    LaneDemand {
        ready,
        granted: 0,
        received: 0,
        oldest: EventId::FIRST,
        oldest_end: ready,
        fragment: ready,
        connected: true,
        lost: None,
    }
}

/// Tells the policy the demands, and returns its next grant.
fn poll(policy: &mut Policy, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
    for (lane, demand) in lanes.iter().enumerate() {
        policy.handle_demand(LaneIndex::new(lane), demand);
    }
    policy.poll(lanes, now)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Checks that the bytes under way on each lane never exceed the window, and that all ready
    /// bytes are granted in the end.
    #[test]
    fn sources_times_window_is_the_bound(
        window in 1u64..40_000,
        fragment in prop_oneof![0u64..100, 0u64..4000],
        ready in proptest::collection::vec(0u64..100_000, 1..6),
        steps in proptest::collection::vec((0usize..6, 1u64..20_000), 32),
    ) {
        let cost = PacketCost::tcp(1500, CELL);
        let mut policy = Policy::window(Bytes::new(window), cost, ready.len());
        let mut lanes: Vec<_> = ready.iter().map(|ready| LaneDemand { fragment, ..lane(*ready) }).collect();
        let mut grants: Vec<Vec<(u64, Bytes)>> = vec![Vec::new(); lanes.len()];
        // At least one byte arrives in each step.
        let enough = ready.iter().sum::<u64>() as usize + 1;
        for (which, step) in steps.into_iter().cycle().take(enough) {
            while let Some(grant) = poll(&mut policy, &lanes, Instant::ZERO) {
                let length = grant.end - lanes[grant.lane].granted;
                prop_assert!(length > 0 && grant.end <= lanes[grant.lane].ready);
                grants[grant.lane].push((grant.end, cost.buffer(Bytes::new(length))));
                lanes[grant.lane].granted = grant.end;
                let under_way: Bytes = grants[grant.lane].iter().map(|(_, cost)| *cost).sum();
                prop_assert!(under_way <= cost.buffer(Bytes::new(window)));
                prop_assert!(grant.end <= lanes[grant.lane].received + window);
            }
            let busy: Vec<_> = (0..lanes.len()).filter(|n| lanes[*n].granted > lanes[*n].received).collect();
            let Some(index) = busy.get(which % busy.len().max(1)).copied() else { break };
            let lane = &mut lanes[index];
            lane.received = lane.granted.min(lane.received + step);
            grants[index].retain(|(end, _)| *end > lane.received);
            policy.handle_received(LaneIndex::new(index), lane.received, Instant::ZERO);
        }
        prop_assert!(lanes.iter().all(|lane| lane.received == lane.ready));
        prop_assert_eq!(policy.outstanding(), Bytes::ZERO);
    }
}

#[test]
fn a_lane_that_is_gone_gets_nothing() {
    let mut policy = Policy::window(Bytes::new(2000), PacketCost::tcp(1500, CELL), 1);
    let gone = LaneDemand { connected: false, ..lane(1000) };
    assert_eq!(poll(&mut policy, &[gone], Instant::ZERO), None);
}

/// Checks that retransmissions stay within the window, although bytes that are sent again in small
/// pieces take more of a port's buffer than in one train.
#[test]
fn what_is_sent_again_keeps_to_the_window() {
    let (now, cost) = (Instant::ZERO, PacketCost::udp(1500, CELL));
    let mut policy = Policy::window(Bytes::new(2000), cost, 1);
    let granted = poll(&mut policy, &[lane(2000)], now).unwrap();
    assert_eq!((granted.start, granted.end), (0, 2000));
    policy.handle_accounted(LaneIndex::new(0), 0..2000, 0, Fate::Lost, now);
    let asked = (0..2000).step_by(100).take_while(|start| {
        let lost = Some(Lost { start: *start, end: start + 100, request: 1 });
        poll(&mut policy, &[LaneDemand { granted: 2000, lost, ..lane(2000) }], now).is_some()
    });
    assert_eq!(asked.count(), 8, "each piece takes a cell of 256 bytes, and the window 1514 + 650");
    assert!(policy.outstanding() <= cost.buffer(Bytes::new(2000)));
}

/// Replays seed 362 of the whole-system simulator: a lane whose connection had been reset was
/// granted a second window while the bytes of the first window were still in the port.
#[test]
fn a_lane_that_comes_back_waits_for_the_port_to_drain() {
    let cost = PacketCost::udp(1500, CELL);
    let window = Bytes::kib(16);
    let mut policy = Policy::window(window, cost, 1);
    let mut lanes = [lane(100_000)];
    let grant_all = |policy: &mut Policy, lanes: &mut [LaneDemand; 1], now: Instant| {
        while let Some(grant) = poll(policy, lanes, now) {
            lanes[0].granted = grant.end;
        }
        policy.outstanding()
    };
    let at = |millis| Instant::ZERO + core::time::Duration::from_millis(millis);
    assert!(grant_all(&mut policy, &mut lanes, at(0)) > Bytes::ZERO);
    policy.handle_gone(LaneIndex::new(0), at(0));
    lanes[0].granted = 0;
    policy.handle_reset(LaneIndex::new(0), 0, at(50));
    assert!(grant_all(&mut policy, &mut lanes, at(50)) <= cost.buffer(window));
    policy.handle_timeout(at(200));
    assert!(grant_all(&mut policy, &mut lanes, at(200)) > Bytes::ZERO);
    assert!(lanes[0].granted > 0);
}
