use proptest::prelude::*;

use super::bench::{Bench, announcement, at, on_the_lane};
use crate::{
    index::LaneIndex,
    lane::LaneError,
    set::SourceSet,
    wire::control::{Assignments, Heartbeat},
};

/// Makes one random input of a peer. If the input is an error, the lane is disconnected and
/// connected again, as a driver would do.
fn act(bench: &mut Bench, kind: u8, (a, b, wild): (u64, u64, u64)) {
    let (lane, now) = ((wild % 3) as usize, at(wild % 5000));
    let result = match kind {
        0 | 1 => {
            let offset = if wild.is_multiple_of(5) { a } else { bench.ready[lane] };
            let count = wild % 40;
            let items = (0..count).map(|n| announcement((a + n) % 30, (b * n % 20_000) as usize));
            let result = bench.core.handle_announcements(LaneIndex::new(lane), offset, items, now);
            bench.ready[lane] = bench.core.lanes.demands()[lane].ready;
            result
        }
        2 => bench.core.handle_announcements(
            LaneIndex::new(lane),
            wild,
            [announcement(a, b as usize)].into_iter(),
            now,
        ),
        3 | 4 => honest_or_noise(bench, LaneIndex::new(lane), a % 30, b, wild),
        5 => {
            let (steps, times) = (vec![a % 40, b % 3, wild % 2], vec![wild, wild, 0]);
            let roster_version = 1 + (a % 3) as u32;
            let assignments =
                Assignments { roster_version, events: steps, triggered_ns: times, ..Assignments::default() };
            let _ = bench.core.handle_assignments(&assignments, now);
            Ok(())
        }
        6 => {
            bench.core.handle_roster(
                1 + (b % 3) as u32,
                (0..3).filter(|n| a >> n & 1 == 1).collect(),
                SourceSet::default(),
                now,
            );
            bench.core.handle_heartbeat(
                &Heartbeat { sent_ns: a, echo_ns: wild, echo_delay_ns: b, ..Heartbeat::default() },
                now,
            );
            Ok(())
        }
        7 => {
            bench.core.handle_timeout(now);
            Ok(())
        }
        _ => {
            bench.write_all(now);
            Ok(())
        }
    };
    if result.is_err() {
        bench.core.handle_lane_disconnected(LaneIndex::new(lane), now);
        bench.ready[lane] = bench.core.handle_lane_connected(LaneIndex::new(lane), now).announced;
    }
    bench.poll(now);
}

/// Sends data where the next data is expected: as announced, of another event, or noise. Like a
/// driver, it first calls `check_data`.
fn honest_or_noise(
    bench: &mut Bench,
    lane: LaneIndex,
    event: u64,
    length: u64,
    wild: u64,
) -> Result<(), LaneError> {
    let demand = bench.core.lanes.demands()[lane];
    let mut bytes = on_the_lane(event, &vec![wild as u8; length as usize]);
    if !wild.is_multiple_of(3) {
        bytes.truncate((demand.granted - demand.received) as usize);
    }
    let offset = if wild.is_multiple_of(7) { wild } else { demand.received };
    bench.core.check_data(lane, offset, bytes.len() as u32)?;
    bench.core.handle_data(lane, &bytes, at(wild % 5000))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn hostile_peers_neither_panic_nor_fill_the_memory(
        steps in proptest::collection::vec((0u8..9, (0u64..70_000, 0u64..3000, any::<u64>())), 1..80),
    ) {
        let mut bench = Bench::new(3, 4);
        bench.core.handle_roster(1, SourceSet::first(3), SourceSet::default(), at(0));
        for (kind, numbers) in steps {
            act(&mut bench, kind, numbers);
            bench.core.invariants();
            prop_assert!(bench.core.slots_used() <= 4);
            prop_assert!(bench.events.len() <= 4);
            prop_assert!(bench.core.slots.pool().allocated() <= 3 * 4 * 20_000);
        }
        let report = bench.report();
        prop_assert_eq!(report.written, report.complete + report.incomplete);
    }
}
