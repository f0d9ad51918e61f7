use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use evb_core::id::{BuilderId, Peer};

use super::{
    Verdict, bad, better, finding, good,
    made_up::{facts, late},
    verdict,
};

const PERFORMANCE: &str = "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";

#[test]
fn a_dear_clock_could_be_cheaper() {
    let mut facts = facts();
    facts.clock.reading_cost = Duration::from_micros(1);
    assert_eq!(
        verdict(&facts, "clock source"),
        (Verdict::Better, None),
        "no command helps if the clock source is tsc already"
    );
    facts.clock.source.as_mut().unwrap().current = "hpet".into();
    let tsc = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
    assert_eq!(verdict(&facts, "clock source"), better(tsc));
    facts.clock.reading_cost = Duration::from_nanos(200);
    assert_eq!(verdict(&facts, "clock source"), good(), "a quick clock source is good whatever its name");
}

#[test]
fn late_timers_are_bad_where_a_pace_cannot_catch_up() {
    let mut facts = facts();
    facts.cores.governors = Ok(BTreeSet::from(["powersave".to_owned()]));
    facts.clock.lateness = Ok(late(30, 100));
    assert_eq!(verdict(&facts, "timer lateness"), good());
    facts.clock.lateness = Ok(late(30, 101));
    assert_eq!(verdict(&facts, "timer lateness"), better(PERFORMANCE));
    // The burst of 12500 B equals the bytes that 100 Mbit/s carry in a millisecond.
    facts.clock.lateness = Ok(late(1000, 2000));
    assert_eq!(verdict(&facts, "timer lateness"), better(PERFORMANCE));
    facts.clock.lateness = Ok(late(1001, 2000));
    assert_eq!(verdict(&facts, "timer lateness"), bad(PERFORMANCE));
    let pace = facts.demand.as_mut().unwrap().pace.take().unwrap();
    assert_eq!(
        verdict(&facts, "timer lateness"),
        better(PERFORMANCE),
        "lanes without a pace do not need timers"
    );
    facts.demand.as_mut().unwrap().pace =
        Some(evb_shaper::Pace { burst: evb_core::units::Bytes::new(1000), ..pace });
    facts.clock.lateness = Ok(late(30, 81));
    assert_eq!(verdict(&facts, "timer lateness"), better(PERFORMANCE), "the burst makes up for 80 µs only");
}

#[test]
fn cores_must_be_ours() {
    let mut facts = facts();
    facts.cores.cores.allowed = Ok([1, 2, 3].into());
    assert_eq!(verdict(&facts, "cores"), better("taskset -c 0-7 evbd run CONFIG"));
    facts.cores.cores.allowed = Ok([0, 1, 2, 4].into());
    assert_eq!(
        verdict(&facts, "cores"),
        bad("taskset -c 0-7 evbd run CONFIG"),
        "the configuration binds builder 1 to core 3"
    );
    facts.demand.as_mut().unwrap().cores = BTreeMap::from([(64, Peer::Builder(BuilderId::new(1)))]);
    assert_eq!(verdict(&facts, "cores"), (Verdict::Bad, None), "the host has no core 64");
    facts.demand = None;
    assert_eq!(verdict(&facts, "cores"), good());
    facts.cores.cores.quota = Some(3.5);
    assert_eq!(verdict(&facts, "cores").0, Verdict::Better);
}

#[test]
fn isolated_cores_are_named() {
    let mut facts = facts();
    facts.cores.cores.isolated = Ok([2, 3, 6].into());
    assert_eq!(finding(&facts, "cores").value, "8 of 8 usable, isolated 2-3,6");
}

#[test]
fn a_governor_that_saves_power_is_late() {
    let mut facts = facts();
    facts.cores.governors = Ok(BTreeSet::from(["performance".to_owned(), "schedutil".to_owned()]));
    assert_eq!(verdict(&facts, "frequency governor"), better(PERFORMANCE));
}
