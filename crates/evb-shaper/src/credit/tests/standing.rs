//! Tests of standing grants: of bytes that are not announced yet.

use evb_core::{grant::GrantPolicy as _, index::LaneIndex, set::LaneSet, units::Bytes};

use super::{Port, at, cost};
use crate::{BudgetGroup, Policy, charges::STALL, credit::CreditConfig};

/// Lane bytes of a fragment.
const FRAGMENT: u64 = 2000;
const BUDGET: u64 = 64_000;

fn lane(index: usize) -> LaneIndex {
    LaneIndex::new(index)
}

impl Port {
    /// Returns a port whose sources take standing grants.
    fn standing(lanes: usize) -> Self {
        let mut port = Self::new(lanes, BUDGET, 4000, None);
        port.lanes.iter_mut().for_each(|lane| (lane.takes_ahead, lane.fragment) = (true, FRAGMENT));
        port
    }

    /// Announces `count` fragments of a lane.
    fn come(&mut self, index: usize, event: u64, count: u64) {
        let announced = self.lanes[index].ready - self.lanes[index].ahead + count * FRAGMENT;
        self.ends[index].push((event, announced));
        let demand = &mut self.lanes[index];
        (demand.ready, demand.ahead) =
            (announced.max(demand.granted), demand.granted.saturating_sub(announced));
        self.refresh(lane(index));
    }

    /// Gives all grants, also standing ones, and returns the number of standing bytes of each lane.
    fn stand(&mut self, now: evb_core::time::Instant) -> Vec<u64> {
        self.tell();
        while let Some(grant) = self.credit.poll(&self.lanes, now) {
            let demand = &mut self.lanes[grant.lane];
            demand.ahead += grant.end.saturating_sub(demand.ready.max(demand.granted));
            demand.granted = grant.end;
            demand.ready = demand.ready.max(grant.end);
            self.refresh(grant.lane);
            self.tell();
        }
        self.lanes.iter().map(|lane| lane.ahead).collect()
    }

    /// Receives all that a lane has announced and was granted.
    fn receive_all(&mut self, index: usize, now: evb_core::time::Instant) {
        let demand = &self.lanes[index];
        self.receive(lane(index), demand.granted - demand.ahead, now);
    }

    /// Returns the lanes that are called back now.
    fn recalled(&mut self, now: evb_core::time::Instant) -> Vec<usize> {
        self.tell();
        core::iter::from_fn(|| self.credit.poll_recall(&self.lanes, now)).map(LaneIndex::get).collect()
    }

    /// Lets a source answer that it gives up what it has not announced.
    fn give_back(&mut self, index: usize, now: evb_core::time::Instant) {
        let demand = &mut self.lanes[index];
        let end = demand.granted - core::mem::take(&mut demand.ahead);
        (demand.granted, demand.ready) = (end, end);
        self.credit.handle_returned(lane(index), end, demand.received, now);
    }
}

#[test]
fn what_brought_data_gets_a_share_of_half_the_budget() {
    let mut port = Port::standing(4);
    assert_eq!(port.stand(at(0)), [0; 4], "no lane has brought data");
    (0..4).for_each(|lane| port.come(lane, 1, 1));
    assert_eq!(port.stand(at(0)), [0; 4]);
    (0..3).for_each(|lane| port.receive_all(lane, at(1)));
    // Half of the budget has 8000 bytes for each of four lanes, or three fragments.
    assert_eq!(port.stand(at(1)), [3 * FRAGMENT, 3 * FRAGMENT, 3 * FRAGMENT, 0]);
    let each = cost().grant(Bytes::new(FRAGMENT), FRAGMENT);
    assert_eq!(port.credit.outstanding(), each * 9 + each, "all shares are charged, and one grant");
    port.receive_all(3, at(2));
    port.stand(at(2));
    assert!(port.credit.outstanding() <= Bytes::new(BUDGET / 2));
    // One fragment of the share leaves, and the share is whole again once that has arrived.
    port.come(0, 2, 1);
    assert_eq!(port.stand(at(3))[0], 2 * FRAGMENT);
    port.receive_all(0, at(4));
    assert_eq!(port.stand(at(4))[0], 3 * FRAGMENT);
}

#[test]
fn a_share_that_holds_no_fragment_is_not_given() {
    let mut port = Port::standing(16);
    port.come(0, 1, 1);
    port.stand(at(0));
    port.receive_all(0, at(1));
    assert_eq!(port.stand(at(1)), [0; 16], "half of the budget has 2000 bytes for each of 16 lanes");
    assert_eq!(port.credit.outstanding(), Bytes::ZERO);
    // An earlier release does not take them.
    let mut port = Port::standing(1);
    port.lanes[0].takes_ahead = false;
    port.come(0, 1, 1);
    port.stand(at(0));
    port.receive_all(0, at(1));
    assert_eq!(port.stand(at(1)), [0]);
}

