//! `evb-bench`, tested as a user runs it.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn evb_bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evb-bench")).args(arguments).output().expect("evb-bench starts")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("written")).expect("JSON")
}

/// Runs a bench with `--json` and `--svg`. Returns the bench's output, its JSON and its figure.
fn bench(arguments: &[&str]) -> (Output, Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (json, svg) = (folder.path().join("bench.json"), folder.path().join("bench.svg"));
    let files = ["--json", json.to_str().expect("plain"), "--svg", svg.to_str().expect("plain")];
    let output = evb_bench(&[arguments, &files].concat());
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&output.stderr));
    let figure = std::fs::read_to_string(&svg).expect("written");
    roxmltree::Document::parse(&figure).expect("well-formed");
    (output, read(&json), figure)
}

#[test]
fn modes_are_compared_in_table_json_and_figure() {
    let line = ["modes", "--sources", "4,8", "--events", "10", "--fragment", "20 kB"];
    let (output, json, figure) = bench(&line);
    assert_eq!(output.status.code(), Some(0));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("simulated switch") && table.contains("token-bucket"), "{table}");
    assert_eq!(json["points"].as_array().map(Vec::len), Some(8));
    assert!(json["points"].as_array().into_iter().flatten().all(|point| point["complete"] == 10));
    assert!(figure.contains("Goodput"));
}

#[test]
fn regularity_accounts_for_every_message() {
    let line = [
        "regularity",
        "--executors",
        "timerfd",
        "--rounds",
        "1",
        "--messages",
        "60",
        "--underload-messages",
        "40",
        "--loads",
        "0.5",
    ];
    let (output, json, figure) = bench(&line);
    let table = String::from_utf8_lossy(&output.stdout);
    // The bench makes two unshaped runs, a bare run and two shaped runs of 60 messages each, and at
    // least one run of 40 messages below the rate.
    assert!(table.contains("messages sent in all: 0 lost"), "{table}");
    let runs = json["runs"].as_array().expect("runs");
    assert!(runs.iter().all(|run| run["lost"] == 0 && run["sent"] == run["received"]), "{runs:?}");
    assert!(figure.contains("HZ no longer matters"));
}

/// A receiving process that is killed at the end of the test.
struct Receiver(std::process::Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn regularity_works_between_two_processes() {
    let mut receiver = Receiver(
        Command::new(env!("CARGO_BIN_EXE_evb-bench"))
            .args(["regularity", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("evb-bench starts"),
    );
    let mut lines = BufReader::new(receiver.0.stdout.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("text");
    let at = line
        .split_whitespace()
        .find_map(|word| word.trim_end_matches(';').parse::<std::net::SocketAddr>().ok());
    let at = at.unwrap_or_else(|| panic!("no address in {line:?}")).to_string();
    let arguments = ["regularity", "--send-to", &at, "--executors", "timerfd", "--rounds", "1"];
    let few = ["--messages", "40", "--underload-messages", "40", "--loads", "0.5"];
    let (_, json, _) = bench(&[&arguments[..], &few].concat());
    assert!(json["setting"].as_str().is_some_and(|setting| setting.contains(&at)), "{json}");
    assert!(
        json["runs"].as_array().is_some_and(|runs| runs.iter().all(|run| run["received"] == 40)),
        "{json}"
    );
}

#[test]
fn shaping_shows_asked_and_got() {
    let line = [
        "shaping",
        "--shapes",
        "1x1",
        "--rates",
        "20 Mbit/s",
        "--executors",
        "timerfd,tbf",
        "--duration",
        "400 ms",
    ];
    let (output, json, figure) = bench(&line);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("20 Mbit/s") && table.contains("tbf is left out"), "{table}");
    let point = &json["points"][0];
    assert_eq!(point["asked_bits_per_s"], 20_000_000);
    // The measured rate does not exceed the requested one, except for the end of a burst. On a busy
    // machine, the measured rate may be much lower.
    assert!(point["off"].as_f64().is_some_and(|off| off < 0.05 && off > -1.0), "{point:#}");
    assert_eq!(point["got_bits_per_s"].as_array().map(Vec::len), Some(1));
    assert_eq!(point["exit_code"], 0);
    assert!(json["unshaped_bits_per_s"][0][1].as_f64().is_some_and(|most| most > 40e6), "{json:#}");
    assert!(figure.contains("Off, worst lane"));
}

#[test]
fn builder_draws_its_figure() {
    let line = [
        "builder",
        "--sources",
        "2",
        "--builders",
        "1",
        "--slots",
        "2",
        "--sizes",
        "1 KiB,4 KiB",
        "--duration",
        "100 ms",
    ];
    let (output, json, figure) = bench(&line);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(json["points"].as_array().map(Vec::len), Some(2));
    assert!(figure.contains("2 slots"));
}

#[test]
fn pipe_judges_its_hosts() {
    let line = ["pipe", "--seconds", "3", "--runs", "1", "--gaps", "1023", "--clusters", "1 ms"];
    let (output, json, figure) = bench(&[&line[..], &["--transmit-queues", "25000"]].concat());
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("equal-rate host") && table.contains("busy for X·RTT/Y"), "{table}");
    let failed = json["verdicts"].as_array().into_iter().flatten().any(|verdict| verdict["holds"] == false);
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{table}");
    assert!(json["series"][0]["sent"].as_array().is_some_and(|sent| sent.len() == 2000));
    assert!(figure.contains("Packets/ms"));
}

#[test]
fn nonsense_exits_with_2() {
    for line in [
        ["pipe", "--rtt", "0 ms"],
        ["pipe", "--fast-rate", "100 Mbit/s"],
        ["pipe", "--equal-rate", "2 Gbit/s"],
        ["pipe", "--executors", "magic"],
        ["regularity", "--rate", "8 Mbit/s"],
        ["modes", "--load", "2"],
        ["shaping", "--shapes", "2x2"],
        ["shaping", "--runs", "0"],
    ] {
        assert_eq!(evb_bench(&line).status.code(), Some(2), "{line:?}");
    }
}
