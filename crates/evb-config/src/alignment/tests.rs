use super::*;
use crate::tests::good;

const RUN: &str = "[run]\nevents = 1000\nduration = \"10 s\"\n";

fn trigger(kind: &str) -> String {
    format!("[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {kind}\n")
}

fn source(id: u16, kind: &str, clock: &str) -> String {
    let input = match kind {
        "generator" => "kind = \"generator\", size = \"1 kB\"".to_owned(),
        "replay" => "kind = \"replay\", path = \"out\", format = \"evb\"".to_owned(),
        _ => format!("kind = \"tcp\", listen = \"127.0.0.1:{}\"", 7200 + id),
    };
    let clock = if clock.is_empty() { String::new() } else { format!("clock = {{ {clock} }}\n") };
    format!("[[source]]\nid = {id}\ninput = {{ {input} }}\n{clock}")
}

const FINE: &str = "rate = \"125 MHz\", bits = 32";
const LONG: &str = "rate = \"100 MHz\", bits = 48";

#[test]
fn the_lead_is_the_configured_one_or_that_with_the_longest_wrap() {
    let sources =
        [(3, FINE), (2, LONG), (1, ""), (5, LONG)].map(|(id, clock)| source(id, "tcp", clock)).concat();
    let config = good(&sources);
    let rules = config.alignment();
    assert_eq!(
        rules,
        Alignment { on_slip: OnSlip::Report, lead: Some(SourceId::new(2)), uses_host_times: true }
    );
    assert_eq!(clocks(&config).iter().map(|(id, _)| id.number()).collect::<Vec<_>>(), [2, 3, 5]);
    let config = good(&format!("[alignment]\nlead = 3\non_slip = \"pause\"\n{sources}"));
    let rules = config.alignment();
    assert_eq!((rules.lead, rules.on_slip), (Some(SourceId::new(3)), OnSlip::Pause));
    assert_eq!(good("[alignment]\non_slip = \"stop\"\n").alignment().lead, None);
}

#[test]
fn hosts_times_count_only_with_real_triggers_and_real_timestamps() {
    let uses = |kind: &str, inputs: &[(&str, &str)]| {
        let sources: String =
            (1..).zip(inputs).map(|(id, (input, clock))| source(id, input, clock)).collect();
        good(&format!("{}{sources}", trigger(kind))).alignment().uses_host_times
    };
    let poisson = "{ kind = \"poisson\", rate = \"1 kHz\" }";
    assert!(uses(poisson, &[("tcp", FINE), ("tcp", LONG)]));
    // Timestamps of a source without a clock are not compared.
    assert!(uses(poisson, &[("tcp", FINE), ("generator", "")]));
    assert!(!uses(poisson, &[("tcp", FINE), ("generator", LONG)]));
    assert!(!uses(poisson, &[("tcp", FINE), ("replay", LONG)]));
    assert!(!uses("\"as-fast-as-possible\"", &[("tcp", FINE), ("tcp", LONG)]));
}

#[test]
fn the_time_of_a_run_follows_from_its_events_and_its_duration() {
    let time = |run: &str, kind: &str, inputs: &[&str]| {
        let sources: String = (1..).zip(inputs).map(|(id, input)| source(id, input, LONG)).collect();
        detector_time(&good(&format!("{run}{}{sources}", trigger(kind))))
    };
    let periodic = "{ kind = \"periodic\", rate = \"50 Hz\" }";
    // 500 triggers happen in 10 s.
    assert_eq!(time(RUN, periodic, &["generator"; 2]), Some(0.5));
    assert_eq!(time(RUN, "\"as-fast-as-possible\"", &["generator"; 2]), Some(1.0));
    assert_eq!(time(RUN, periodic, &["tcp"; 2]), Some(10.0));
    assert_eq!(time(RUN, "\"as-fast-as-possible\"", &["tcp"; 2]), Some(10.0));
    assert_eq!(time(RUN, periodic, &["replay"; 2]), None);
    assert_eq!(time(RUN, periodic, &["tcp", "generator"]), None);
    assert_eq!(time("", periodic, &["generator"; 2]), None);
}

#[test]
fn times_of_any_length_have_a_unit() {
    let times = [65e-9, 89e-6, 34.36, 500.0, 10_000.0, 2.25e6, 4.6e9];
    let shown = ["65.0 ns", "89 µs", "34.4 s", "8.3 min", "2.8 hours", "26 days", "146 years"];
    assert_eq!(times.map(seconds), shown);
}
