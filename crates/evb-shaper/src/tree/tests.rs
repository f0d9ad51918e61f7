use core::time::Duration;

use evb_core::{
    index::{ClassIndex, LaneIndex},
    time::Instant,
    units::{Bytes, Rate},
};
use proptest::prelude::*;

use super::ClassTree;
use crate::{
    cost::{ByteMeasure, CELL, PacketCost, WireBytes},
    link::{Class, LinkPlan, LinkPlanError},
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

fn class(name: &str, guaranteed: Option<u64>, ceiling: Option<u64>, priority: u8) -> Class {
    Class { name: name.into(), guaranteed: guaranteed.map(rate), ceiling: ceiling.map(rate), priority }
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

/// A class tree whose driver wakes up late, with lanes that each send trains of a fixed size.
struct World {
    tree: ClassTree,
    offers: Vec<(Offer, Bytes)>,
    /// Line bytes that each lane has sent.
    sent: Vec<u64>,
    /// Lane, time and line bytes of each departure.
    departed: Vec<(usize, Instant, u64)>,
}

impl World {
    fn new(plan: &LinkPlan, lanes: &[(usize, Option<Pace>, Offer, u64)]) -> Self {
        let tree =
            ClassTree::new(plan, lanes.iter().map(|(class, pace, ..)| (ClassIndex::new(*class), *pace)));
        let offers = lanes.iter().map(|(.., offer, size)| (*offer, Bytes::new(*size))).collect();
        Self { tree, offers, sent: vec![0; lanes.len()], departed: Vec::new() }
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
            LaneIndex::all(offers.len()).for_each(|lane| self.tree.note_news(lane));
            let until = loop {
                let demand = |lane: LaneIndex| {
                    let size = offers[lane].1;
                    let wire = WireBytes { line: size, buffer: size };
                    (offered(lane, sent[lane]) >= size.count()).then_some(wire)
                };
                match self.tree.poll(now, lead, demand) {
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
fn control_keeps_its_guarantee_beside_greedy_data() {
    let classes = vec![
        class("data", Some(80), None, 1),
        class("control", Some(5), None, 0),
        class("bulk", None, None, 2),
    ];
    let plan = LinkPlan::new(pace(100, 20_000), classes).unwrap();
    let lanes = [
        (0, None, Offer::Greedy, 1538),
        (0, None, Offer::Greedy, 1538),
        (1, None, Offer::Steady(4), 200),
        (2, None, Offer::Greedy, 9000),
    ];
    let mut world = World::new(&plan, &lanes);
    world.run(SECOND, Duration::ZERO, &[0, 50_000]);
    let found = [0, 1, 2, 3].map(|wanted| world.rate(|lane| lane == wanted, SECOND));
    // By its priority, the class `data` borrows all that `control` leaves; `bulk` gets its
    // guaranteed hundredth.
    for (found, asked) in found.iter().zip([47.5, 47.5, 4.0, 1.0]) {
        assert!((found / asked - 1.0).abs() < 0.01, "{found:?}");
    }
}

#[test]
fn equals_share_the_excess_by_their_guarantees() {
    let classes = vec![class("a", Some(10), None, 0), class("b", Some(30), None, 0)];
    let plan = LinkPlan::new(pace(100, 20_000), classes).unwrap();
    let lanes = [(0, None, Offer::Greedy, 1000), (1, None, Offer::Greedy, 1500)];
    let mut world = World::new(&plan, &lanes);
    world.run(SECOND, Duration::ZERO, &[0]);
    assert!((world.rate(|lane| lane == 0, SECOND) - 25.0).abs() < 0.25);
    assert!((world.rate(|lane| lane == 1, SECOND) - 75.0).abs() < 0.75);
}

#[test]
fn what_asks_nobody_is_made_room_for() {
    let classes = vec![class("data", Some(80), None, 1), class("control", Some(20), None, 0)];
    let plan = LinkPlan::new(pace(100, 20_000), classes).unwrap();
    let mut world = World::new(&plan, &[(0, None, Offer::Greedy, 1538)]);
    let control = WireBytes { line: Bytes::new(12_500), buffer: Bytes::new(12_500) };
    for _ in 0..5 {
        world.tree.charge(ClassIndex::new(1), control, START);
    }
    // The 62 500 bytes of control messages take 5 ms on the link; after that, data has the whole
    // link.
    world.run(Duration::from_millis(105), Duration::ZERO, &[0]);
    assert_eq!(world.departed[0].1, START + Duration::from_millis(5));
    assert!((world.rate(|_| true, Duration::from_millis(105)) - 100.0).abs() < 1.0);
}

#[test]
fn trains_that_are_handed_out_early_have_their_own_times() {
    let classes = vec![class("data", Some(50), None, 0), class("bulk", Some(50), None, 1)];
    let plan = LinkPlan::new(pace(100, 20_000), classes).unwrap();
    let lanes = [(0, Some(pace(30, 10_000)), Offer::Greedy, 1538), (1, None, Offer::Greedy, 1538)];
    let mut world = World::new(&plan, &lanes);
    world.run(SECOND, Duration::from_millis(1), &[0, 400_000]);
    assert!((world.rate(|lane| lane == 0, SECOND) - 30.0).abs() < 0.1);
    assert!((world.rate(|lane| lane == 1, SECOND) - 70.0).abs() < 0.2);
    assert!(world.departed.is_sorted_by_key(|(_, at, _)| *at));
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let link = pace(100, 20_000);
    assert_eq!(LinkPlan::new(link, Vec::new()), Err(LinkPlanError::NoClass));
    let over = LinkPlan::new(link, vec![class("a", Some(100), None, 0), class("b", None, None, 0)]);
    assert_eq!(over, Err(LinkPlanError::Overcommitted { guaranteed: rate(101), link: rate(100) }));
    let above = LinkPlan::new(link, vec![class("a", Some(50), Some(40), 0)]);
    assert!(above.unwrap_err().to_string().contains("`a` is guaranteed 50 Mbit/s and may take at most 40"));
    assert!(LinkPlan::new(link, vec![class("a", None, None, 0); 100]).is_ok());
}

#[test]
fn what_does_not_exist_is_not_charged() {
    let plan = LinkPlan::unlimited();
    let mut tree = ClassTree::new(&plan, [(ClassIndex::new(7), None)]);
    let wire = PacketCost::tcp(1500, CELL).wire(Bytes::new(1));
    tree.charge(ClassIndex::new(9), wire, START);
    tree.charge_lane(LaneIndex::new(9), wire, START);
    tree.set_pace(LaneIndex::new(9), None, START);
    tree.note_news(LaneIndex::new(9));
    tree.note_news(LaneIndex::new(0));
    assert_eq!(tree.poll(START, Duration::ZERO, |_| Some(wire)).unwrap().lane, LaneIndex::new(0));
    assert_eq!(tree.poll(START, Duration::ZERO, |_| None), Err(None));
}

fn offer() -> impl Strategy<Value = Offer> {
    prop_oneof![Just(Offer::Greedy), (1u64..120).prop_map(Offer::Steady), Just(Offer::Idle)]
}

type AnyClass = (u64, Option<u64>, u8, Vec<(Option<u64>, Offer, u64)>);

fn any_class() -> impl Strategy<Value = AnyClass> {
    let lane = (proptest::option::weighted(0.3, 1u64..60), offer(), 64u64..6000);
    let lanes = proptest::collection::vec(lane, 1..4);
    (1u64..100, proptest::option::weighted(0.3, 0u64..60), 0u8..3, lanes)
}

const LINK_BURST: u64 = 30_000;
const LANE_BURST: u64 = 10_000;

struct Drawn {
    plan: LinkPlan,
    guarantees: Vec<u64>,
    ceilings: Vec<Option<u64>>,
    priorities: Vec<u8>,
    lanes: Vec<(usize, Option<Pace>, Offer, u64)>,
}

/// Creates classes whose guarantees have the drawn ratio and add up to `hundredths` of the link.
fn draw(classes: &[AnyClass], hundredths: u64) -> Drawn {
    let sum: u64 = classes.iter().map(|(weight, ..)| weight).sum();
    let guarantees: Vec<_> = classes.iter().map(|(weight, ..)| (weight * hundredths / sum).max(1)).collect();
    let ceilings: Vec<_> =
        classes.iter().zip(&guarantees).map(|((_, extra, ..), own)| extra.map(|extra| own + extra)).collect();
    let priorities: Vec<_> = classes.iter().map(|(_, _, priority, _)| *priority).collect();
    let of_plan = (0..classes.len())
        .map(|index| class("", Some(guarantees[index]), ceilings[index], priorities[index]))
        .collect();
    let plan = LinkPlan::new(pace(100, LINK_BURST), of_plan).unwrap();
    let lane = |class: usize, (rate, offer, size): &(Option<u64>, Offer, u64)| {
        (class, rate.map(|rate| pace(rate, LANE_BURST)), *offer, *size)
    };
    let lanes = classes
        .iter()
        .enumerate()
        .flat_map(|(index, (.., lanes))| lanes.iter().map(move |of| lane(index, of)));
    Drawn { plan, guarantees, ceilings, priorities, lanes: lanes.collect() }
}

/// Returns the rate that a class could use, in Mbit/s: the data of its lanes, limited by their
/// paces and the ceiling of the class.
fn asked(drawn: &Drawn, class: usize) -> f64 {
    let of_class = drawn.lanes.iter().filter(|(of, ..)| *of == class);
    let each = of_class.map(|(_, pace, offer, _)| {
        let offered = match offer {
            Offer::Greedy => f64::INFINITY,
            Offer::Steady(megabits) => *megabits as f64,
            Offer::Idle => 0.0,
        };
        offered.min(pace.map_or(f64::INFINITY, |pace| pace.rate.bytes_per_second() * 8.0 / 1e6))
    });
    let sum: f64 = each.sum();
    sum.min(drawn.ceilings[class].map_or(f64::INFINITY, |ceiling| ceiling as f64))
}

/// Returns a tree with lanes of 100 Mbit/s and trains of 12 500 bytes, which take one millisecond.
/// Each lane begins the given number of microseconds after `START`, and its first train has left.
fn staggered(burst: u64, begins: &[u64]) -> (ClassTree, Instant) {
    let paces = begins.iter().map(|_| (ClassIndex::new(0), Some(pace(100, burst))));
    let mut tree = ClassTree::new(&LinkPlan::unlimited(), paces);
    let train = WireBytes { line: Bytes::new(12_500), buffer: Bytes::new(12_500) };
    for (lane, begin) in begins.iter().enumerate() {
        let now = START + Duration::from_micros(*begin);
        tree.note_news(LaneIndex::new(lane));
        let permit =
            tree.poll(now, Duration::ZERO, |of| (of <= LaneIndex::new(lane)).then_some(train)).unwrap();
        assert_eq!((permit.lane.get(), permit.at), (lane, now));
    }
    let last = START + Duration::from_micros(*begins.last().unwrap());
    let until = tree.poll(last, Duration::ZERO, |_| Some(train)).unwrap_err().unwrap();
    assert_eq!(until, START + Duration::from_millis(1));
    (tree, until)
}

#[test]
fn lanes_whose_times_follow_shortly_go_together() {
    let joined = |burst, begins: &[u64], most| {
        let (tree, until) = staggered(burst, begins);
        tree.joined(until, Duration::from_micros(most)).since(until).as_micros()
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
        classes in proptest::collection::vec(any_class(), 1..5),
        hundredths in 20u64..96,
        lateness in proptest::collection::vec(0u64..150_000, 1..8),
        lead in prop_oneof![Just(0u64), 0u64..2_000],
    ) {
        let drawn = draw(&classes, hundredths);
        let time = Duration::from_millis(800);
        let mut world = World::new(&drawn.plan, &drawn.lanes);
        world.run(time, Duration::from_micros(lead), &lateness);
        let largest = Bytes::new(drawn.lanes.iter().map(|(.., size)| *size).max().unwrap_or_default());
        let class_of = |lane: LaneIndex| drawn.lanes[lane].0;
        let rates: Vec<_> = (0..classes.len()).map(|class| world.rate(|lane| class_of(LaneIndex::new(lane)) == class, time)).collect();
        let total: f64 = rates.iter().sum();

        // The link, the ceilings and the lanes' paces are never exceeded, in any interval.
        world.check_never_above(|_| true, rate(100), Bytes::new(LINK_BURST));
        for (class, ceiling) in drawn.ceilings.iter().enumerate() {
            if let Some(ceiling) = ceiling {
                world.check_never_above(|lane| class_of(LaneIndex::new(lane)) == class, rate(*ceiling), Bytes::new(LINK_BURST));
            }
        }
        for (lane, (_, pace, ..)) in drawn.lanes.iter().enumerate() {
            if let Some(pace) = pace {
                world.check_never_above(|of| of == lane, pace.rate, pace.burst.max(largest));
            }
        }
        // Each class gets its guaranteed rate, or all that it asks for if this is less, so no class
        // starves.
        for (class, found) in rates.iter().enumerate() {
            let least = asked(&drawn, class).min(drawn.guarantees[class] as f64);
            prop_assert!(*found >= least * 0.98 - 0.5, "class {class}: {found} of {least}; {rates:?} {drawn_lanes:?}", drawn_lanes = drawn.lanes);
        }
        // The link is never idle while a lane could send.
        let wanted: f64 = (0..classes.len()).map(|class| asked(&drawn, class)).sum();
        prop_assert!(total >= wanted.min(100.0) * 0.98 - 0.5, "{total} of {wanted}: {rates:?} {:?}", drawn.lanes);
        // No class borrows while a class of higher priority gets less than it asks for.
        for class in 0..classes.len() {
            // A train that becomes due while another is being sent has to wait for its end, and a
            // pace with a burst of one or two trains cannot make up for all of this delay.
            let is_paced = drawn.lanes.iter().any(|(of, pace, ..)| *of == class && pace.is_some());
            let unmade = if is_paced { 0.12 } else { 0.06 };
            let lacks = asked(&drawn, class).min(200.0) - rates[class] > 1.0 + rates[class] * unmade;
            for other in 0..classes.len() {
                if lacks && drawn.priorities[other] > drawn.priorities[class] {
                    let borrowed = rates[other] - drawn.guarantees[other] as f64;
                    prop_assert!(borrowed < 1.0, "class {other} borrows {borrowed} before {class}: {rates:?} {:?}", drawn.lanes);
                }
            }
        }
    }
}
