//! Tests paces in a whole system: sources send at exactly the configured rate, for any rate, to one
//! or several destinations.

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    ByteMeasure, LinkPlan, Pace, Shaping,
    cost::{CELL, PacketCost},
};
use evb_sim::{FragmentSize, Readout, Scenario, SimReport};

const MEGABIT: u64 = 1_000_000;

/// Runs `sources` × `builders` lanes, each with a pace of `megabits` Mbit/s of buffer bytes, and
/// with more data than the pace permits for about `seconds`.
fn run(sources: u16, builders: u16, megabits: u64, size: u64, seconds: f64) -> SimReport {
    let rate = Rate::from_bits_per_second(megabits * MEGABIT);
    let pace = Pace::usual(rate, ByteMeasure::Buffer, &PacketCost::tcp(1500, CELL), Some(Bytes::new(30_000)));
    let readout = Readout { size: FragmentSize::Fixed(Bytes::new(size)), ..Scenario::default().readout };
    let events = (megabits * MEGABIT) as f64 / 8.0 / size as f64 * seconds * f64::from(builders);
    let events = (events as u64).max(200);
    // The slots are enough to keep every lane busy, and few enough that all lanes end at about the
    // same time.
    let slots = (200_000 / size).clamp(3, 200) as u32;
    let shaping = Shaping::TokenBucket(pace);
    let scenario = Scenario { sources, builders, shaping, readout, events, slots, ..Scenario::default() };
    scenario.run().expect("a run that holds")
}

fn check(sources: u16, builders: u16, megabits: &[u64], size: u64) {
    for megabits in megabits {
        let report = run(sources, builders, *megabits, size, 2.0);
        let lanes = u64::from(sources) * u64::from(builders);
        let asked = (megabits * lanes * MEGABIT) as f64;
        let error = report.sent.bits_per_second() as f64 / asked - 1.0;
        let what = format!("{sources} × {builders}, {megabits} Mbit/s, {size} B: {:+.3} %", error * 100.0);
        assert_eq!((report.builder_port_drops, report.retransmits), (0, 0), "{what}");
        assert!(error.abs() < 0.006, "{what}");
    }
}

#[test]
fn one_source_to_one_builder() {
    check(1, 1, &[10, 100, 500, 900, 930], 64_000);
    check(1, 1, &[10, 100, 500], 1000);
}

#[test]
fn one_source_to_three_builders() {
    check(1, 3, &[10, 100, 310], 64_000);
    check(1, 3, &[10, 100], 1000);
}

#[test]
fn three_sources_to_one_builder() {
    check(3, 1, &[10, 100, 310], 64_000);
    check(3, 1, &[10, 100], 1000);
}

/// Tests a link with a rate and without paces of lanes: fragments get the full rate of the ceiling,
/// or of the link.
#[test]
fn lanes_without_paces_get_the_rate_of_ceiling_or_link() {
    let rate = |megabits: u64| Rate::from_bits_per_second(megabits * MEGABIT);
    let link = Pace { rate: rate(400), burst: Bytes::new(50_000), measure: ByteMeasure::Buffer };
    let plan = LinkPlan::new(link);
    for (link, carried) in [(plan.clone().with_ceiling(rate(300)), 300.0), (plan, 400.0)] {
        let (sources, builders) = (1, 3);
        let scenario =
            Scenario { sources, builders, link, shaping: Shaping::None, events: 600, ..Scenario::default() };
        let report = scenario.run().expect("a run that holds");
        let found = report.sent.bits_per_second() as f64 / MEGABIT as f64;
        assert!((found / carried - 1.0).abs() < 0.006, "{found} of {carried} Mbit/s");
        assert_eq!((report.builder_port_drops, report.run.events.complete), (0, 600));
    }
}
