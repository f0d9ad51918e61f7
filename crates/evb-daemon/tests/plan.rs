//! `evbd plan` and the commands that moved to `evb-bench`, tested as a user runs them.

use std::process::{Command, Output};

use serde_json::Value;

fn evbd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evbd")).args(arguments).output().expect("evbd starts")
}

#[test]
fn a_plan_is_a_configuration_that_check_admits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.toml");
    for numbers in [
        "--sources 8 --builders 1 --event-size 512kB --trigger-rate 150Hz --link-rate 1Gbit/s --port-buffer 128KiB",
        "--sources 32 --builders 4 --event-size 2MB --trigger-rate 1kHz --link-rate 10Gbit/s --port-buffer 128KiB",
        "--sources 1 --builders 3 --event-size 100B --link-rate 100Mbit/s --rtt 60us --mtu 9000",
    ] {
        let line: Vec<&str> = ["plan"].into_iter().chain(numbers.split_whitespace()).collect();
        let output = evbd(&[&line[..], &["--config"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(&path, &output.stdout).expect("written");
        let checked = evbd(&["check", path.to_str().expect("plain")]);
        let page = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
        assert!(page.contains("admitted") && page.contains("events/s expected, limited by"), "{page}");
        let json: Value =
            serde_json::from_slice(&evbd(&[&line[..], &["--json"]].concat()).stdout).expect("JSON");
        assert_eq!(json["config"].as_str().map(str::as_bytes), Some(output.stdout.as_slice()));
        assert_eq!(json["check"]["admitted"], true);
    }
}

#[test]
fn too_much_for_the_links_is_refused_with_what_would_do() {
    let line = "plan --sources 8 --builders 1 --event-size 512kB --trigger-rate 500Hz --link-rate 1Gbit/s";
    let output = evbd(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("3 builders or more"), "{output:?}");
}

#[test]
fn check_takes_a_measured_round_trip() {
    let numbers =
        "plan --sources 8 --builders 1 --event-size 512kB --link-rate 1Gbit/s --port-buffer 128KiB --config";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), evbd(&numbers.split_whitespace().collect::<Vec<_>>()).stdout)
        .expect("written");
    let output = evbd(&["check", file.path().to_str().expect("plain"), "--json", "--rtt", "2 ms"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trips = json["planning"][0]["grant_paths"].as_array().expect("trips");
    // A budget of 118 kB fills 1 Gbit/s up to a round trip of 0.96 ms.
    let part = trips[0]["utilisation"].as_f64().expect("a part");
    assert!(
        trips.len() == 1 && trips[0]["grant_path_us"] == 2000.0 && (part - 0.479).abs() < 0.002,
        "{trips:?}"
    );
}

#[test]
fn a_command_that_moved_is_refused_with_the_new_one() {
    for (line, new) in [
        ("bench modes --sources 4", "evb-bench modes --sources 4\n"),
        ("trigger --to 127.0.0.1:7900 --help", "evb-bench trigger --to 127.0.0.1:7900 --help\n"),
    ] {
        let output = evbd(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(new) && said.contains("cargo run --release -p evb-bench -- "), "{said}");
    }
}
