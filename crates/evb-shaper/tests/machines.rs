//! Tests sources and a builder that are connected in memory. For any order of actions, with broken
//! connections and lost sources, each event must be built exactly once with the right bytes, within
//! the budget and the memory bound of the builder.

#![expect(clippy::unwrap_used, reason = "an unexpected error must fail the test")]

#[path = "machines/pipe.rs"]
mod pipe;
#[path = "machines/world.rs"]
mod world;

use evb_core::{builder::BuilderCore, grant::GrantPolicy, units::Bytes};
use evb_shaper::{Policy, Shaping};
use proptest::prelude::*;
use world::{Faults, Plan, World, payload};

/// Takes random actions, and then lets the run end while no connection breaks any more.
fn run_to_the_end(plan: Plan) -> World {
    let mut world = World::new(plan);
    for _ in 0..30 + 12 * world.plan.events as usize {
        world.step();
    }
    world.drain();
    world
}

/// Checks that each assigned event is built once, with the right bytes, and that a fragment is
/// missing only if readout left it out or its source died.
fn check_events(world: &World) {
    let built: Vec<_> = world.built.keys().copied().collect();
    assert_eq!(
        built,
        world.assigned.iter().copied().collect::<Vec<_>>(),
        "each assigned event is built once"
    );
    for (number, event) in &world.built {
        for part in event.fragments() {
            let source = usize::from(part.source.number()) - 1;
            assert_eq!(
                part.payload,
                payload(world.plan.seed, source, *number),
                "source {source} of {number}"
            );
            assert_eq!(part.timestamp.ticks(), number * 7);
        }
        for source in 0..world.plan.sources {
            let missing = event.missing_sources().any(|id| usize::from(id.number()) == source + 1);
            let present = event.fragments().any(|part| usize::from(part.source.number()) == source + 1);
            let excused = world.withheld.contains(&(source, *number)) || world.is_lost(source);
            assert!(!(missing && present));
            assert!(present || excused, "source {source} of event {number} is gone without a reason");
            assert!(!present || !world.withheld.contains(&(source, *number)));
            assert!(
                present || missing || world.is_lost(source),
                "an absent fragment has to be listed as missing"
            );
        }
    }
}

/// Checks that no slot and, if all sources live, no grant is left over.
fn check_that_nothing_is_left(world: &World) {
    assert_eq!(world.builder.slots_used(), 0);
    // Only the last source may die, and its grants may stay.
    if !world.is_lost(world.plan.sources - 1) {
        assert_eq!(world.builder.policy().outstanding(), Bytes::ZERO);
    }
}

/// Checks that the reports account for every event and fragment, and the builder's memory bound.
fn check_counters(world: &World) {
    let report = world.builder_report();
    let assigned = world.assigned.len() as u64;
    assert_eq!(report.complete + report.incomplete + report.rejected + report.lost, assigned);
    assert_eq!(report.written, report.complete + report.incomplete);
    let bound = BuilderCore::<Policy>::memory_bound(world.builder.config()).count();
    assert!(report.memory_peak_bytes <= 2 * bound, "{} of {bound}", report.memory_peak_bytes);
    for (source, lane) in report.lanes.iter().enumerate() {
        assert_eq!((lane.duplicate, lane.crc_errors, lane.unexpected), (0, 0, 0));
        if !world.is_lost(source) {
            assert_eq!(lane.fragments + lane.missing, assigned, "source {source}");
        }
        let sent = world.source_report(source);
        let dropped = sent.inhibited + sent.closed + sent.unexpected + sent.repeats;
        assert_eq!(sent.pushed, dropped + sent.committed + sent.uncommitted, "source {source}");
        if !world.is_lost(source) {
            assert_eq!(sent.uncommitted, 0);
            assert_eq!(sent.committed, lane.fragments + lane.late);
        }
    }
}

fn shapings() -> impl Strategy<Value = (Shaping, Option<Bytes>)> {
    let credit = |budget: u64, chunk: u64, sources_at_once| {
        let budget = Bytes::new(budget);
        (
            Shaping::Credit { budget, groups: Vec::new(), chunk: Bytes::new(chunk), sources_at_once },
            Some(budget),
        )
    };
    prop_oneof![
        (600u64..20_000, 64u64..9000).prop_map(move |(budget, chunk)| credit(budget, chunk, None)),
        (2000u64..20_000, 64u64..9000, 1usize..3).prop_map(move |(b, c, n)| credit(b, c, Some(n))),
        (256u64..9000).prop_map(|window| (Shaping::Window { window: Bytes::new(window) }, None)),
        Just((Shaping::None, None)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5000) })]

    #[test]
    fn any_order_builds_every_event_once(
        seed: u64,
        sources in 1usize..5,
        slots in 1usize..6,
        events in 1u64..16,
        (shaping, budget) in shapings(),
        connections_break: bool,
        sloppy_readout: bool,
        loses_a_source: bool,
    ) {
        let loses_a_source = loses_a_source && sources > 1;
        let faults = Faults { connections_break, sloppy_readout, loses_a_source };
        let world = run_to_the_end(Plan { seed, sources, slots, events, shaping, budget, faults });
        check_events(&world);
        check_counters(&world);
        check_that_nothing_is_left(&world);
    }
}
