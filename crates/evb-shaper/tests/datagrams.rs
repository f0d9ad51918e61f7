//! Lanes over datagrams against a network that drops, repeats, delays, reorders and damages, and
//! connections that break: ten thousand random schedules. In all of them, every event is built once
//! and byte for byte, no more is outstanding than the budget, and there is progress. Where the
//! network only drops, the bytes that are really under way are within the budget too.
//!
//! A failure names its seed; `EVB_SEED=<seed> cargo test -p evb-shaper --test datagrams` runs that
//! one alone, and `EVB_SCHEDULES=<n>` runs `n` of them.
#![allow(clippy::unwrap_used)] // an error here is a failed test

#[path = "datagrams/network.rs"]
mod network;
#[path = "datagrams/world.rs"]
mod world;

use world::{Plan, World};

const SCHEDULES: u64 = 10_000;

/// Counts of the faults and recoveries in all schedules: a fault that never occurs tests nothing.
#[derive(Debug, Default)]
struct Seen {
    resends: u64,
    timeouts: u64,
    late_after_loss: u64,
    duplicates: u64,
    stale: u64,
    damaged: u64,
    reconnects: u64,
    joined: u64,
}

fn run(seed: u64, seen: &mut Seen) {
    let guard = Announce(seed);
    let mut world = World::new(Plan::random(seed));
    world.run();
    let counters = world.counters();
    seen.resends += counters.recovery.resends;
    seen.timeouts += counters.recovery.timeouts;
    seen.late_after_loss += counters.recovery.late_after_loss;
    seen.duplicates += counters.recovery.duplicates;
    seen.stale += world.stale;
    seen.damaged += world.network.damaged;
    seen.reconnects += world.reconnects;
    seen.joined += world.joined;
    core::mem::forget(guard);
}

/// Says which seed it was, however the run ended.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        eprintln!("EVB_SEED={} fails: {:#?}", self.0, Plan::random(self.0));
    }
}

#[test]
fn whatever_the_network_does_every_byte_is_delivered_once_and_in_order() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let mut seen = Seen::default();
    if let Some(seed) = number("EVB_SEED") {
        run(seed, &mut seen);
        println!("{seen:#?}");
        return;
    }
    let schedules = number("EVB_SCHEDULES").unwrap_or(SCHEDULES);
    (0..schedules).for_each(|seed| run(seed, &mut seen));
    println!("{schedules} schedules: {seen:#?}");
    let Seen { resends, timeouts, late_after_loss, duplicates, stale, damaged, reconnects, joined } = seen;
    for (what, count) in [
        ("resends", resends),
        ("timeouts", timeouts),
        ("arrivals after they were declared lost", late_after_loss),
        ("duplicates", duplicates),
        ("datagrams of connections that are gone", stale),
        ("damaged datagrams", damaged),
        ("reconnects", reconnects),
        ("datagrams joined to those before", joined),
    ] {
        assert!(count > schedules / 20, "{what}: only {count}");
    }
}
