use std::time::Duration;

use evb_core::units::Bytes;

use super::{GrantPaths, Planning, planning};
use crate::{
    Config,
    admission::{Machine, sums},
    read,
};

fn loaded(network: &str, shaping: &str, sources: &str) -> Config {
    let text = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.0.3.1:7000\"\ntrigger = {{ kind = \"periodic\", rate = \"150 Hz\" }}\n\
         [network]\nadmission = \"warn\"\n{network}\n[shaping]\n{shaping}\n\
         [[source]]\nids = \"1-8\"\n{sources}\ninput = {{ kind = \"generator\", size = \"64 kB\" }}\n\
         [[builder]]\nids = \"1-2\"\nlisten = \"10.0.2.{{id}}:7101\"\nsink = \"null\"\n"
    );
    read(&text, "test.toml").unwrap_or_else(|problems| panic!("{problems}")).config
}

fn planned(network: &str, shaping: &str, sources: &str) -> Planning {
    let config = loaded(network, shaping, sources);
    planning(&config, &sums(&config, Machine::default()), &GrantPaths::assumed())
}

/// Returns the buffer bytes that an event of mean size takes in a port.
fn event(network: &str, sources: &str) -> u64 {
    let burst = sums(&loaded(network, "", sources), Machine::default()).event.burst.expect("known").count();
    // Eight fragments take 45 packets each, and some packets carry record headers.
    assert!((8 * (64_000 + 45 * 66)..8 * (64_000 + 45 * 66 + 64)).contains(&burst), "{burst}");
    burst
}

const GIGABIT: &str = "link_rate = \"1 Gbit/s\"\nport_buffer = \"128 KiB\"";
const OWN_LINKS: &str = "bind = \"10.0.1.{id}\"";

fn near(found: Option<Bytes>, wanted: u64) {
    let found = found.expect("known").count();
    assert!(found.abs_diff(wanted) <= 8, "{found} for {wanted}");
}

#[test]
fn a_port_must_bear_what_it_does_not_carry_away_meanwhile() {
    let plan = planned(GIGABIT, "", OWN_LINKS);
    let event = event(GIGABIT, OWN_LINKS);
    near(plan.ports[0].incast, event * 7 / 8);
    near(plan.ports[0].overload, event * 7 / 8);
    // The port sends 131072 B in 1065 µs at 1 Gbit/s · 1514/1538.
    assert_eq!(plan.ports[0].buffer_drain.map(|time| time.as_micros()), Some(1065));
    assert_eq!(plan.ports[0].outstanding, Some(Bytes::new(117_964)));
    assert_eq!(plan.ports[0].full_up_to.map(|time| time.as_micros()), Some(958));
    // Fragments of sources that share a link arrive one after the other, so that the port does not
    // have to buffer them.
    assert_eq!(planned(GIGABIT, "", "bind = \"10.0.1.1\"").ports[0].overload, Some(Bytes::ZERO));
    near(planned(GIGABIT, "", "bind = \"10.0.1.1\"").ports[0].incast, event * 7 / 8);
    // Paces whose sum is the port's link rate do not fill the buffer.
    let paced = planned(GIGABIT, "mode = \"token-bucket\"", OWN_LINKS);
    assert_eq!(paced.ports[0].overload, Some(Bytes::ZERO));
    assert_eq!((paced.ports[0].outstanding, paced.ports[0].utilisation[2]), (None, 1.0));
}

#[test]
fn a_budget_fills_a_link_up_to_a_round_trip() {
    // At 10 Gbit/s, a budget of 98 kB fills the whole link for 20 and 60 µs from a grant to its
    // data, and 40 % of it for 200 µs.
    let plan = planned(&GIGABIT.replace("1 Gbit", "10 Gbit"), "", OWN_LINKS);
    let found = &plan.ports[0].utilisation;
    assert!(found[0] == 1.0 && found[1] == 1.0 && (found[2] - 0.399).abs() < 0.001, "{found:?}");
    assert_eq!(plan.ports[0].full_budget[2].count(), 246_099);
    assert_eq!(plan.bounds[0].resource, "the trigger");
    let budget = plan.bounds.iter().find(|bound| bound.resource.contains("the budget")).expect("a bound");
    assert!(budget.resource.contains("200µs"), "{budget:?}");
    let link = plan.bounds.iter().find(|bound| bound.resource.contains("the link to")).expect("a bound");
    assert!((budget.events_per_s / link.events_per_s - found[2]).abs() < 1e-9);
}

#[test]
fn windows_are_bounded_by_the_lanes_of_a_port() {
    let plan = planned(GIGABIT, "mode = \"window\"\nwindow = \"14 kB\"", OWN_LINKS);
    let port = &plan.ports[0];
    let window = port.largest_window.expect("room").count();
    // Each of eight lanes gets 16 384 B of the buffer: ten full packets and a part of the eleventh.
    assert!((15_000..16_000).contains(&window), "{window}");
    assert_eq!(port.most_windows, Some(131_072 / (9 * 1514 + 14_016 - 9 * 1448 + 66)));
    let crowded = planned(
        "link_rate = \"1 Gbit/s\"\nport_buffer = \"2 KiB\"",
        "budget = \"2 KiB\"\nchunk = \"1 kB\"",
        OWN_LINKS,
    );
    assert_eq!(crowded.ports[0].largest_window.map(|window| window < Bytes::new(256)), Some(true));
}

#[test]
fn the_narrowest_resource_is_named_first() {
    let first =
        |network: &str, shaping: &str, sources: &str| planned(network, shaping, sources).bounds[0].clone();
    assert_eq!(first(GIGABIT, "", OWN_LINKS).resource, "the trigger");
    let slow = GIGABIT.replace("1 Gbit/s", "100 Mbit/s");
    assert_eq!(first(&slow, "", OWN_LINKS).resource, "the link to 10.0.2.1");
    // A single link that all sources share carries half as many events as the two builder ports
    // together.
    let shared = first(&slow, "", "bind = \"10.0.1.1\"");
    assert_eq!(shared.resource, "the link from 10.0.1.1");
    assert!((shared.events_per_s - 100e6 / 8.0 / 543_960.0).abs() < 0.01, "{shared:?}");
    let paced = first(GIGABIT, "mode = \"token-bucket\"\nrate = \"5 Mbit/s\"", OWN_LINKS);
    assert_eq!(paced.resource, "the `rate` of the lanes (source to builder) to 10.0.2.1");
}

#[test]
fn without_a_link_only_the_trigger_is_known() {
    let plan = planned("", "", OWN_LINKS);
    assert!(plan.ports.is_empty() && plan.bounds.len() == 1, "{plan:?}");
    assert_eq!(plan.paths.times()[0], Duration::from_micros(20));
}
