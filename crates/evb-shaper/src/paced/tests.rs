use core::time::Duration;

use bytes::BytesMut;
use evb_core::{
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, SourceId},
    source::{SourceConfig, SourceCore},
    time::Instant,
    units::{Bytes, Rate},
    wire::control::{Decisions, Verdict},
};
use proptest::prelude::*;

use super::{Pace, PacedSource};
use crate::cost::{CELL, PacketCost};

/// A source with fragments of that many bytes each ready and granted on both of its lanes.
fn source(pace: Option<Pace>, fragments: u64, length: usize, now: Instant) -> PacedSource {
    let config = SourceConfig {
        id: SourceId::new(1),
        max_fragment: Bytes::mib(1),
        orphan_timeout: Duration::from_secs(1),
        heartbeat: Duration::from_secs(1),
        builders: vec![BuilderId::new(1), BuilderId::new(2)],
        on_demand: false,
        decided: EventId::default(),
    };
    let mut core = SourceCore::new(config, now);
    let mut decisions = Decisions::starting(EventId::FIRST);
    for event in 1..=2 * fragments {
        let builder = BuilderId::new(1 + (event % 2) as u16);
        decisions.extend(1, Verdict::Assigned(builder));
        core.push(Fragment::new(EventId::new(event), Timestamp::default(), vec![0; length]), now).unwrap();
    }
    core.handle_decisions(&decisions).unwrap();
    for lane in 0..2 {
        core.handle_lane_connected(lane, 0, 0).unwrap();
        core.announce(lane, &mut BytesMut::new());
        core.handle_grant(lane, fragments * (length as u64 + 16)).unwrap();
    }
    PacedSource::new(core, pace)
}

#[test]
fn without_a_pace_lanes_take_turns() {
    let now = Instant::from_nanos(1);
    let mut source = source(None, 3, 1 << 20, now);
    let lanes: Vec<_> =
        core::iter::from_fn(|| source.poll_departure(now)).map(|(lane, range)| (lane, range.start)).collect();
    let turn = 1 << 20;
    assert_eq!(lanes[..4], [(0, 0), (1, 0), (0, turn), (1, turn)]);
    assert_eq!((source.sendable(0), source.sendable(1)), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Driven by its own timeouts, however late they are served, no lane exceeds rate × T + burst in line bytes.
    #[test]
    fn a_paced_lane_never_exceeds_its_rate_and_burst(
        mbits in 10u64..20_000,
        burst in 0u64..40_000,
        length in 1usize..5000,
        lateness in proptest::collection::vec(0u64..100_000, 16),
    ) {
        let cost = PacketCost::tcp(1500, CELL);
        let rate = Rate::from_bits_per_second(mbits * 1_000_000);
        let mut now = Instant::from_nanos(7_000_000_000);
        let mut source = source(Some(Pace { rate, burst: Bytes::new(burst), cost }), 10, length, now);
        let mut departed: [Vec<(Instant, Bytes)>; 2] = Default::default();
        for late in lateness.iter().cycle().take(5000) {
            while let Some((lane, range)) = source.poll_departure(now) {
                departed[lane].push((now, cost.line(Bytes::new(range.end - range.start))));
            }
            if source.sendable(0) + source.sendable(1) == 0 {
                break;
            }
            now = source.held_until.unwrap().max(now) + Duration::from_nanos(*late);
        }
        prop_assert_eq!(source.sendable(0) + source.sendable(1), 0, "it never stands still");
        let most = Bytes::new(burst).max(cost.line(cost.train(Bytes::ZERO)));
        for lane in departed {
            for from in 0..lane.len() {
                let mut sum = Bytes::ZERO;
                for (at, bytes) in &lane[from..] {
                    sum += *bytes;
                    let time = at.since(lane[from].0) + Duration::from_nanos(1);
                    prop_assert!(sum <= rate * time + most + Bytes::new(1));
                }
            }
        }
    }
}
