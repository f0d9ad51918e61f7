//! Processes that are interrupted or killed during a run.

mod fleet;

use std::{thread::sleep, time::Duration};

use fleet::{Plan, assert_closed, number, problems};

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn an_interrupt_drains_and_a_second_one_leaves() {
    let mut fleet = Plan::default().start();
    sleep(Duration::from_millis(800));
    fleet.signal("supervisor", "INT");
    fleet.all_end(0, LIMIT);
    let summary = fleet.summary("supervisor");
    assert_closed(&summary);
    assert!(number(&summary, "/events/complete") > 50.0 && number(&summary, "/events/incomplete") == 0.0);
    assert!(fleet.log("supervisor").contains("stopping"), "{}", fleet.log("supervisor"));

    // The drain waits for a frozen source for as long as the run does.
    let supervisor = "trigger = { kind = \"periodic\", rate = \"500 Hz\" }\non_source_loss = \"wait\"\ndeadline = \"20 s\"";
    let mut fleet = Plan { supervisor, ..Plan::default() }.start();
    sleep(Duration::from_millis(800));
    fleet.signal("source:1", "STOP");
    sleep(Duration::from_millis(100));
    for signal in ["INT", "TERM", "HUP", "QUIT", "INT", "TERM"] {
        fleet.signal("supervisor", signal);
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_millis(1000));
    assert!(!fleet.log("supervisor").contains("leaves at once"), "{}", fleet.log("supervisor"));
    fleet.signal("supervisor", "INT");
    assert_eq!(fleet.wait("supervisor", LIMIT), Some(130), "{}", fleet.log("supervisor"));
    assert!(fleet.log("supervisor").contains("leaves at once"));
}

#[test]
fn a_source_asked_to_stop_ends_the_whole_run_well() {
    let mut fleet = Plan::default().start();
    sleep(Duration::from_millis(800));
    fleet.signal("source:2", "TERM");
    fleet.all_end(0, LIMIT);
    assert_closed(&fleet.summary("supervisor"));
}

#[test]
fn a_killed_builders_events_are_built_by_another() {
    let mut fleet = Plan { run: "duration = \"2500 ms\"", files: true, ..Plan::default() }.start();
    sleep(Duration::from_millis(1000));
    fleet.signal("builder:1", "KILL");
    assert_eq!(fleet.wait("builder:1", LIMIT), None);
    for role in ["supervisor", "builder:2", "source:1", "source:2", "source:3"] {
        assert_eq!(fleet.wait(role, LIMIT), Some(0), "{role}: {}", fleet.log(role));
    }
    let summary = fleet.summary("supervisor");
    fleet.assert_closed(&summary);
    let remarks = summary["remarks"].to_string();
    assert!(remarks.contains("builder 1 left the run"), "{remarks}");
    let [lost, incomplete] = ["/events/lost", "/events/incomplete"].map(|what| number(&summary, what));
    assert_eq!(
        (lost, incomplete, problems(&summary)),
        (0.0, 0.0, "[]".to_owned()),
        "{:#}",
        summary["events"]
    );
    let of_builder_2 = number(&summary["builders"][1], "/complete");
    assert!(of_builder_2 > 700.0, "builder 2 built {of_builder_2} events");
}

#[test]
fn a_killed_source_is_named() {
    let mut fleet = Plan { run: "duration = \"2500 ms\"", files: true, ..Plan::default() }.start();
    sleep(Duration::from_millis(1000));
    fleet.signal("source:3", "KILL");
    assert_eq!(fleet.wait("source:3", LIMIT), None);
    for role in ["supervisor", "builder:1", "builder:2", "source:1", "source:2"] {
        assert_eq!(fleet.wait(role, LIMIT), Some(1), "{role}: {}", fleet.log(role));
    }
    let summary = fleet.summary("supervisor");
    fleet.assert_closed(&summary);
    assert!(number(&summary, "/events/assigned") > 1000.0 && number(&summary, "/events/lost") == 0.0);
    assert!(number(&summary, "/events/incomplete") > 500.0, "{:#}", summary["events"]);
    let problems = problems(&summary);
    assert!(problems.contains("source 3 is missing in") && problems.contains(" down"), "{problems}");
    assert!(!problems.contains("source 1") && !problems.contains("source 2"), "{problems}");
}

#[test]
fn without_a_supervisor_everybody_leaves_and_says_so() {
    let supervisor = "trigger = { kind = \"periodic\", rate = \"500 Hz\" }\npatience = \"3 s\"";
    let mut fleet = Plan { supervisor, ..Plan::default() }.start();
    sleep(Duration::from_millis(800));
    fleet.signal("supervisor", "KILL");
    for role in ["builder:1", "builder:2", "source:1", "source:2", "source:3"] {
        assert_eq!(fleet.wait(role, LIMIT), Some(1), "{role}: {}", fleet.log(role));
        assert!(fleet.log(role).contains("lost the supervisor"), "{role}: {}", fleet.log(role));
    }
}
