//! Boards at the wrong source.

use crate::{
    readouts::presence,
    system::{EVENTS, System, foreign, fragment},
};

/// Both boards are connected to source 2, whose fragments then contradict each other; source 1 has
/// no front end.
#[test]
fn two_boards_at_one_source_are_named_and_so_is_the_source_without_one() {
    let system = System::with_control("");
    system.wait_until_ready(0);
    let (mut right, mut wrong) = (system.connect(2), system.connect(2));
    right.greet("board of 2", 0);
    wrong.greet("board of 1", 0);
    system
        .wait_for("both connected", |status| status["survey"]["sources"][1]["front_ends"]["connected"] == 2);
    let said = system.ctl(&["status"]);
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("no front end is connected"), "{said}");
    system.begin();
    let id = right.wait_for_start();
    right.state(id);
    wrong.state(id);
    for event in 1..=EVENTS {
        right.send(&fragment(2, 1, event));
        wrong.send(&fragment(1, 1, event));
    }
    let summary = system.end(1);
    assert_eq!((&summary["events"]["complete"], &summary["exit_code"]), (&0.into(), &1.into()));
    assert_eq!(summary["sources"][1]["contradictions"], EVENTS, "{summary:#}");
    let problems = summary["problems"].to_string();
    assert!(
        problems
            .contains("source 2 sent 60 fragments with an event id that it had given to other data before"),
        "{problems}"
    );
    assert!(problems.contains("source 1 is missing in 60"), "{problems}");
    let log = system.log();
    for name in ["board of 1", "board of 2"] {
        assert!(log.contains(name), "{name}: {log}");
    }
}

/// A board that reaches the supervisor's port by mistake does not disturb the run, and its source
/// says that it has no front end.
#[test]
fn a_board_at_the_port_of_another_role_is_turned_away() {
    let system = System::at_100_hz("");
    system.wait_until_ready(0);
    let mut right = system.connect(2);
    let mut wrong = std::net::TcpStream::connect(system.supervisor()).unwrap();
    let bytes = fragment(1, 1, 1);
    std::io::Write::write_all(&mut wrong, &bytes).unwrap();
    let mut answer = Vec::new();
    // evb closes the connection, with a reset if it left bytes unread.
    let _ = std::io::Read::read_to_end(&mut wrong, &mut answer);
    system.begin();
    (1..=50).for_each(|event| right.send(&fragment(2, 1, event)));
    let status = system.wait_for("named", |status| presence(status, 1) == "no readout");
    assert!(status["problems"].to_string().contains("no front end is connected"), "{status:#}");
    assert!(system.ctl(&["stop"]).status.success());
    system.end(1);
    assert_eq!(foreign(&system.events(1), 1), 0);
}
