//! The wall clock of the supervisor's host is set during a run, and a supervisor with another wall
//! clock takes the run over. No event may show it.

mod fleet;

use std::{
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use evb_core::event::Event;
use evb_file::{EventFile, files_at};
use fleet::{Fleet, Plan, assert_closed};
use serde_json::Value;

const HOUR: i64 = 3_600_000_000_000;

/// Compiles the library that shifts the wall clock of a process.
fn library(dir: &Path) -> PathBuf {
    let (library, source) = (dir.join("shifted.so"), "tests/wall_clock/shifted.c");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    // Rust needs `cc` for linking, so it is there.
    assert!(cc.status().expect("cc starts").success());
    library
}

/// Sets the shift. The file keeps its length, because the program has mapped it.
fn set_clock(file: &Path, nanos: i64) {
    let file = std::fs::File::options().write(true).create(true).truncate(false).open(file);
    file.expect("a file of ours").write_all_at(&nanos.to_ne_bytes(), 0).expect("written");
}

fn events(fleet: &Fleet) -> Vec<Event> {
    let files = files_at(&fleet.out()).expect("files");
    let of_file =
        |path: &PathBuf| EventFile::open(path).expect("a file of ours").events().collect::<Vec<_>>();
    let mut events: Vec<Event> =
        files.iter().flat_map(of_file).map(|event| event.expect("an intact event")).collect();
    events.sort_by_key(|event| event.id);
    events
}

fn remarks(summary: &Value) -> Vec<&str> {
    summary["remarks"]
        .as_array()
        .map_or_else(Vec::new, |texts| texts.iter().filter_map(Value::as_str).collect())
}

/// Waits until the supervisor has remarked this and written the remark: it looks once a second, and
/// a busy disk takes its time.
fn await_in_journal(fleet: &Fleet, remark: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    let journal = || std::fs::read(fleet.dir().join("run.journal")).unwrap_or_default();
    while !journal().windows(remark.len()).any(|bytes| bytes == remark.as_bytes()) {
        assert!(Instant::now() < until, "the journal lacks: {remark}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn no_setting_of_a_wall_clock_moves_an_event() {
    let plan = Plan {
        run: "duration = \"10 s\"\nnumber = 1",
        supervisor: "trigger = { kind = \"periodic\", rate = \"100 Hz\" }\njournal = \"run.journal\"",
        files: true,
        ..Plan::default()
    };
    let mut fleet = plan.start_but(&["supervisor"]);
    let (library, clock) = (library(fleet.dir()), fleet.dir().join("clock"));
    let variables = [("LD_PRELOAD", library.as_path()), ("EVB_TEST_CLOCK", clock.as_path())];
    set_clock(&clock, 0);
    fleet.launch_with("supervisor", &variables);
    sleep(Duration::from_secs(2));
    set_clock(&clock, HOUR);
    await_in_journal(&fleet, "3600.000 s ahead of");
    set_clock(&clock, -HOUR);
    // Slewed back, 5 ms each 10 ms.
    for step in 1..=100 {
        sleep(Duration::from_millis(10));
        set_clock(&clock, -HOUR + step * 5_000_000);
    }
    await_in_journal(&fleet, "s behind");
    fleet.signal("supervisor", "KILL");
    fleet.wait("supervisor", Duration::from_secs(5));
    set_clock(&clock, HOUR);
    fleet.launch_with("supervisor", &variables);
    fleet.all_end(0, Duration::from_secs(30));

    let summary = fleet.summary("supervisor");
    assert_closed(&summary);
    let events = events(&fleet);
    assert!(events.len() > 500, "{} events", events.len());
    // All processes share the host's monotonic clock, so both times of an event differ by the same
    // number in all files.
    let offset = |event: &Event| event.utc.as_nanos().wrapping_sub(event.triggered.as_nanos());
    let differs = events.iter().find(|event| offset(event) != offset(&events[0]));
    assert!(differs.is_none(), "{differs:?} after {:?}", events[0]);
    let ascends = |pair: &[Event; 2]| pair[0].utc < pair[1].utc;
    assert!(events[0].utc.is_known() && events.array_windows().all(ascends));
    for side in ["3600.000 s ahead of", "s behind"] {
        assert!(remarks(&summary).iter().any(|remark| remark.contains(side)), "{:?}", remarks(&summary));
    }
    let begin = summary["begin"].as_str().expect("a time");
    assert!(begin <= &*events[0].utc.to_string(), "the run began before its first event: {begin}");
}
