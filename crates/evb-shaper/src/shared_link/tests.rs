use core::time::Duration;

use evb_core::{
    index::LaneIndex,
    time::Instant,
    units::{Bytes, Rate},
};
use proptest::prelude::*;

use super::SharedLink;
use crate::{
    cost::{ByteMeasure, CELL, PacketCost, WireBytes},
    link_plan::LinkPlan,
    pace::Pace,
};

const START: Instant = Instant::from_nanos(1_000_000_000);
const MEGABIT: u64 = 1_000_000;

fn rate(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * MEGABIT)
}

fn pace(megabits: u64, burst: u64) -> Pace {
    Pace { rate: rate(megabits), burst: Bytes::new(burst), measure: ByteMeasure::Line }
}

/// The traffic that a simulated lane has to send.
#[derive(Clone, Copy, Debug)]
enum Offer {
    /// The lane always has something to send.
    Greedy,
    /// The lane gets data at this rate, in Mbit/s.
    Steady(u64),
    /// No traffic.
    Idle,
}

/// The pace, offer and train size of a lane.
type AnyLane = (Option<Pace>, Offer, u64);

/// A shared link whose driver wakes up late, with lanes that each send trains of a fixed size.
struct World {
    link: SharedLink,
    offers: Vec<(Offer, Bytes)>,
    /// Line bytes that each lane has sent.
    sent: Vec<u64>,
    /// Lane, time and line bytes of each departure.
    departed: Vec<(usize, Instant, u64)>,
}

impl World {
    fn new(plan: &LinkPlan, lanes: &[AnyLane]) -> Self {
        let link = SharedLink::new(plan, lanes.iter().map(|(pace, ..)| *pace));
        let offers = lanes.iter().map(|(_, offer, size)| (*offer, Bytes::new(*size))).collect();
        Self { link, offers, sent: vec![0; lanes.len()], departed: Vec::new() }
    }

    fn run(&mut self, time: Duration, lead: Duration, lateness: &[u64]) {
        let (mut now, end) = (START, START + time);
        for late in lateness.iter().cycle() {
            let (offers, sent) = (&self.offers, &mut self.sent);
            let offered = |lane: LaneIndex, sent: u64| match offers[lane].0 {
                Offer::Greedy => u64::MAX,
                Offer::Steady(megabits) => (rate(megabits) * now.since(START)).count().saturating_sub(sent),
                Offer::Idle => 0,
            };
            LaneIndex::all(offers.len()).for_each(|lane| self.link.note_news(lane));
            let until = loop {
                let demand = |lane: LaneIndex| {
                    let size = offers[lane].1;
                    let wire = WireBytes { line: size, buffer: size };
                    (offered(lane, sent[lane]) >= size.count()).then_some(wire)
                };
                match self.link.poll(now, lead, demand) {
                    Ok(permit) => {
                        let size = offers[permit.lane].1.count();
                        sent[permit.lane] += size;
                        self.departed.push((permit.lane.get(), permit.at, size));
                    }
                    Err(until) => break until,
                }
            };
            // New data may come every ten microseconds.
            let next = until.unwrap_or(Instant::FAR_FUTURE).min(now + Duration::from_micros(10));
            now = next.max(now) + Duration::from_nanos(*late);
            if now >= end {
                return;
            }
        }
    }

    /// Returns the total rate of the selected lanes in the second half of a run, in Mbit/s.
    fn rate(&self, lanes: impl Fn(usize) -> bool, time: Duration) -> f64 {
        let half = START + time / 2;
        let late = self.departed.iter().filter(|(lane, at, _)| lanes(*lane) && *at >= half);
        late.map(|(.., size)| *size).sum::<u64>() as f64 * 8.0 / (time.as_secs_f64() / 2.0) / 1e6
    }

