//! `evbd check`, tested as a user runs it.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

fn check(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    command.current_dir(root).arg("check").args(arguments).output().expect("evbd starts")
}

#[test]
fn the_examples_are_admitted() {
    for example in [
        "examples/quickstart.toml",
        "examples/watch.toml",
        "examples/km3net.toml",
        "examples/two-switches.toml",
        "examples/studies/kek-1x3.toml",
        "examples/studies/atlas.toml",
        "examples/studies/long-fat-pipe.toml",
        "examples/studies/babar.toml",
        "examples/studies/rcnp.toml",
    ] {
        let output = check(&[example]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("admitted"));
    }
}

#[test]
fn the_timestamps_of_the_examples_that_run_are_compared() {
    for example in ["quickstart", "watch", "km3net", "missed-trigger", "broken-detector"] {
        let output = check(&[&format!("examples/{example}.toml"), "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let alignment = &report["alignment"];
        assert_eq!(alignment["without_clock"].as_array().map(Vec::len), Some(0), "{example}: {alignment}");
    }
}

/// The drawing in the guide is what the command prints.
#[test]
fn the_example_of_two_switches_is_drawn_as_the_guide_shows() {
    let output = check(&["examples/two-switches.toml", "--verbose"]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/how-to/trunks.md")).expect("readable");
    let drawing = guide.split("```text\n").find(|block| block.starts_with("Network\n")).expect("a drawing");
    let drawing = drawing.split("```").next().expect("a block");
    assert!(page.contains(drawing), "{page}");
    assert!(page.contains("the trunk `core`, 459 events/s"), "{page}");
}

/// The sums of the systems of the five papers are those of the papers and of `docs/studies`.
#[test]
fn the_systems_of_the_papers_have_their_sums() {
    for (example, more, parts) in [
        // 900 Mbit/s of frames of 1514 bytes are 914.3 Mbit/s on a link of 1 Gbit/s.
        ("kek-1x3", &[][..], &["1 source, 3 builders", "links carry    1838 events/s"][..]),
        ("atlas", &[], &["multicast, group 239.1.2.3:7002", "10.0 Mbit/s for each lane, 3076 B at once"]),
        ("long-fat-pipe", &["--rtt", "198ms"], &["bounded by the trunk `oc-12`", "24.0 MB", "198.00 ms"]),
        ("babar", &[], &["36.7 Mbit/s  36.7 %", "25.0 Mbit/s  25.0 %", "6.93 kB"]),
        ("rcnp", &[], &["links carry    16760 events/s, bounded by the trunk `sources`"]),
    ] {
        let path = format!("examples/studies/{example}.toml");
        let output = check(&[&[path.as_str(), "--verbose"], more].concat());
        let page = String::from_utf8_lossy(&output.stdout);
        for part in parts {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
    }
}

/// A source whose rates together exceed its link is refused, as is an event rate above a trunk.
#[test]
fn the_systems_of_the_papers_are_refused_beyond_their_limits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/studies");
    for (example, from, to, reason) in [
        ("kek-1x3", "300 Mbit/s", "400 Mbit/s", "the rates of the lanes (source to builder) add up to 1.015"),
        ("rcnp", "12 kHz", "17 kHz", "at most 16760 events/s"),
    ] {
        let text = std::fs::read_to_string(root.join(example).with_extension("toml")).expect("readable");
        let file = written(&text.replace(from, to));
        let output = check(&[file.path().to_str().expect("a plain path")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{example}: {said}");
        assert!(said.contains(reason), "{said}");
    }
}

/// The reader closes the pipe early, as in `evbd check evb.toml | head -1`.
#[test]
fn a_reader_may_have_seen_enough() {
    for more in [&[][..], &["--json"]] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
        command.current_dir(root).arg("check").args(more).arg("examples/quickstart.toml");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("evbd starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("evbd ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn json_is_one_object() {
    let output = check(&["examples/quickstart.toml", "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&object["admitted"], &object["sources"]), (&true.into(), &4.into()));
}

#[test]
fn a_bad_configuration_exits_with_2() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[run]\nnumer = 1\n").expect("written");
    let path = file.path().to_str().expect("a plain path");
    let output = check(&[path]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("did you mean `number`?") && message.contains(":2:1"), "{message}");
    let output = check(&[path, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
    assert_eq!(check(&["/nowhere/at.all"]).status.code(), Some(2));
}

const FAST: &str = "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.77.3.1:7000\"\n\
    trigger = { kind = \"periodic\", rate = \"150 Hz\" }\n\
    [network]\nlink_rate = \"10 Gbit/s\"\nport_buffer = \"128 KiB\"\n\
    [[source]]\nids = \"1-8\"\nbind = \"10.77.1.{id}\"\ninput = { kind = \"generator\", size = \"64 kB\" }\n\
    [[builder]]\nid = 1\nlisten = \"10.77.2.1:7101\"\nsink = \"null\"\n";

const SUMMARY: &str = r#"{"run": 1, "grant_path_us": {"first_byte": {"p50": 120, "p99": 300, "p999": 300, "max": 310},
    "last_byte": {"p50": 140, "p99": 310, "p999": 320, "max": 320}, "builder_write": {"p50": 8, "p99": 15},
    "source_wake_up": {"p50": 60, "p99": 110}, "source_answer": {"p50": 12, "p99": 40},
    "builder_wake_up": {"p50": 25, "p99": 90}, "derived_rest": {"p50": 15}}}"#;

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn a_measured_path_is_shown_by_stage() {
    let (config, summary) = (written(FAST), written(SUMMARY));
    let [config, summary] = [&config, &summary].map(|file| file.path().to_str().expect("a plain path"));
    let output = check(&[config, "--path", summary, "--verbose"]);
    let page = String::from_utf8_lossy(&output.stdout);
    // On the wire, a budget of 98.3 kB of buffer bytes fills a 10 Gbit/s port for 79.9 µs. A
    // grant path of 60 µs takes 0.751 of that time, which the page must state.
    for part in [
        "measured grant path",
        "120.0 µs (p50)",
        "300.0 µs (p99)",
        "if data come 300.0 µs after a builder's request (grant)",
        "R by stage",
        "source's wake-up                60.0 µs   110.0 µs  0.751",
        "wire, switch, queues (derived)  15.0 µs   -         0.188",
        "grant to first byte             120.0 µs  300.0 µs  1.502",
        "Most of it: source's wake-up. What makes it shorter: sources' cores that are kept awake",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let output = check(&[config, "--path", summary, "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&object["grant_path"]["origin"], &object["grant_path"]["file"]),
        (&"measured".into(), &summary.into())
    );
    assert_eq!(object["planning"][0]["grant_paths"][1]["grant_path_us"], 300.0);
    assert_eq!(object["planning"][0]["stages"][1]["stage"], "source_wake_up");
    let page = check(&[config, "--verbose"]).stdout;
    assert!(String::from_utf8_lossy(&page).contains("assumed grant path"));
}

#[test]
fn a_file_that_has_no_path_exits_with_2() {
    let (config, other) = (written(FAST), written("{}"));
    let [config, other] = [&config, &other].map(|file| file.path().to_str().expect("a plain path"));
    for arguments in [&[config, "--path", other][..], &[config, "--path", other, "--json"]] {
        let output = check(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("has no object grant_path_us; give the summary of a run"), "{said}");
    }
    assert_eq!(
        check(&[config, "--path", other, "--rtt", "20 us"]).status.code(),
        Some(2),
        "one or the other"
    );
}
