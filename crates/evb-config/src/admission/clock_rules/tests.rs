use super::*;
use crate::{read, tests::around};

/// Two front ends whose clocks wrap after 34 s and after 89 us.
const BOARDS: &str = "[[source]]\nid = 1\ninput = { kind = \"tcp\", listen = \"127.0.0.1:7201\" }\n\
    clock = { rate = \"125 MHz\", bits = 32 }\n\
    [[source]]\nid = 2\ninput = { kind = \"tcp\", listen = \"127.0.0.1:7202\" }\n\
    clock = { rate = \"40.079 MHz\", wrap = 3564 }\n";

/// Returns the problems of a configuration: whether one is an error, its line, and its text.
fn found(sections: &str) -> Vec<(bool, usize, String)> {
    let loaded = read(&around(sections), "test.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let line = |problem: &Problem| loaded.origin.line_and_column(problem.span.start).0;
    let text = |problem: &Problem| format!("{}: {}; {}", problem.key, problem.reason, problem.remedy);
    let found = problems(&loaded.config, &loaded.origin);
    found.iter().map(|found| (found.severity == Severity::Error, line(found), text(found))).collect()
}

/// Asserts that a configuration has one problem, in that line, with these words.
fn assert_one(sections: &str, is_error: bool, line: usize, says: &[&str]) {
    let found = found(sections);
    let [(error, at, text)] = &found[..] else { panic!("{sections}\n{found:#?}") };
    assert_eq!((*error, *at), (is_error, line), "{text}");
    says.iter().for_each(|word| assert!(text.contains(word), "{word:?} is not in\n{text}"));
}

#[test]
fn clocks_that_can_be_compared_have_no_problem() {
    assert_eq!(found(""), []);
    assert_eq!(found(BOARDS), []);
    assert_eq!(found(&BOARDS.replace("kind = \"tcp\", listen", "kind = \"unix\", path")), []);
}

#[test]
fn one_clock_has_nothing_to_be_compared_with() {
    let text = BOARDS.replace("clock = { rate = \"125 MHz\", bits = 32 }\n", "");
    assert_one(&text, false, 7, &["source.clock: only source 2 has a `clock`", "give another source"]);
}

#[test]
fn hosts_must_tell_the_wraps_of_the_lead_apart() {
    let short = BOARDS.replace("bits = 32", "bits = 28");
    let says =
        ["source.clock: source 1 counts time", "zero again after 2.15 s", "wraps after 4.00 s or later"];
    assert_one(&short, true, 4, &says);
    let chosen = format!("[alignment]\nlead = 2\n{BOARDS}");
    let says = [
        "alignment.lead: source 2 counts",
        "after 89 µs",
        "lead = 1",
        "of source 1 starts at zero again only after 34.4 s",
    ];
    assert_one(&chosen, true, 2, &says);
}

#[test]
fn one_common_clock_may_wrap_at_any_time() {
    let common = "clock = { rate = \"40 MHz\", bits = 16, accuracy = \"0 ppm\" }\n";
    let sources: String = (1..=3)
        .map(|id| {
            format!(
                "[[source]]\nid = {id}\ninput = {{ kind = \"tcp\", listen = \"127.0.0.1:{}\" }}\n{common}",
                7200 + id
            )
        })
        .collect();
    assert_eq!(found(&sources), []);
    assert_one(&sources.replacen("0 ppm", "1 ppm", 1), true, 4, &["after 1.64 ms"]);
}

#[test]
fn where_hosts_know_nothing_the_lead_must_not_wrap_within_the_run() {
    let fast = "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = \"as-fast-as-possible\"\n";
    let of = |run: &str| format!("[run]\n{run}\n{fast}{BOARDS}");
    assert_eq!(found(&of("duration = \"30 s\"")), []);
    assert_one(&of("duration = \"60 s\""), true, 9, &["the run takes 60.0 s of its time"]);
    assert_one(&of("events = 60"), true, 9, &["the run may take longer", "after 60.0 min or later"]);
    let boards = BOARDS.replace("bits = 32", "bits = 40");
    assert_eq!(found(&format!("{fast}{boards}")), [], "2.4 hours are more than an hour");
}

#[test]
fn generated_timestamps_count_by_events() {
    let generators = |events: u64| {
        let clock = "clock = { rate = \"100 MHz\", bits = 32 }\n";
        format!(
            "[run]\nevents = {events}\n[[source]]\nids = \"1-2\"\n\
             input = {{ kind = \"generator\", size = \"1 kB\" }}\n{clock}"
        )
    };
    // The clocks wrap after 42.9 s, which are 42 949 events.
    assert_eq!(found(&generators(42_000)), []);
    assert_one(&generators(43_000), true, 6, &["after 42.9 s", "the run takes 43.0 s"]);
}

#[test]
fn a_tolerance_must_be_longer_than_the_ticks() {
    let ample = BOARDS.replace("wrap = 3564", "wrap = 3564, tolerance = \"66 ns\"");
    assert_eq!(found(&ample), []);
    let says = ["the tolerance of 65.0 ns is less", "that of source 1", "write tolerance = \"66 ns\""];
    assert_one(&ample.replace("66 ns", "65 ns"), false, 8, &says);
}
