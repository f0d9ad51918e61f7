use core::{ops::RangeInclusive, time::Duration};

use bytes::BytesMut;
use evb_core::{
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, SourceId},
    index::LaneIndex,
    source::{SourceCore, SourceCoreConfig},
    time::Instant,
    units::{Bytes, Rate},
    wire::control::{Decisions, Verdict},
};
use proptest::prelude::*;

use super::{Departure, PacedSource};
use crate::{
    cost::{ByteMeasure, CELL, PacketCost},
    link_plan::LinkPlan,
    pace::Pace,
    pacing::Pacing,
};

const START: Instant = Instant::from_nanos(7_000_000_000);
const MEGABIT: u64 = 1_000_000;

fn cost() -> PacketCost {
    PacketCost::tcp(1500, CELL)
}

fn pace(bits_per_second: u64, burst: u64, measure: ByteMeasure) -> Pace {
    Pace { rate: Rate::from_bits_per_second(bits_per_second), burst: Bytes::new(burst), measure }
}

/// Returns a source with the given number of lanes, all connected and without fragments.
fn empty(pacing: Pacing, lanes: u16) -> PacedSource {
    let config = SourceCoreConfig {
        id: SourceId::new(1),
        max_fragment: Bytes::mib(1),
        orphan_timeout: Duration::from_secs(1),
        heartbeat: Duration::from_secs(1),
        builders: (1..=lanes).map(BuilderId::new).collect(),
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::MAX,
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut source = PacedSource::new(SourceCore::new(config, START), pacing);
    for lane in 0..usize::from(lanes) {
        source.core_mut().handle_lane_connected(LaneIndex::new(lane), 0, 0).unwrap();
    }
    source
}

/// Adds `count` events from `first` on, each with a fragment of `length` bytes, assigned to the
/// lanes in turn. The fragments are announced and granted. All earlier fragments must have the same
/// length.
fn fill(source: &mut PacedSource, first: u64, count: u64, length: usize) {
    let lanes = source.core().lane_count() as u64;
    let mut decisions = Decisions::starting(EventId::new(first));
    for event in first..first + count {
        decisions.extend(1, Verdict::Assigned(BuilderId::new(1 + (event % lanes) as u16)));
        let fragment = Fragment::new(EventId::new(event), Timestamp::default(), vec![0; length]);
        source.core_mut().push(fragment, START).unwrap();
    }
    source.core_mut().handle_decisions(&decisions).unwrap();
    for lane in 0..lanes {
        // Each call of `announce` appends at least one announcement, so `count` calls are enough.
        (0..count).for_each(|_| source.announce(LaneIndex::new(lane as usize), START, &mut BytesMut::new()));
        let events = (1..first + count).filter(|event| event % lanes == lane).count() as u64;
        source.core_mut().handle_grant(LaneIndex::new(lane as usize), events * (length as u64 + 16)).unwrap();
    }
}

/// Returns a source with `fragments` fragments ready and granted on each of its lanes.
fn source(pacing: Pacing, lanes: u16, fragments: u64, length: usize) -> PacedSource {
    let mut source = empty(pacing, lanes);
    fill(&mut source, 1, fragments * u64::from(lanes), length);
    source
}

/// Returns all departures with the times at which they were handed out. The driver polls at the
/// times that the source asks for, and later by `lateness` nanoseconds.
fn drive(source: &mut PacedSource, lateness: &[u64]) -> Vec<(Instant, Departure)> {
    let (mut now, mut departed) = (START, Vec::new());
    for late in lateness.iter().cycle() {
        while let Some(departure) = source.poll_departure(now) {
            departed.push((now, departure));
        }
        let Some(until) = source.held_until else { break };
        now = until.max(now) + Duration::from_nanos(*late);
    }
    assert!(
        (0..source.core().lane_count()).all(|lane| source.core().sendable(LaneIndex::new(lane)) == 0),
        "it never stands still"
    );
    departed
}

/// Returns the rate at which a lane's bytes depart, by the given measure, from the first departure
/// to the last.
fn rate_of(departed: &[(Instant, Departure)], lane: LaneIndex, measure: ByteMeasure) -> f64 {
    let of_lane: Vec<_> = departed.iter().filter(|(_, departure)| departure.lane == lane).collect();
    let (last, rest) = of_lane.split_last().unwrap();
    let bytes = |departure: &Departure| {
        let length = departure.range.end - departure.range.start;
        cost().wire(Bytes::new(length + 16)).by(measure).count()
    };
    let sum: u64 = rest.iter().map(|(_, departure)| bytes(departure)).sum();
    let time = last.1.at.since(rest[0].1.at).as_secs_f64();
    sum as f64 * 8.0 / time
}

#[test]
fn without_a_pace_lanes_take_turns() {
    let mut source = source(Pacing::none(cost()), 2, 3, 1 << 20);
    let departed = drive(&mut source, &[0]);
    let lanes: Vec<_> = departed.iter().map(|(_, gone)| (gone.lane.get(), gone.range.start)).collect();
    // A fragment of 1 MiB with its header is a little more than a turn.
    let turn = (1 << 20) + 16;
    assert_eq!(lanes[..4], [(0, 0), (1, 0), (0, turn), (1, turn)]);
    assert!(departed.iter().all(|(now, gone)| gone.at == *now));
    assert_eq!(source.counters().lateness.count(), 0);
}

#[test]
fn the_rate_counts_what_it_says() {
    for measure in [ByteMeasure::Line, ByteMeasure::Buffer] {
        for megabits in [10, 100, 316, 950] {
            let pace = pace(megabits * MEGABIT, 60_000, measure);
            let mut source = source(Pacing::uniform(Some(pace), 1, cost()), 1, 200, 64_000);
            let departed = drive(&mut source, &[0, 30_000, 60_000]);
            let found = rate_of(&departed, LaneIndex::new(0), measure);
            // Announcements were made at the beginning and are charged there, so they do not affect
            // the rate.
            let error = found / (megabits * MEGABIT) as f64 - 1.0;
            assert!(error.abs() < 1e-3, "{megabits} Mbit/s, {measure:?}: {error:e}");
        }
    }
}

/// Checks that the pace counts all bytes of small fragments that come one by one, each with an
/// announcement and a packet of its own.
#[test]
fn announcements_are_paid_for() {
    // An announcement takes 16 + 24 bytes, and 66 for packet headers unless it shares the packet of
    // the data. The data take 16 + 16 + 1000 bytes and 66 for packet headers.
    pay_for_announcements(cost(), 16 + 24 + 32 + 1000 + 66..=16 + 24 + 66 + 32 + 1000 + 66);
    // In datagrams, an announcement takes 16 + 24 bytes and the data 16 + 1000 bytes, each with 82
    // for packet headers.
    let each = 16 + 24 + 82 + 16 + 1000 + 82;
    pay_for_announcements(PacketCost::udp(1500, CELL), each..=each);
}

fn pay_for_announcements(cost: PacketCost, expected: RangeInclusive<u64>) {
    let rate = 8 * MEGABIT;
    let pacing = Pacing::uniform(Some(pace(rate, 60_000, ByteMeasure::Buffer)), 1, cost);
    let mut source = empty(pacing, 1);
    let (mut now, mut event) = (START, 1);
    while now < START + Duration::from_secs(1) {
        fill(&mut source, event, 1, 1000);
        event += 1;
        while source.poll_departure(now).is_some() {}
        // The next fragment comes while the line is still busy: its announcement leaves at once,
        // and its data wait.
        while let Some(until) = source.held_until {
            now = until;
            while source.poll_departure(now).is_some() {}
        }
        now += Duration::from_micros(500);
    }
    let wire = source.counters().wire.buffer.count() as f64;
    let each = source.counters().wire.buffer.count() / source.counters().departures;
    assert!(expected.contains(&each), "{each}");
    assert!(wire * 8.0 <= rate as f64 * 1.001 + 8.0 * 2000.0, "{wire} bytes in a second");
}

#[test]
fn trains_are_short_at_low_rates_and_long_at_high_ones() {
    let train = |bits, burst| {
        let pacing = Pacing::uniform(Some(pace(bits, burst, ByteMeasure::Line)), 1, cost());
        pacing.train(pacing.lanes[0].as_ref()).unwrap()
    };
    assert_eq!(train(10 * MEGABIT, 1_000_000), 1448 - 16);
    assert_eq!(train(30 * MEGABIT, 1_000_000), 3 * 1448 - 16, "a millisecond of the rate");
    assert_eq!(train(300 * MEGABIT, 1_000_000), 25 * 1448 - 16);
    assert_eq!(train(300 * MEGABIT, 20 * 1538), 10 * 1448 - 16, "half a burst");
    assert_eq!(train(950 * MEGABIT, 3 * 1538), 1448 - 16, "half a burst");
    assert_eq!(train(100_000 * MEGABIT, 10_000_000), 64_000);
    let pace = pace(100_000 * MEGABIT, 10_000_000, ByteMeasure::Line);
    let udp = Pacing::uniform(Some(pace), 1, PacketCost::udp(1500, CELL));
    assert_eq!(udp.train(Some(&pace)), Some(44 * 1432));
}

#[test]
fn three_destinations_share_a_full_link() {
    let link = pace(950 * MEGABIT, 100_000, ByteMeasure::Line);
    // The pace of one lane is below a third of the link, and the other two lanes are not paced.
    let pacing = Pacing {
        lanes: vec![Some(pace(100 * MEGABIT, 20_000, ByteMeasure::Line)), None, None],
        link: LinkPlan::new(link),
        ..Pacing::none(cost())
    };
    let mut source = source(pacing, 3, 100, 64_000);
    let departed = drive(&mut source, &[0, 20_000]);
    // The rates are measured while all lanes have something to send.
    let last =
        |lane: LaneIndex| departed.iter().filter(|(_, gone)| gone.lane == lane).map(|(now, _)| *now).max();
    let end = LaneIndex::all(3).filter_map(last).min().unwrap();
    let shared: Vec<_> = departed.iter().filter(|(now, _)| *now <= end).cloned().collect();
    let rates =
        [0, 1, 2].map(|lane| rate_of(&shared, LaneIndex::new(lane), ByteMeasure::Line) / MEGABIT as f64);
    for (found, asked) in rates.iter().zip([100.0, 425.0, 425.0]) {
        assert!((found / asked - 1.0).abs() < 0.005, "{rates:?}");
    }
}

#[test]
fn an_executor_that_holds_trains_gets_them_ahead() {
    let lead = Duration::from_micros(500);
    let paced = Some(pace(100 * MEGABIT, 20_000, ByteMeasure::Line));
    let spacing = Duration::from_micros(100);
    let pacing = Pacing { lead, spacing, ..Pacing::uniform(paced, 1, cost()) };
    let mut source = source(pacing, 1, 10, 10_000);
    let departed = drive(&mut source, &[0, 100_000]);
    assert!(departed.iter().all(|(now, gone)| *now <= gone.at && gone.at <= *now + lead));
    assert!(departed.iter().skip(5).any(|(now, gone)| gone.at.since(*now) > lead / 2));
    // Departure times are spaced as on the line, no matter when the trains were handed out.
    for pair in departed.windows(2) {
        let packet = Bytes::new(1538) / Rate::from_bits_per_second(100 * MEGABIT);
        let gap = pair[1].1.at.since(pair[0].1.at);
        assert!(gap.abs_diff(packet) <= Duration::from_nanos(1), "{gap:?}");
    }
    assert_eq!(source.counters().lateness.max(), Duration::ZERO);
}

#[test]
fn lateness_is_counted() {
    let paced = Some(pace(100 * MEGABIT, 12_500, ByteMeasure::Line));
    let mut source = source(Pacing::uniform(paced, 1, cost()), 1, 10, 14_320);
    drive(&mut source, &[40_000]);
    let counters = source.counters();
    assert_eq!(counters.lateness.count(), counters.departures - 1, "the first did not wait");
    let p50 = counters.lateness.quantile(0.5).as_nanos();
    assert!((40_000..=45_000).contains(&p50), "{p50}");
    assert_eq!(counters.forfeited, Duration::ZERO);
    // The burst of 12 500 bytes makes up for one millisecond; these departures are later.
    fill(&mut source, 11, 5, 14_320);
    drive(&mut source, &[3_000_000]);
    assert!(source.counters().forfeited > Duration::from_millis(8));
}

/// Checks sixteen lanes with different rates, so that their departure times shift against each
/// other: the driver wakes up at most twice per spacing for all lanes together, and each lane keeps
/// its rate.
#[test]
fn lanes_share_wake_ups() {
    let rates: Vec<u64> = (0..16).map(|lane| (40 + lane) * MEGABIT).collect();
    let paces = rates.iter().map(|rate| Some(pace(*rate, rate / 800, ByteMeasure::Line)));
    let pacing = Pacing { lanes: paces.collect(), ..Pacing::none(cost()) };
    let spacing = pacing.spacing;
    let mut source = source(pacing, 16, 40, 64_000);
    let departed = drive(&mut source, &[0, 30_000]);
    let mut wakes: Vec<Instant> = departed.iter().map(|(now, _)| *now).collect();
    wakes.dedup();
    let time = wakes.last().unwrap().since(START);
    let most = 2 * (time.as_nanos() / spacing.as_nanos()) as usize;
    assert!(departed.len() > 4 * wakes.len(), "{} trains by {} wake-ups", departed.len(), wakes.len());
    assert!(wakes.len() <= most, "{} wake-ups in {time:?}", wakes.len());
    for (lane, rate) in rates.iter().enumerate() {
        let error = rate_of(&departed, LaneIndex::new(lane), ByteMeasure::Line) / *rate as f64 - 1.0;
        assert!(error.abs() < 2e-3, "{rate}: {error:e}");
    }
    let counters = source.counters();
    assert_eq!(counters.forfeited, Duration::ZERO);
    let late = counters.lateness.quantile(1.0);
    // The histogram rounds up by at most a tenth.
    assert!(late <= (spacing / 2 + Duration::from_micros(30)) * 11 / 10, "{late:?}");
}

#[test]
fn a_pace_may_change() {
    let slow = pace(10 * MEGABIT, 20_000, ByteMeasure::Line);
    let mut source = source(Pacing::uniform(Some(slow), 1, cost()), 1, 10, 64_000);
    assert!(source.poll_departure(START).is_some());
    assert!(source.poll_departure(START).is_none());
    assert_eq!(source.held_until, Some(START + Duration::from_nanos(1_230_400)));
    source.set_pace(
        LaneIndex::new(0),
        Some(Pace { rate: Rate::from_bits_per_second(100 * MEGABIT), ..slow }),
        START,
    );
    assert!(source.poll_departure(START).is_none());
    assert_eq!(source.held_until, Some(START + Duration::from_nanos(123_040)));
    source.set_pace(LaneIndex::new(0), None, START);
    assert!(source.poll_departure(START).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Checks that no lane sends more than rate × T + burst line bytes in any time T, no matter how
    /// late its timeouts are handled. A burst is at least one packet; 2 ns and 1 byte allow for
    /// rounding.
    #[test]
    fn a_paced_lane_never_exceeds_its_rate_and_burst(
        mbits in 10u64..20_000,
        burst in 0u64..40_000,
        length in 1usize..5000,
        lateness in proptest::collection::vec(0u64..100_000, 16),
    ) {
        let (rate, measure) = (Rate::from_bits_per_second(mbits * MEGABIT), ByteMeasure::Line);
        let mut source = source(Pacing::uniform(Some(pace(mbits * MEGABIT, burst, measure)), 2, cost()), 2, 10, length);
        let departed = drive(&mut source, &lateness);
        let packet = cost().packet_line();
        for lane in 0..2 {
            let of_lane: Vec<_> = departed.iter().filter(|(_, gone)| gone.lane == LaneIndex::new(lane)).collect();
            for from in 0..of_lane.len() {
                let mut sum = Bytes::ZERO;
                for (now, gone) in &of_lane[from..] {
                    prop_assert_eq!(*now, gone.at);
                    sum += cost().line(Bytes::new(gone.range.end - gone.range.start));
                    let time = now.since(of_lane[from].0) + Duration::from_nanos(2);
                    prop_assert!(sum <= rate * time + Bytes::new(burst).max(packet) + Bytes::new(1));
                }
            }
        }
    }
}
