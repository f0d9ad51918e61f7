use core::time::Duration;

use evb_core::{
    grant::{Grant, GrantPolicy, LaneDemand},
    id::EventId,
    index::LaneIndex,
    time::Instant,
    units::{Bytes, Rate},
};
use proptest::prelude::*;

use super::CreditConfig;
use crate::{
    Policy,
    cost::{CELL, PacketCost},
};

mod groups;

fn cost() -> PacketCost {
    PacketCost::tcp(1500, CELL)
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

/// A credit policy and the lanes that it serves. Takes grants and updates the lanes as a builder
/// does.
struct Port {
    credit: Policy,
    lanes: Vec<LaneDemand>,
    /// For each lane, the events and the lane offsets at which their fragments end.
    ends: Vec<Vec<(u64, u64)>>,
}

impl Port {
    fn new(lanes: usize, budget: u64, chunk: u64, sources_at_once: Option<usize>) -> Self {
        let (budget, chunk) = (Bytes::new(budget), Bytes::new(chunk));
        let config =
            CreditConfig { budget, groups: Vec::new(), chunk, sources_at_once, offset: 0, cost: cost() };
        let idle = LaneDemand {
            ready: 0,
            granted: 0,
            received: 0,
            oldest: EventId::FIRST,
            oldest_end: 0,
            fragment: 0,
            connected: true,
            lost: None,
        };
        Self {
            credit: Policy::credit(config, lanes),
            lanes: vec![idle; lanes],
            ends: vec![Vec::new(); lanes],
        }
    }

    fn announce(&mut self, lane: LaneIndex, event: u64, length: u64) {
        self.lanes[lane].ready += length;
        self.ends[lane].push((event, self.lanes[lane].ready));
        self.refresh(lane);
    }

    fn refresh(&mut self, lane: LaneIndex) {
        let demand = &mut self.lanes[lane];
        if let Some((event, end)) = self.ends[lane].iter().find(|(_, end)| *end > demand.granted) {
            (demand.oldest, demand.oldest_end) = (EventId::new(*event), *end);
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Grant> {
        self.tell();
        let grant = self.credit.poll(&self.lanes, now)?;
        assert!(grant.end > self.lanes[grant.lane].granted && grant.end <= self.lanes[grant.lane].ready);
        self.lanes[grant.lane].granted = grant.end;
        self.refresh(grant.lane);
        Some(grant)
    }

    /// Tells the policy the demands of all lanes.
    fn tell(&mut self) {
        for (lane, demand) in self.lanes.iter().enumerate() {
            self.credit.handle_demand(LaneIndex::new(lane), demand);
        }
    }

    fn withholding(&mut self, now: Instant) -> Option<LaneIndex> {
        self.tell();
        self.credit.withholding(&self.lanes, now)
    }

    /// Returns all grants that the policy gives now, as pairs of lane and end offset.
    fn grants(&mut self, now: Instant) -> Vec<(usize, u64)> {
        core::iter::from_fn(|| self.poll(now)).map(|grant| (grant.lane.get(), grant.end)).collect()
    }

    fn receive(&mut self, lane: LaneIndex, received: u64, now: Instant) {
        self.lanes[lane].received = received;
        self.credit.handle_received(lane, received, now);
    }
}

#[test]
fn the_oldest_event_comes_first_and_ties_rotate() {
    let mut port = Port::new(3, 1_000_000, 1000, None);
    port.announce(LaneIndex::new(0), 2, 2000);
    port.announce(LaneIndex::new(1), 1, 2000);
    port.announce(LaneIndex::new(2), 1, 1000);
    let grants = port.grants(at(0));
    assert_eq!(grants, [(1, 1000), (2, 1000), (1, 2000), (0, 1000), (0, 2000)]);
}

/// Checks that grants leave room in the budget for the announcements of as many bytes.
#[test]
fn tiny_fragments_leave_room_for_what_announces_them() {
    let granted = |fragment| {
        let mut port = Port::new(10, 40_000, 4000, None);
        port.lanes.iter_mut().for_each(|lane| lane.fragment = fragment);
        (0..10).for_each(|lane| port.announce(LaneIndex::new(lane), 1, 100_000));
        let lanes: Vec<_> = port.grants(at(0)).into_iter().map(|(lane, _)| lane).collect();
        assert!(port.credit.outstanding() <= Bytes::new(40_000));
        lanes.len()
    };
    assert_eq!([granted(1471), granted(116), granted(48)], [9, 6, 4]);
    // Even a budget that is too small for a chunk with its announcements gives one grant.
    let mut port = Port::new(1, 1000, 800, None);
    port.lanes[0].fragment = 17;
    port.announce(LaneIndex::new(0), 1, 10_000);
    assert_eq!(port.grants(at(0)), [(0, 800)]);
}

#[test]
fn a_turn_reaches_beyond_its_event() {
    let mut port = Port::new(1, 1_000_000, 1000, None);
    port.announce(LaneIndex::new(0), 1, 100);
    port.announce(LaneIndex::new(0), 2, 100);
    assert_eq!(port.grants(at(0)), [(0, 200)]);
}

#[test]
fn nobody_overtakes_the_oldest_event() {
    let mut port = Port::new(3, 6000, 4000, None);
    port.announce(LaneIndex::new(1), 2, 4000);
    assert_eq!(port.grants(at(0)), [(1, 4000)], "the chunk takes 4214 of 6000 buffer bytes");
    // The oldest event needs a whole chunk, for which there is no room; the small chunks of younger
    // events would always fit.
    port.announce(LaneIndex::new(0), 1, 4000);
    for event in 3..200 {
        port.announce(LaneIndex::new(2), event, 100);
    }
    let mut waited = 0;
    while port.lanes[0].granted == 0 {
        let grants = port.grants(at(1));
        assert!(grants.first().is_none_or(|(lane, _)| *lane == 0), "a younger event overtook: {grants:?}");
        let received = port.lanes[1].received + 1000;
        port.receive(LaneIndex::new(1), received.min(port.lanes[1].granted), at(1));
        waited += 1;
        assert!(waited < 10, "the oldest event starves");
    }
    assert!(waited > 1, "the oldest event had to wait for room");
}

#[test]
fn one_lane_holds_at_most_a_quarter_or_four_chunks_while_it_is_alone() {
    let mut port = Port::new(2, 100_000, 8192, None);
    port.announce(LaneIndex::new(0), 1, 1_000_000);
    port.announce(LaneIndex::new(1), 9, 1_000_000);
    let of_each =
        |grants: Vec<(usize, u64)>| [0, 1].map(|lane| grants.iter().filter(|grant| grant.0 == lane).count());
    assert_eq!(of_each(port.grants(at(0))), [2, 2], "25 000 buffer bytes are two chunks of 8604");
    assert!(port.credit.outstanding() <= Bytes::new(50_000));
    let mut port = Port::new(2, 100_000, 8192, None);
    port.announce(LaneIndex::new(0), 1, 1_000_000);
    assert_eq!(of_each(port.grants(at(0))), [4, 0], "no other lane wants to send");
    port.announce(LaneIndex::new(1), 9, 1000);
    assert_eq!(port.grants(at(0)), [(1, 1000)], "which leaves room for a younger event of another lane");
}

#[test]
fn a_stalled_lane_passes_its_turn_and_returns() {
    let mut port = Port::new(2, 100_000, 1000, None);
    port.announce(LaneIndex::new(0), 1, 1000);
    assert_eq!(port.grants(at(0)), [(0, 1000)]);
    port.announce(LaneIndex::new(0), 1, 1000);
    port.announce(LaneIndex::new(1), 2, 1000);
    assert_eq!(port.credit.next_timeout(), Some(at(50)));
    port.credit.handle_timeout(at(49));
    assert_eq!(port.credit.counters().stalls, [0, 0]);
    port.credit.handle_timeout(at(50));
    assert_eq!(port.credit.counters().stalls, [1, 0]);
    assert_eq!(
        port.grants(at(50)),
        [(1, 1000)],
        "the stalled lane gets no grant although its event is older"
    );
    port.receive(LaneIndex::new(1), 1000, at(51));
    assert!(port.credit.outstanding() > Bytes::ZERO, "bytes that may lie in the switch are still charged");
    port.receive(LaneIndex::new(0), 10, at(60));
    assert_eq!(port.grants(at(60)), [(0, 2000)]);
}

#[test]
fn a_broken_connection_is_charged_until_the_network_has_drained() {
    let mut port = Port::new(1, 10_000, 8000, None);
    port.announce(LaneIndex::new(0), 1, 100_000);
    assert_eq!(port.grants(at(0)).len(), 1);
    port.credit.handle_gone(LaneIndex::new(0), at(10));
    port.credit.handle_reset(LaneIndex::new(0), 0, at(11));
    port.lanes[0].granted = 0;
    assert!(port.grants(at(11)).is_empty());
    let drained = port.credit.next_timeout().unwrap();
    assert_eq!(drained, at(140));
    port.credit.handle_timeout(drained);
    assert_eq!(port.grants(drained), [(0, 8000)]);
}

#[test]
fn one_source_at_a_time_to_the_end_of_its_event() {
    let mut port = Port::new(3, 1_000_000, 1000, Some(1));
    for event in [1, 2] {
        (0..3).for_each(|lane| port.announce(LaneIndex::new(lane), event, 2500));
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        let grants = port.grants(at(0));
        let (lane, end) = *grants.last().unwrap();
        assert!(grants.iter().all(|(other, _)| *other == lane), "{grants:?}");
        assert_eq!(end % 2500, 0, "a turn ends with the event");
        assert!(
            port.grants(at(0)).is_empty(),
            "no other lane gets a grant until the whole event has arrived"
        );
        port.receive(LaneIndex::new(lane), end - 1, at(1));
        assert!(port.grants(at(1)).is_empty());
        port.receive(LaneIndex::new(lane), end, at(2));
        order.push((lane, end / 2500));
    }
    assert_eq!(order, [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]);
}

#[test]
fn one_source_at_a_time_goes_on_past_one_that_stalls() {
    let mut port = Port::new(2, 1_000_000, 1000, Some(1));
    port.announce(LaneIndex::new(0), 1, 1000);
    port.announce(LaneIndex::new(1), 1, 1000);
    assert_eq!(port.grants(at(0)), [(0, 1000)]);
    port.credit.handle_timeout(at(50));
    assert_eq!(port.grants(at(50)), [(1, 1000)]);
}

#[test]
fn a_budget_below_a_packet_still_moves() {
    let mut port = Port::new(2, 1, 8192, None);
    port.announce(LaneIndex::new(0), 1, 3);
    assert_eq!(port.grants(at(0)), [(0, 1)]);
}

/// Returns a port at 10 Gbit/s with the budget for a buffer of 128 KiB, which is nine tenths of it,
/// in chunks of 38 packets.
fn fast_port(lanes: usize) -> Port {
    let budget = Bytes::kib(128) * 9 / 10;
    let chunk = cost().chunk(budget, Some(Rate::from_bits_per_second(10_000_000_000)));
    assert_eq!(chunk, Bytes::new(38 * 1448 - 16));
    Port::new(lanes, budget.count(), chunk.count(), None)
}

#[test]
fn a_lone_lane_has_two_chunks_under_way_and_shares_as_soon_as_another_wants() {
    let mut port = fast_port(3);
    let chunk = 38 * 1448 - 16;
    port.announce(LaneIndex::new(0), 1, 10 * chunk);
    assert_eq!(
        port.grants(at(0)),
        [(0, chunk), (0, 2 * chunk)],
        "two chunks, so that the lane need not wait for each to arrive"
    );
    port.announce(LaneIndex::new(1), 2, 10 * chunk);
    assert!(port.grants(at(0)).is_empty(), "the budget is given out");
    port.receive(LaneIndex::new(0), chunk, at(1));
    assert_eq!(
        port.grants(at(1)),
        [(1, chunk)],
        "the younger event, since the other lane has a chunk under way"
    );
    port.receive(LaneIndex::new(0), 2 * chunk, at(2));
    assert_eq!(port.grants(at(2)), [(0, 3 * chunk)]);
}

#[test]
fn one_source_at_a_time_does_not_stop_and_wait_either() {
    let mut port = fast_port(2);
    port.credit = Policy::credit(
        CreditConfig {
            budget: Bytes::kib(128) * 9 / 10,
            groups: Vec::new(),
            chunk: Bytes::new(38 * 1448 - 16),
            sources_at_once: Some(1),
            offset: 0,
            cost: cost(),
        },
        2,
    );
    port.announce(LaneIndex::new(0), 1, 1_000_000);
    assert_eq!(port.grants(at(0)).len(), 2);
}

/// Each fragment of 32 B takes 48 lane bytes, and the reserve for its announcement is larger than
/// that.
#[test]
fn two_chunks_of_tiny_fragments_fit_as_well() {
    let mut port = fast_port(2);
    for lane in 0..2 {
        port.lanes[lane].fragment = 48;
        port.announce(LaneIndex::new(lane), 1, 1_000_000);
    }
    let grants = port.grants(at(0));
    assert_eq!(grants.iter().map(|(lane, _)| *lane).collect::<Vec<_>>(), [0, 1], "one chunk for each lane");
    assert_eq!((grants[0].1 + 16) % 1448, 0, "the chunk consists of full packets");
    assert!(port.credit.outstanding() > port_budget() * 9 / 10, "{}", port.credit.outstanding());
}

#[test]
fn how_long_grants_take_is_counted_to_their_first_and_last_byte() {
    let mut port = Port::new(1, 100_000, 1000, None);
    port.announce(LaneIndex::new(0), 1, 1000);
    assert_eq!(port.grants(at(0)), [(0, 1000)]);
    port.receive(LaneIndex::new(0), 10, at(1));
    port.receive(LaneIndex::new(0), 500, at(2));
    port.receive(LaneIndex::new(0), 1000, at(4));
    let counters = port.credit.counters();
    let counted = |times: &evb_core::times::Times| (times.pairs()[1], times.max());
    assert_eq!(counted(&counters.first_byte), (1, 1000), "one first byte is recorded, after a millisecond");
    assert_eq!(counted(&counters.last_byte), (1, 4000));
}

fn port_budget() -> Bytes {
    Bytes::kib(128) * 9 / 10
}

#[test]
fn lanes_that_bring_nothing_give_way_to_those_that_wait() {
    let mut port = fast_port(3);
    for lane in 0..3 {
        port.announce(LaneIndex::new(lane), 1, 1_000_000);
    }
    assert_eq!(port.grants(at(0)).len(), 2, "two grants use up the budget");
    assert_eq!(port.withholding(at(200)), None);
    port.credit.handle_timeout(at(50));
    assert_eq!(port.withholding(at(199)), None, "a stalled source may only be waiting for a core");
    let first = port.withholding(at(200)).expect("two stalled lanes hold the whole budget");
    port.credit.handle_gone(first, at(200));
    port.lanes[first].connected = false;
    let second = port.withholding(at(200)).expect("what the first held may lie in the port");
    assert_ne!(first, second);
    port.credit.handle_gone(second, at(200));
    port.lanes[second].connected = false;
    assert_eq!(port.withholding(at(200)), None);
    let drained = port.credit.next_timeout().unwrap();
    port.credit.handle_timeout(drained);
    assert_eq!(
        port.grants(drained).first().map(|(lane, _)| *lane),
        Some(2),
        "the third lane gets grants again"
    );
}

#[test]
fn a_lane_that_brings_nothing_stays_while_no_other_waits() {
    // A stalled lane may keep up to a quarter of the budget, because other lanes continue with the
    // rest.
    let mut port = Port::new(2, 100_000, 8192, None);
    port.announce(LaneIndex::new(0), 1, 16_384);
    assert_eq!(port.grants(at(0)).len(), 2);
    port.announce(LaneIndex::new(1), 1, 1_000_000);
    port.credit.handle_timeout(at(50));
    port.grants(at(50));
    assert_eq!(port.credit.counters().stalls, [1, 0]);
    assert_eq!(port.withholding(at(200)), None);
    // A stalled lane may keep more than a quarter of the budget if no other lane waits for it.
    let mut port = fast_port(2);
    port.announce(LaneIndex::new(0), 1, 1_000_000);
    port.grants(at(0));
    port.credit.handle_timeout(at(50));
    assert_eq!(port.withholding(at(200)), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn the_budget_holds_and_everything_is_served(
        lanes in 1usize..9,
        budget in 400u64..50_000,
        chunk in 1u64..20_000,
        at_once in proptest::option::of(1usize..4),
        fragments in proptest::collection::vec((0usize..9, 1u64..6000), 1..60),
        order in proptest::collection::vec(any::<u16>(), 64),
    ) {
        let mut port = Port::new(lanes, budget, chunk, at_once);
        let mut now = at(0);
        for (event, (lane, length)) in (1..).zip(fragments) {
            port.announce(LaneIndex::new(lane % lanes), event, length);
        }
        for turn in order.iter().cycle().take(500_000) {
            while port.poll(now).is_some() {
                prop_assert!(port.credit.outstanding() <= Bytes::new(budget));
            }
            let waiting: Vec<_> =
                (0..lanes).filter(|lane| port.lanes[*lane].granted > port.lanes[*lane].received).collect();
            let Some(lane) = waiting.get(usize::from(*turn) % waiting.len().max(1)) else { break };
            now += Duration::from_micros(1);
            let step = u64::from(*turn) % 3000 + 1;
            let received = port.lanes[*lane].granted.min(port.lanes[*lane].received + step);
            port.receive(LaneIndex::new(*lane), received, now);
        }
        for lane in &port.lanes {
            prop_assert_eq!((lane.granted, lane.received), (lane.ready, lane.ready));
        }
        prop_assert_eq!(port.credit.outstanding(), Bytes::ZERO);
    }
}
