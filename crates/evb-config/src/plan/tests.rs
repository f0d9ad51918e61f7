use std::time::Duration;

use clap::Parser as _;
use proptest::prelude::*;

use super::{Numbers, Plan, PlanArguments, as_json, page, plan, remedy};
use crate::{
    ShapingMode,
    admission::{GrantPaths, admit},
    read,
};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    plan: PlanArguments,
}

pub(super) fn command_line(line: &str) -> PlanArguments {
    let words = ["plan"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).plan
}

fn arguments(line: &str) -> Numbers {
    let given = command_line(line);
    let (sources, builders) = given.sources.zip(given.builders).expect("given");
    given.numbers(sources, builders, given.event_size.expect("given")).expect("a link's rate")
}

fn planned(line: &str) -> Plan {
    let paths = GrantPaths::stated(&command_line(line).rtt);
    plan(&arguments(line), &paths).unwrap_or_else(|problems| panic!("{problems}"))
}

const INCAST: &str = "--sources 8 --builders 1 --event-size 512kB --trigger-rate 150Hz --link-rate 1Gbit/s --port-buffer 128KiB";

/// Y = 1 Gbit/s is the rate of the host, X = 100 Mbit/s that of the network, and R = 198 ms the
/// time from a grant to its data. So the host is busy for Δt = X·R/Y = 19.8 ms, and the buffer
/// needs (Y−X)·Δt = 900 Mbit/s · 19.8 ms = 2 227 500 B.
#[test]
fn a_host_faster_than_the_network_shows_its_busy_time_and_the_buffer() {
    let line =
        "--sources 1 --builders 1 --event-size 64kB --link-rate 100Mbit/s --host-rate 1Gbit/s --rtt 198ms";
    let plan = planned(line);
    assert!(plan.text.contains("link_rate    = \"1 Gbit/s\""), "{}", plan.text);
    let page = page(&plan, true);
    for part in ["busy Δt = X·R/Y", "1 Gbit/s", "100 Mbit/s", "198.00 ms", "19.80 ms", "2.23 MB"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let host = &as_json(&plan)["check"]["planning"][0]["fast_host"];
    assert_eq!(host["grant_paths"][0]["busy_us"], 19_800.0);
    assert_eq!(host["grant_paths"][0]["buffer_line_bytes"], 2_227_500);
}

#[test]
fn hosts_as_fast_as_the_network_show_no_busy_time() {
    let page = page(&planned(INCAST), true);
    assert!(!page.contains("busy Δt"), "{page}");
}

#[test]
fn an_incast_is_planned_with_credit() {
    let plan = planned(INCAST);
    assert_eq!((plan.advice.mode, plan.advice.budget), (ShapingMode::Credit, None));
    // With ρ = 0.652, (1−ρ)ρᴷ/(1−ρᴷ⁺¹) falls below 0.1 % at K = 14. 150 events/s · 1.4 ms under way
    // outside the queue raise the number of slots to 15.
    assert_eq!(plan.advice.slots, 15);
    let brief: Vec<_> = page(&plan, false).lines().map(str::to_owned).collect();
    assert_eq!(
        brief[..2],
        ["admitted", "system     8 sources, 1 builder; events of 8 fragments, 512 kB on average"]
    );
    assert!(brief.len() < 12 && brief.last().is_some_and(|last| last.contains("--verbose")), "{brief:?}");
    let page = page(&plan, true);
    for part in
        [" (358 %)", "1.07 ms", "budget       118.0 kB", "150 events/s expected, limited by the trigger"]
    {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    for part in ["rate = \"150 Hz\"", "port_buffer = \"128 KiB\""] {
        assert!(plan.text.contains(part), "{part:?} is not in\n{}", plan.text);
    }
    let json = as_json(&plan);
    assert_eq!(json["check"]["planning"][0]["grant_paths"][2]["utilisation"], 1.0);
    assert_eq!(json["advice"][0]["value"], "credit");
}

#[test]
fn a_long_round_trip_wants_paces_and_too_many_sources_credit_again() {
    let fast = "--builders 4 --event-size 2MB --trigger-rate 1kHz --link-rate 10Gbit/s --port-buffer 128KiB";
    // Without --rtt, the longest time from a grant to its data is 200 µs. The budget of at most 128
    // KiB then fills 40 % of the link.
    let plan = planned(&format!("--sources 32 {fast}"));
    assert_eq!(plan.advice.mode, ShapingMode::TokenBucket);
    assert!(plan.advice.mode_reason.contains("40 %"), "{}", plan.advice.mode_reason);
    assert_eq!(planned(&format!("--sources 32 {fast} --rtt 60us")).advice.mode, ShapingMode::Credit);
    let crowd = planned(&format!("--sources 64 {fast}"));
    assert_eq!(crowd.advice.mode, ShapingMode::Credit);
    assert!(crowd.advice.mode_reason.contains("would lose packets"), "{}", crowd.advice.mode_reason);
}

#[test]
fn without_a_port_buffer_a_budget_comes_from_the_round_trip() {
    let plan = planned(
        "--sources 4 --builders 2 --event-size 8kB --trigger-rate 20kHz --link-rate 1Gbit/s --rtt 200us",
    );
    // The budget is four times 1 Gbit/s · 1514/1538 · 200 µs.
    let budget = plan.advice.budget.expect("stated").count();
    assert_eq!(budget, 4 * 24_610);
    assert!(plan.text.contains("budget = \"98440 B\""), "{}", plan.text);
}

#[test]
fn more_than_the_links_carry_is_refused_with_what_would() {
    let line = "--sources 8 --builders 1 --event-size 512kB --trigger-rate 500Hz --link-rate 1Gbit/s";
    let plan = planned(line);
    assert!(plan.problems.are_fatal());
    let would = remedy(&arguments(line), &plan);
    assert!(would.contains("3 builders"), "{would}");
    assert!(!planned(&line.replace("--builders 1", "--builders 3")).problems.are_fatal());
    let narrow = "--sources 1 --builders 1 --event-size 1MB --trigger-rate 500Hz --link-rate 1Gbit/s";
    assert!(remedy(&arguments(narrow), &planned(narrow)).contains("however many builders"));
}

#[test]
fn small_events_want_many_slots_and_large_ones_few() {
    let slots = |size: &str, rate: &str| {
        let line = format!(
            "--sources 8 --builders 1 --event-size {size} --trigger-rate {rate} --link-rate 1Gbit/s --port-buffer 128KiB"
        );
        planned(&line).advice.slots
    };
    assert!(slots("8kB", "10kHz") >= 20, "{}", slots("8kB", "10kHz"));
    assert!(slots("8MB", "5Hz") <= 8, "{}", slots("8MB", "5Hz"));
}

#[test]
fn a_plan_for_thousands_fits_on_one_screen() {
    let plan = planned(
        "--sources 4000 --builders 400 --event-size 4MB --trigger-rate 10kHz --link-rate 10Gbit/s --port-buffer 4MiB",
    );
    assert!(page(&plan, false).lines().count() <= 12);
    let page = page(&plan, true);
    assert!(page.lines().count() <= 60, "{} lines\n{page}", page.lines().count());
    assert!(page.contains("builder1.daq … builder400.daq  1-400"), "{page}");
    assert!(page.contains("source 1 … source 4000  1-4000"), "{page}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever the numbers of the plan: if the links carry the load, admission control accepts the
    /// printed configuration.
    #[test]
    fn a_load_that_links_carry_gives_a_configuration_that_is_admitted(
        sources in 1_u16..=4096,
        builders in 1_u16..=64,
        fragment in 16_u64..4_000_000,
        load in 0.01..0.90_f64,
        link in 10_000_000_u64..100_000_000_000,
        buffer in proptest::option::of(65_536_u64..8_000_000),
        trip in 5_u64..500,
        jumbo in any::<bool>(),
    ) {
        let event = fragment * u64::from(sources);
        // The event rate is limited by the narrower of the builders' ports and the sources' links.
        // Headers take at most a quarter of the line for these sizes.
        let per_port = event as f64 / f64::from(builders);
        let bytes = per_port.max(fragment as f64) + 16.0 * f64::from(sources);
        let rate = link as f64 / 8.0 * load / (bytes * 1.25);
        let arguments = Numbers {
            sources,
            builders,
            event_size: evb_core::units::Bytes::new(event),
            trigger_rate: evb_core::units::Frequency::from_hertz(rate),
            link_rate: evb_core::units::Rate::from_bits_per_second(link),
            host_rate: None,
            port_buffer: buffer.map(evb_core::units::Bytes::new),
            mtu: if jumbo { 9000 } else { 1500 },
        };
        let plan = plan(&arguments, &GrantPaths::stated(&[Duration::from_micros(trip)])).map_err(|problems| TestCaseError::fail(problems.to_string()))?;
        let loaded = read(&plan.text, "printed").map_err(|problems| TestCaseError::fail(problems.to_string()))?;
        let (_, problems) = admit(&loaded, None);
        prop_assert!(!problems.are_fatal(), "{problems}\n{}", plan.text);
        prop_assert!(plan.advice.slots >= 2 && !plan.planning.bounds.is_empty());
    }
}
