//! A host with all sources that freezes, or dies with its front ends' connections.

use std::{thread, time::Duration};

use crate::{
    readouts::{presence, start, stop, wait_until_complete_again},
    system::{System, foreign},
};

#[test]
fn sources_that_stood_still_do_not_take_that_for_silence_of_their_readout() {
    let system = System::of_two_hosts();
    let boards = start(&system);
    system.signal_other("STOP");
    system.wait_for("down", |status| (1..=2).all(|source| presence(status, source) == "silent"));
    thread::sleep(Duration::from_secs(2));
    system.signal_other("CONT");
    system.wait_for("back", |status| (1..=2).all(|source| presence(status, source) == "up"));
    wait_until_complete_again(&system);
    assert!(!system.log().contains("has no readout"), "{}", system.log());
    drop(boards);
    stop(&system, &["down", "silent until the deadline", "given up at the end of the run"]);
    assert_eq!(foreign(&system.events(1), 1), 0);
}

#[test]
fn sources_that_are_started_again_get_on_with_their_front_ends() {
    let mut system = System::of_two_hosts();
    let boards = start(&system);
    system.signal_other("KILL");
    system.wait_for("down", |status| (1..=2).all(|source| presence(status, source) == "absent"));
    system.start_other();
    for (board, source) in boards.iter().zip(1..) {
        board.revive(&system, source);
    }
    system.wait_for("back", |status| (1..=2).all(|source| presence(status, source) == "up"));
    wait_until_complete_again(&system);
    drop(boards);
    let causes = ["down", "no readout", "silent until the deadline", "given up at the end of the run"];
    stop(&system, &causes);
    assert_eq!(foreign(&system.events(1), 1), 0);
}