#[test]
fn no_share_is_renewed_while_a_lane_waits() {
    let mut port = Port::standing(4);
    (0..4).for_each(|lane| port.come(lane, 1, 1));
    port.stand(at(0));
    // Lane 3 has more than its part of the budget, and waits.
    port.come(3, 2, 100);
    port.receive_all(0, at(1));
    assert_eq!(port.stand(at(1)), [0; 4]);
    while port.lanes[3].granted < port.lanes[3].ready {
        port.receive_all(3, at(2));
        assert_eq!(port.stand(at(2))[1..3], [0; 2]);
    }
    port.receive_all(3, at(3));
    assert!(port.stand(at(3))[0] > 0, "no lane waits any more");
}

#[test]
fn a_share_is_called_back_and_stays_charged_until_the_source_has_answered() {
    let mut port = Port::standing(8);
    (0..8).for_each(|lane| port.come(lane, 1, 1));
    port.stand(at(0));
    (0..8).for_each(|lane| port.receive_all(lane, at(1)));
    assert_eq!(port.stand(at(1)), [FRAGMENT; 8]);
    assert_eq!(port.recalled(at(2)), Vec::<usize>::new(), "no lane waits");
    // Five lanes fill what is left of the budget, and wait for more.
    (0..5).for_each(|lane| port.come(lane, 2, 50));
    port.stand(at(2));
    assert_eq!(port.recalled(at(2)), [5, 6, 7]);
    assert_eq!(port.recalled(at(2)), Vec::<usize>::new(), "once");
    let full = port.credit.outstanding();
    port.stand(at(3));
    assert_eq!(port.credit.outstanding(), full, "the shares stay charged");
    // A fragment that the source announced before it answers belongs to the share.
    port.come(5, 3, 1);
    let each = cost().grant(Bytes::new(FRAGMENT), FRAGMENT);
    (5..8).for_each(|lane| port.give_back(lane, at(4)));
    assert_eq!(port.credit.outstanding() + each * 2, full);
    port.stand(at(4));
    assert!(port.credit.outstanding() + each > full, "others got the room");
    for round in 5..60 {
        (0..7).for_each(|lane| port.receive_all(lane, at(round)));
        let ahead = port.stand(at(round));
        assert!(ahead[7] == 0, "a lane that brings nothing gets no further share");
        assert!(port.credit.outstanding() <= Bytes::new(BUDGET));
    }
    assert_eq!(port.stand(at(60))[..7], [FRAGMENT; 7]);
}

#[test]
fn a_share_goes_with_its_lane() {
    let mut port = Port::standing(1);
    port.come(0, 1, 1);
    port.stand(at(0));
    port.receive_all(0, at(1));
    assert!(port.stand(at(1))[0] > 0);
    port.credit.handle_gone(lane(0), at(2));
    port.lanes[0].connected = false;
    port.stand(at(2));
    assert!(port.credit.outstanding() > Bytes::ZERO, "the bytes may be under way");
    port.credit.handle_timeout(at(200));
    assert_eq!((port.stand(at(200)), port.credit.outstanding()), (port.stand(at(201)), Bytes::ZERO));
}

#[test]
fn a_silent_lane_with_a_share_is_not_stalled() {
    let mut port = Port::standing(6);
    (0..6).for_each(|lane| port.come(lane, 1, 1));
    port.stand(at(0));
    (0..6).for_each(|lane| port.receive_all(lane, at(1)));
    assert!(port.stand(at(1))[0] > 0);
    assert_eq!(port.credit.next_timeout(), None, "no byte must come");
    port.credit.handle_timeout(at(1000));
    assert_eq!(port.credit.counters().stalls, [0; 6]);
    // From the announcement on, the bytes must come.
    port.come(0, 2, 1);
    port.stand(at(1001));
    assert_eq!(port.credit.next_timeout(), Some(at(1001) + STALL));
    port.credit.handle_timeout(at(1001) + STALL);
    assert_eq!(port.credit.counters().stalls, [1, 0, 0, 0, 0, 0]);
    // A source that is asked to give up its share must answer.
    port.receive_all(0, at(1100));
    (0..5).for_each(|lane| port.come(lane, 3, 100));
    port.stand(at(1100));
    assert_eq!(port.recalled(at(1100)), [5]);
    port.credit.handle_timeout(at(1100) + STALL);
    assert_eq!(port.credit.counters().stalls, [2, 1, 1, 1, 1, 1]);
}

#[test]
fn a_group_gets_half_of_its_limit() {
    let limit = Bytes::new(20_000);
    let lanes: LaneSet = [lane(0), lane(1), lane(2)].into_iter().collect();
    let groups = vec![BudgetGroup { lanes: lanes.into(), limit }];
    let config = CreditConfig {
        budget: Bytes::new(BUDGET),
        groups,
        chunk: Bytes::new(2000),
        sources_at_once: None,
        offset: 0,
        cost: cost(),
    };
    let mut port = Port::standing(4);
    port.credit = Policy::credit(config, 4);
    (0..4).for_each(|lane| port.come(lane, 1, 1));
    port.stand(at(0));
    (0..4).for_each(|lane| port.receive_all(lane, at(1)));
    let ahead = port.stand(at(1));
    assert_eq!(
        ahead[..3],
        [FRAGMENT; 3],
        "half of 20 000 bytes for three lanes, of which a quarter is for a lane"
    );
    assert!(ahead[3] > FRAGMENT, "{ahead:?}");
}
