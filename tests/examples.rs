//! The examples build, run, and do what their comments promise.

use std::process::Command;

/// Builds and runs an example, which must succeed, and returns its output.
fn run(example: &str, arguments: &[&str]) -> String {
    // The example is built with the features of the whole workspace, as this program is; otherwise
    // cargo would build everything again.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace", "--example", example]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(built.success(), "{example} does not build");
    let own = std::env::current_exe().expect("this program is somewhere");
    let program = own.ancestors().nth(2).expect("deps, and what it is in").join("examples").join(example);
    let output = Command::new(&program).args(arguments).output().expect("the example runs");
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn hello_event_builds_three_events() {
    let told = run("hello_event", &[]);
    for event in 1..=3 {
        let line = format!("event {event}: tracker data of {event} + calorimeter data of {event}\n");
        assert!(told.contains(&line), "{told}");
    }
    assert!(told.ends_with("3 of 3 assigned events complete\n"), "{told}");
}

#[test]
fn hello_event_fits_on_a_screen() {
    assert!(include_str!("../examples/hello_event.rs").lines().count() <= 25);
}

#[test]
fn readout_loop_builds_what_its_threads_push() {
    let told = run("readout_loop", &[]);
    assert!(told.starts_with("5000 of 5000 assigned events complete"), "{told}");
    for source in 1..=3 {
        let line = told.lines().find(|line| line.starts_with(&format!("source {source} pushed ")));
        let count = line.and_then(|line| line.split(' ').nth(3)?.parse::<u64>().ok());
        assert!(count.is_some_and(|count| count >= 5000), "{told}");
    }
}

#[test]
fn custom_sink_has_a_line_for_every_event() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("table/events.csv");
    let told = run("custom_sink", &[path.to_str().expect("a plain path")]);
    assert!(told.starts_with("1000 of 1000 assigned events complete"), "{told}");
    let table = std::fs::read_to_string(path).expect("the table");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("event,fragments,source_1,source_2,source_3"));
    let mut ids: Vec<u64> = lines
        .map(|line| {
            let values: Vec<u64> = line.split(',').map(|value| value.parse().expect("a number")).collect();
            assert_eq!((values.len(), values[1]), (5, 3), "{line}");
            values[0]
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), 1000);
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "an event was built twice");
}
