//! Boards that send 16 bits of a trigger counter in place of event ids.

use serde_json::Value;

use crate::{
    front_end::FrontEnd,
    system::{System, foreign, fragment},
};

/// Value of the counter for event 1, so that it wraps after 36 events.
const FIRST: u64 = 65_500;

/// Sends the fragment of a trigger under that value of the counter.
fn send(front_end: &mut FrontEnd, source: u16, trigger: u64, counter: u64) {
    let mut bytes = fragment(source, 1, trigger);
    bytes[4..12].copy_from_slice(&counter.to_le_bytes());
    front_end.send(&bytes);
}

fn counter(trigger: u64) -> u64 {
    (FIRST + trigger - 1) & 0xffff
}

fn says(list: &Value, words: &str) -> bool {
    list.as_array().unwrap().iter().any(|text| text.as_str().unwrap().contains(words))
}

#[test]
fn faults_of_a_counter_are_named_and_no_fragment_gets_into_a_wrong_event() {
    let system = System::triggered_with_counters("1 s", &format!("{{ bits = 16, first = {FIRST} }}"));
    system.wait_until_ready(0);
    system.begin();
    let (mut one, mut two) = (system.connect(1), system.connect(2));
    system.announce(1..=250);
    (1..=250).for_each(|trigger| send(&mut one, 1, trigger, counter(trigger)));
    // The board of source 2 misses three triggers, repeats one, exchanges two, and is then reset.
    let triggers = (1..=99).chain(103..=110).chain([110]).chain(111..=148).chain([150, 149]).chain(151..=199);
    triggers.for_each(|trigger| send(&mut two, 2, trigger, counter(trigger)));
    (200..=249).for_each(|trigger| send(&mut two, 2, trigger, trigger - 200));
    let status = system.wait_for("unplaced", |status| {
        status["survey"]["sources"][1]["live"]["unused"]["counter reset"] == 50
    });
    let problems = status["problems"].as_array().unwrap();
    let text = "its trigger counter gives 50 fragments no event";
    assert!(
        problems.iter().any(|found| found["subject"] == "source 2" && found["text"] == text),
        "{status:#}"
    );
    system.wait_for("settled", |status| {
        let of = |outcome: &str| status["survey"]["events"][outcome].as_u64().unwrap();
        of("complete") + of("incomplete") == 250
    });
    assert!(system.ctl(&["stop"]).status.success());
    let summary = system.end(1);
    assert_eq!(foreign(&system.events(1), 1), 0);
    assert_eq!(summary["events"]["complete"], 196, "{summary:#}");
    let of = |source: usize, key: &str| summary["sources"][source][key].as_u64().unwrap();
    let keys = [
        "pushed",
        "counter_gaps",
        "counter_skipped",
        "counter_late",
        "repeats",
        "counter_resets",
        "unplaced",
        "missing",
    ];
    assert_eq!(keys.map(|key| of(0, key)), [250, 0, 0, 0, 0, 0, 0, 0], "{summary:#}");
    assert_eq!(keys.map(|key| of(1, key)), [197, 2, 4, 1, 1, 1, 50, 54], "{summary:#}");
    let named = "50 fragments of source 2 were lost, because the trigger counter of its boards fell";
    assert!(says(&summary["problems"], named), "{summary:#}");
    assert!(says(&summary["remarks"], "source 2 left out 3 numbers in 2 gaps"), "{summary:#}");
    let line = "its trigger counter reads 0, but 163 was due for event 200: it is off by -163 triggers";
    assert!(system.log().contains(line), "{}", system.log());
}

/// The counters of the boards run on from one run to the next.
#[test]
fn boards_that_are_not_reset_begin_each_run_with_any_value() {
    let system = System::triggered_with_counters("10 s", "{ bits = 16, first = \"any\" }");
    let mut next = 65_000;
    for run in 0..3 {
        system.wait_until_ready(run);
        let (mut one, mut two) = (system.connect(1), system.connect(2));
        system.begin();
        (1..=300).for_each(|trigger| {
            for (source, front_end) in [(1, &mut one), (2, &mut two)] {
                let mut bytes = fragment(source, run + 1, trigger);
                bytes[4..12].copy_from_slice(&((next + trigger) & 0xffff).to_le_bytes());
                front_end.send(&bytes);
            }
        });
        next += 300;
        system.announce(1..=300);
        system.wait_for("complete", |status| status["survey"]["events"]["complete"] == 300);
        assert!(system.ctl(&["stop"]).status.success());
        let summary = system.end(run + 1);
        assert_eq!((&summary["events"]["complete"], &summary["exit_code"]), (&300.into(), &0.into()));
        assert_eq!(foreign(&system.events(run + 1), run + 1), 0);
    }
}