    /// Checks that the selected lanes together never send more than `rate × t + most` in any
    /// interval.
    fn check_never_above(&self, lanes: impl Fn(usize) -> bool, rate: Rate, most: Bytes) {
        // This simulates a leaky bucket that drains at `rate`: its level exceeds `most` exactly if
        // some interval that ends now had too many bytes.
        let (mut level, mut last) = (0_i128, START);
        let top = i128::from(most.count() + 2) * 8_000_000_000;
        for (_, at, size) in self.departed.iter().filter(|(lane, ..)| lanes(*lane)) {
            let carried =
                i128::from(at.since(last).as_nanos() as u64 + 1) * i128::from(rate.bits_per_second());
            level = (level - carried).max(0) + i128::from(*size) * 8_000_000_000;
            last = *at;
            assert!(level <= top, "{} bytes beyond {rate}", level / 8_000_000_000);
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn lanes_share_the_ceiling_and_leave_the_rest_of_the_link() {
    let plan = LinkPlan::new(pace(100, 20_000)).with_ceiling(rate(90));
    let lanes = [
        (None, Offer::Greedy, 1538),
        (None, Offer::Greedy, 9000),
        (Some(pace(20, 10_000)), Offer::Greedy, 1538),
        (None, Offer::Steady(4), 200),
        (None, Offer::Idle, 1538),
    ];
    let mut world = World::new(&plan, &lanes);
    world.run(SECOND, Duration::ZERO, &[0, 50_000]);
    let found = [0, 1, 2, 3, 4].map(|wanted| world.rate(|lane| lane == wanted, SECOND));
    // Greedy lanes without a pace share equally what the others leave, whatever their trains.
    for (found, asked) in found.iter().zip([33.0, 33.0, 20.0, 4.0]) {
        assert!((found / asked - 1.0).abs() < 0.01, "{found:?}");
    }
    assert!(found[4] < f64::EPSILON, "{found:?}");
}

#[test]
fn lanes_leave_room_for_control_messages() {
    let plan = LinkPlan::new(pace(100, 20_000));
    let mut world = World::new(&plan, &[(None, Offer::Greedy, 1538)]);
    let control = WireBytes { line: Bytes::new(12_500), buffer: Bytes::new(12_500) };
    for _ in 0..5 {
        world.link.charge_link(control, START);
    }
    // The 62 500 bytes of control messages take 5 ms on the link; after that, the lane has the
    // whole link.
    world.run(Duration::from_millis(105), Duration::ZERO, &[0]);
    assert_eq!(world.departed[0].1, START + Duration::from_millis(5));
    assert!((world.rate(|_| true, Duration::from_millis(105)) - 100.0).abs() < 1.0);
}

#[test]
fn trains_that_are_handed_out_early_have_their_own_times() {
    let plan = LinkPlan::new(pace(100, 20_000));
    let lanes = [(Some(pace(30, 10_000)), Offer::Greedy, 1538), (None, Offer::Greedy, 1538)];
    let mut world = World::new(&plan, &lanes);
    world.run(SECOND, Duration::from_millis(1), &[0, 400_000]);
    assert!((world.rate(|lane| lane == 0, SECOND) - 30.0).abs() < 0.1);
    assert!((world.rate(|lane| lane == 1, SECOND) - 70.0).abs() < 0.2);
    assert!(world.departed.is_sorted_by_key(|(_, at, _)| *at));
}

#[test]
fn what_does_not_exist_is_not_charged() {
    let mut link = SharedLink::new(&LinkPlan::unlimited(), [None]);
    let wire = PacketCost::tcp(1500, CELL).wire(Bytes::new(1));
    link.charge_link(wire, START);
    link.charge_lane(LaneIndex::new(9), wire, START);
    link.set_pace(LaneIndex::new(9), None, START);
    link.note_news(LaneIndex::new(9));
    link.note_news(LaneIndex::new(0));
    assert_eq!(link.poll(START, Duration::ZERO, |_| Some(wire)).unwrap().lane, LaneIndex::new(0));
    assert_eq!(link.poll(START, Duration::ZERO, |_| None), Err(None));
}

fn offer() -> impl Strategy<Value = Offer> {
    prop_oneof![Just(Offer::Greedy), (1u64..120).prop_map(Offer::Steady), Just(Offer::Idle)]
}

fn any_lane() -> impl Strategy<Value = AnyLane> {
    (proptest::option::weighted(0.3, 1u64..60), offer(), 64u64..6000)
        .prop_map(|(rate, offer, size)| (rate.map(|rate| pace(rate, LANE_BURST)), offer, size))
}

const LINK_BURST: u64 = 30_000;
const LANE_BURST: u64 = 10_000;

/// Returns the rate that a lane could use, in Mbit/s: its data, limited by its pace.
fn asked((pace, offer, _): &AnyLane) -> f64 {
    let offered = match offer {
        Offer::Greedy => f64::INFINITY,
        Offer::Steady(megabits) => *megabits as f64,
        Offer::Idle => 0.0,
    };
    offered.min(pace.map_or(f64::INFINITY, |pace| pace.rate.bytes_per_second() * 8.0 / 1e6))
}

/// Returns a link with lanes of 100 Mbit/s and trains of 12 500 bytes, which take one millisecond.
/// Each lane begins the given number of microseconds after `START`, and its first train has left.
fn staggered(burst: u64, begins: &[u64]) -> (SharedLink, Instant) {
    let paces = begins.iter().map(|_| Some(pace(100, burst)));
    let mut link = SharedLink::new(&LinkPlan::unlimited(), paces);
    let train = WireBytes { line: Bytes::new(12_500), buffer: Bytes::new(12_500) };
    for (lane, begin) in begins.iter().enumerate() {
        let now = START + Duration::from_micros(*begin);
        link.note_news(LaneIndex::new(lane));
        let permit =
            link.poll(now, Duration::ZERO, |of| (of <= LaneIndex::new(lane)).then_some(train)).unwrap();
        assert_eq!((permit.lane.get(), permit.at), (lane, now));
    }
    let last = START + Duration::from_micros(*begins.last().unwrap());
    let until = link.poll(last, Duration::ZERO, |_| Some(train)).unwrap_err().unwrap();
    assert_eq!(until, START + Duration::from_millis(1));
    (link, until)
}

#[test]
fn lanes_whose_times_follow_shortly_go_together() {
    let joined = |burst, begins: &[u64], most| {
        let (link, until) = staggered(burst, begins);
        link.joined(until, Duration::from_micros(most)).since(until).as_micros()
    };
    assert_eq!(joined(125_000, &[0], 500), 0, "a lane that is alone is on time");
    assert_eq!(joined(125_000, &[0, 100, 400, 600], 500), 400);
    assert_eq!(joined(125_000, &[0, 100, 400, 600], 300), 100);
    assert_eq!(joined(125_000, &[0, 100, 400, 600], 0), 0);
    assert_eq!(
        joined(125_000, &[0, 600], 5000),
        0,
        "no train is delayed by more than half its time on the line"
    );
    assert_eq!(
        joined(16_500, &[0, 100, 200], 500),
        100,
        "half of the lateness that the burst makes up for: 160 µs"
    );
    assert_eq!(joined(12_500, &[0, 100], 500), 0, "the burst makes up for no lateness");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_laws_of_link_sharing(
        lanes in proptest::collection::vec(any_lane(), 1..9),
        ceiling in proptest::option::of(20u64..100),
        lateness in proptest::collection::vec(0u64..150_000, 1..8),
        lead in prop_oneof![Just(0u64), 0u64..2_000],
    ) {
        let plan = LinkPlan::new(pace(100, LINK_BURST));
        let plan = ceiling.iter().fold(plan, |plan, megabits| plan.with_ceiling(rate(*megabits)));
        let most = ceiling.unwrap_or(100) as f64;
        let time = Duration::from_millis(800);
        let mut world = World::new(&plan, &lanes);
        world.run(time, Duration::from_micros(lead), &lateness);
        let largest = Bytes::new(lanes.iter().map(|(.., size)| *size).max().unwrap_or_default());
        let rates: Vec<_> = (0..lanes.len()).map(|lane| world.rate(|of| of == lane, time)).collect();

        // The link, the ceiling and the lanes' paces are never exceeded, in any interval.
        world.check_never_above(|_| true, rate(100), Bytes::new(LINK_BURST));
        if let Some(ceiling) = ceiling {
            world.check_never_above(|_| true, rate(ceiling), Bytes::new(LINK_BURST));
        }
        for (lane, (pace, ..)) in lanes.iter().enumerate() {
            if let Some(pace) = pace {
                world.check_never_above(|of| of == lane, pace.rate, pace.burst.max(largest));
            }
        }
        // Neither the link nor the ceiling leaves rate unused while a lane could send.
        let (total, wanted): (f64, f64) = (rates.iter().sum(), lanes.iter().map(asked).sum());
        prop_assert!(total >= wanted.min(most) * 0.98 - 0.5, "{total} of {wanted}: {rates:?} {lanes:?}");
        // No lane gets less than an equal part, unless it asks for less. A pace with a burst of one
        // or two trains cannot make up for all the time that other trains take.
        let part = most / lanes.len() as f64;
        for (lane, found) in lanes.iter().zip(&rates) {
            let unmade = if lane.0.is_some() { 0.12 } else { 0.06 };
            let least = asked(lane).min(part);
            prop_assert!(*found >= least * (1.0 - unmade) - 1.0, "{found} of {least}: {rates:?} {lanes:?}");
        }
    }
}
