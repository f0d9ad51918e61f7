//! Low rates, full speed, pauses, and front ends that connect for each fragment: no readout counts
//! as silent.

use std::{thread, time::Duration};

use serde_json::Value;

use crate::{
    readouts::{count, presence},
    system::{EVENTS, System, foreign, fragment},
};

fn assert_up(status: &Value) {
    (1..=2).for_each(|source| assert_eq!(presence(status, source), "up", "{status:#}"));
}

#[test]
fn a_trigger_every_five_seconds_is_no_silence() {
    let system = System::at_a_low_rate();
    system.wait_until_ready(0);
    let mut front_ends = [1, 2].map(|source| system.connect(source));
    system.begin();
    for event in 1..=3 {
        system.wait_for("a trigger", |status| {
            assert_up(status);
            status["survey"]["events"]["triggered"].as_u64() >= Some(event)
        });
        for (front_end, source) in front_ends.iter_mut().zip(1..) {
            front_end.send(&fragment(source, 1, event));
        }
    }
    system.wait_for("complete", |status| count(status, "complete") == 3);
    assert!(system.ctl(&["stop"]).status.success());
    let summary = system.end(1);
    assert_eq!(summary["events"]["incomplete"], 0, "{summary:#}");
}

#[test]
fn at_full_speed_no_fragment_of_another_run_gets_in() {
    const MANY: u64 = 4000;
    let system = System::at_full_speed(MANY);
    let mut last = [7; 16];
    for run in 1..=2 {
        system.wait_until_ready(run - 1);
        let mut front_ends = [1, 2].map(|source| system.connect(source));
        for (front_end, source) in front_ends.iter_mut().zip(1..) {
            front_end.greet("board", 0);
            // Left of the last run, as far as the board knows it.
            front_end.state(last);
            (1..=40).for_each(|event| front_end.send(&fragment(source, run - 1, event)));
        }
        system.wait_for_front_ends();
        system.begin();
        thread::scope(|scope| {
            for (front_end, source) in front_ends.iter_mut().zip(1..) {
                scope.spawn(move || {
                    let id = front_end.wait_for_start();
                    front_end.state(last);
                    (1..=40).for_each(|event| front_end.send(&fragment(source, run - 1, event)));
                    front_end.state(id);
                    (1..=MANY).for_each(|event| front_end.send(&fragment(source, run, event)));
                });
            }
        });
        let summary = system.end(run);
        assert_eq!((&summary["events"]["complete"], &summary["exit_code"]), (&MANY.into(), &0.into()));
        assert_eq!(summary["sources"][0]["of_other_runs"], 40, "{summary:#}");
        assert_eq!(foreign(&system.events(run), run), 0);
        last = [run as u8; 16];
    }
}

#[test]
fn a_pause_is_no_silence() {
    let system = System::triggered("1 s");
    system.wait_until_ready(0);
    let mut front_ends = [1, 2].map(|source| system.connect(source));
    system.begin();
    system.announce(1..=50);
    for (front_end, source) in front_ends.iter_mut().zip(1..) {
        // The last fragments wait in the boards until the next trigger.
        (1..=48).for_each(|event| front_end.send(&fragment(source, 1, event)));
    }
    system.wait_for("complete", |status| count(status, "complete") == 48);
    assert!(system.ctl(&["pause"]).status.success(), "{}", system.log());
    for _ in 0..12 {
        thread::sleep(Duration::from_millis(200));
        assert_up(&system.status());
    }
    assert!(system.ctl(&["resume"]).status.success(), "{}", system.log());
    system.announce(51..=60);
    for (front_end, source) in front_ends.iter_mut().zip(1..) {
        (49..=60).for_each(|event| front_end.send(&fragment(source, 1, event)));
    }
    system.wait_for("complete", |status| count(status, "complete") == 58);
    assert_up(&system.status());
    assert!(!system.log().contains("has no readout"), "{}", system.log());
}

#[test]
fn a_front_end_may_connect_for_each_fragment() {
    let system = System::with_control("");
    system.wait_until_ready(0);
    let mut steady = system.connect(1);
    drop(system.connect(2));
    system.begin();
    for event in 1..=EVENTS {
        steady.send(&fragment(1, 1, event));
        system.connect(2).send(&fragment(2, 1, event));
        thread::sleep(Duration::from_millis(10));
    }
    let summary = system.end(1);
    assert_eq!((&summary["events"]["complete"], &summary["exit_code"]), (&EVENTS.into(), &0.into()));
    assert!(!system.log().contains("has no readout"), "{}", system.log());
}
