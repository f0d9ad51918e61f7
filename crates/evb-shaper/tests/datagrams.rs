//! Tests lanes over datagrams in ten thousand random schedules, in which the network drops,
//! repeats, delays, reorders and damages datagrams, and connections break. In every schedule, each
//! event must be built exactly once with the right bytes, the outstanding bytes must stay within
//! the budget, and the run must end. If the network only drops datagrams, the bytes that are really
//! under way must stay within the budget too.
//!
//! A failure names its seed; `EVB_SEED=<seed> cargo test -p evb-shaper --test datagrams` repeats
//! only the schedule of that seed, and `EVB_SCHEDULES=<n>` runs `n` schedules.
#![allow(clippy::unwrap_used)] // an unexpected error must fail the test

#[path = "datagrams/network.rs"]
mod network;
#[path = "datagrams/world.rs"]
mod world;

use world::{Plan, World};

const SCHEDULES: u64 = 10_000;

/// Counts of the faults and recoveries in all schedules, to check that each kind occurs often.
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

/// Prints the seed of a schedule that fails, even if it fails with a panic.
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
