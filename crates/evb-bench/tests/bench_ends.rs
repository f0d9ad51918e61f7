//! `evb-bench stream`, `request` and `memory`, tested as a user runs them, between two processes
//! and with bad input.

use std::{
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

fn evb_bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evb-bench")).args(arguments).output().expect("evb-bench starts")
}

/// Runs a bench with JSON on standard output and a figure. Returns both.
fn bench(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("bench.svg");
    let output = evb_bench(&[arguments, &["--json", "-", "--svg", svg.to_str().expect("plain")]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let figure = std::fs::read_to_string(&svg).expect("written");
    roxmltree::Document::parse(&figure).expect("well-formed");
    (serde_json::from_slice(&output.stdout).expect("JSON"), figure)
}

/// The far end of a bench in another process, which is killed at the end of the test.
struct FarEnd {
    process: Child,
    at: String,
}

impl FarEnd {
    fn of(name: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_evb-bench"))
            .args([name, "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("evb-bench starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address =
            |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit()).parse::<SocketAddr>().ok();
        let at = line.split_whitespace().find_map(address);
        let at = at.unwrap_or_else(|| panic!("no address in {line:?}")).to_string();
        Self { process, at }
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const QUICK: [&str; 6] = ["--seconds", "0.1", "--warm-up", "10 ms", "--repeats", "3"];

#[test]
fn a_stream_is_measured_between_two_processes_more_than_once() {
    let far = FarEnd::of("stream");
    for _ in 0..2 {
        let line = ["stream", "--send-to", &far.at, "--records", "256 B,8 KiB"];
        let (json, figure) = bench(&[&line[..], &QUICK].concat());
        let points = json["points"].as_array().expect("points");
        assert_eq!(points.len(), 4);
        for point in points {
            assert!(point["rate_bits_per_s"]["mean"].as_f64().is_some_and(|rate| rate > 1e5), "{point:#}");
            assert!(point["rate_bits_per_s"]["half_width"].is_number(), "{point:#}");
            assert!(point["rate_bits_per_s"]["converged"].is_boolean(), "{point:#}");
        }
        assert!(json["setting"].as_str().is_some_and(|setting| setting.contains(&far.at)), "{json:#}");
        assert!(figure.contains("Throughput"));
        let machine = &json["machine"];
        assert!(machine["kernel"].is_string() && machine["cores"].is_u64(), "{machine:#}");
        assert_eq!(machine["device"], "lo");
        assert!(machine["mtu"].is_u64() && machine["load_average"].is_array(), "{machine:#}");
    }
}

#[test]
fn requests_are_answered_by_another_process() {
    let far = FarEnd::of("request");
    let line = ["request", "--send-to", &far.at, "--lengths", "16 B,4 KiB", "--outstanding", "1,4"];
    let (json, figure) = bench(&[&line[..], &QUICK].concat());
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 8);
    for point in points {
        assert!(point["requests_per_s"]["mean"].as_f64().is_some_and(|rate| rate > 100.0), "{point:#}");
        assert!(point["round_trip_us"].as_f64().is_some_and(|trip| trip > 0.0), "{point:#}");
    }
    assert!(figure.contains("Requests per second"));
}

#[test]
fn memory_is_measured_beside_a_shaper() {
    let line = ["memory", "--sizes", "1 MB", "--wakes", "100 Hz,1 kHz", "--pairs", "3", "--round", "10 ms"];
    let (json, figure) = bench(&line);
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    assert!(points.iter().all(|point| point["losses"].as_array().map(Vec::len) == Some(2)), "{points:#?}");
    assert!(figure.contains("Beside a shaper"));
}

/// Returns the complaint of a bench that must end with exit code 2.
fn complaint(arguments: &[&str]) -> String {
    let output = evb_bench(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    said
}

#[test]
fn an_unreachable_peer_is_named() {
    let at = format!("127.0.0.1:{}", evb_needs::free_ports(1)[0]);
    for name in ["stream", "request"] {
        let said = complaint(&[name, "--send-to", &at]);
        assert!(said.contains(&format!("cannot reach {at}")) && said.contains("--listen"), "{said}");
    }
}

#[test]
fn a_peer_of_another_kind_is_named() {
    let far = FarEnd::of("request");
    let said = complaint(&["stream", "--send-to", &far.at]);
    assert!(said.contains("is not the far end of `evb-bench stream`: it serves `request`"), "{said}");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
    let at = taken.local_addr().expect("known").to_string();
    for name in ["stream", "request"] {
        let said = complaint(&[name, "--listen", &at]);
        assert!(said.contains(&format!("cannot listen at {at}")), "{said}");
    }
}

#[test]
fn records_without_bytes_and_unknown_transports_are_refused() {
    assert!(complaint(&["stream", "--records", "0 B"]).contains("not 0 B"));
    assert!(complaint(&["request", "--lengths", "0 B"]).contains("not 0 B"));
    assert!(complaint(&["memory", "--sizes", "0 B"]).contains("not 0 B"));
    for name in ["stream", "request"] {
        let said = complaint(&[name, "--transport", "sctp"]);
        assert!(said.contains("sctp") && said.contains("tcp, udp"), "{said}");
    }
    let said = complaint(&["stream", "--records", "1 KiB", "--coalescing", "996/1000"]);
    assert!(said.contains("the device lo has no interrupt coalescing"), "{said}");
    assert!(complaint(&["stream", "--within", "0%"]).contains("0%"));
}
