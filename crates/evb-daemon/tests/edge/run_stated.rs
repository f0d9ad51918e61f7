//! Front ends of protocol 2 state the run of their fragments, so that no two runs mix.

use crate::{
    front_end::Message,
    system::{EVENTS, System, foreign, fragment},
};

/// Returns the bytes of a run id.
fn id(summary: &serde_json::Value) -> [u8; 16] {
    u128::from_str_radix(summary["run_id"].as_str().unwrap(), 16).unwrap().to_be_bytes()
}

/// A board holds fragments of the last run, and sends them after the start of this one.
#[test]
fn leftovers_after_the_start_are_told_apart() {
    let system = System::start("");
    let mut before = [7; 16];
    for run in 1..=5 {
        system.wait_until_ready(run - 1);
        let mut boards = [system.connect(1), system.connect(2)];
        boards.iter_mut().for_each(|board| board.greet("board", 0));
        system.wait_for_front_ends();
        system.begin();
        let stated = boards.each_mut().map(|board| board.wait_for_start());
        for (board, source) in boards.iter_mut().zip([1, 2]) {
            board.state(before);
            (10..=20).for_each(|event| board.send(&fragment(source, run - 1, event)));
            board.state(stated[0]);
            board.send_run(run);
        }
        let summary = system.end(run);
        assert_eq!(stated, [id(&summary); 2]);
        assert_eq!(foreign(&system.events(run), run), 0);
        assert_eq!((&summary["events"]["complete"], &summary["exit_code"]), (&EVENTS.into(), &0.into()));
        let remark = "source 2 discarded 11 fragments that its front end read out in another run, as it should; nothing needs to be done";
        let remarks = summary["remarks"].as_array().unwrap();
        assert_eq!(remarks.iter().filter(|said| *said == remark).count(), 1, "{summary:#}");
        assert_eq!(remarks.len(), 2, "{summary:#}");
        for board in boards {
            let told = board.finish();
            assert_eq!(told[0], Message::Stopped { run: stated[0] }, "{told:?}");
            let last = Message::Accepted { run: stated[0], fragments: EVENTS };
            assert_eq!(told.last(), Some(&last), "{told:?}");
        }
        before = stated[0];
    }
}

#[test]
fn of_protocol_1_it_is_said_that_the_run_is_not_proven() {
    let system = System::start("");
    system.wait_until_ready(0);
    let (mut one, mut two) = (system.connect(1), system.connect(2));
    two.greet("the second", 1);
    system.wait_for_front_ends();
    system.begin();
    let run = two.wait_for_start();
    two.state(run);
    one.send_run(1);
    (1..EVENTS).for_each(|event| two.send(&fragment(2, 1, event)));
    let said = "source 1: its front end speaks protocol 1, which does not state the run of its fragments; protocol 2 does";
    system.wait_for("built", |status| {
        let pushed = |source: usize| status["survey"]["sources"][source]["live"]["pushed"].clone();
        pushed(0) == EVENTS && pushed(1) == EVENTS - 1
    });
    let status = system.ctl(&["status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains(said), "{status:?}");
    let mut told = Vec::new();
    while told.last() != Some(&Message::Accepted { run, fragments: EVENTS - 1 }) {
        told.push(two.message().unwrap());
    }
    two.send(&fragment(2, 1, EVENTS));
    let summary = system.end(1);
    assert_eq!(
        summary["remarks"],
        serde_json::json!([format!(
            "{said}: update the front end, else fragments of an earlier run may get into events"
        )])
    );
    assert!(system.log().contains("the second"), "{}", system.log());
}

/// A connection that begins in the run is told of the run at once; one that never reads costs
/// nothing.
#[test]
fn who_comes_late_or_never_reads_is_served_like_others() {
    let system = System::start("");
    system.wait_until_ready(0);
    let mut deaf = system.connect(1);
    deaf.greet("", 1);
    system.begin();
    let mut late = system.connect(2);
    late.greet("late", 0);
    let run = late.wait_for_start();
    late.state(run);
    late.send(&fragment(2, 1, 1)[..40]);
    // Without any front end, events would not wait for the source.
    let mut again = system.connect(2);
    again.greet("late", 0);
    drop(late);
    assert_eq!(again.wait_for_start(), run);
    again.state(run);
    again.send_run(1);
    deaf.state(run);
    deaf.send_run(1);
    let summary = system.end(1);
    assert_eq!((&summary["events"]["complete"], &summary["exit_code"]), (&EVENTS.into(), &0.into()));
    assert_eq!(summary["sources"][1]["malformed"], 1);
}
