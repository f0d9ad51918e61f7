//! `evbd run --here`, `check --here` and `plan --hosts`, tested as a user runs them, on this host
//! alone.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");

fn evbd(arguments: &[&str], config: &Path) -> Output {
    Command::new(EVBD).args(arguments).arg(config).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the path of a configuration with the supervisor and a builder at `host`, and one source
/// with the keys `source`.
fn system(dir: &Path, host: &str, source: &str, run: &str) -> PathBuf {
    let ports = evb_needs::free_ports(2);
    let text = format!(
        "[run]\n{run}\n[security]\nmode = \"none\"\n[supervisor]\nlisten = \"{host}:{}\"\n\
         trigger = {{ kind = \"periodic\", rate = \"1 kHz\" }}\n\
         [[builder]]\nid = 1\nlisten = \"{host}:{}\"\nsink = \"null\"\n\
         [[source]]\nid = 1\n{source}\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n",
        ports[0], ports[1]
    );
    let path = dir.join("evb.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_system_on_loopback_runs_as_a_whole_and_leaves_a_summary_by_host() {
    let dir = tempfile::tempdir().unwrap();
    let config = system(dir.path(), "127.0.0.1", "", "events = 200");
    let summary = dir.path().join("run{run}-{host}.json");
    let output = evbd(&["run", "--here", "--summary", summary.to_str().unwrap()], &config);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("the whole system is on this host"), "{}", said(&output));
    let written: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(written, [format!("run1-{}.json", host.trim())]);
}

#[test]
fn a_second_process_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let config = system(dir.path(), "127.0.0.1", "", "");
    let mut first = Command::new(EVBD)
        .args(["run", "--here", "--quiet"])
        .arg(&config)
        .env("EVBD_LOG", "info")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = first.stderr.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(log));
    assert!(lines.any(|line| line.unwrap().contains("the whole system is on this host")));
    let output = evbd(&["run", "--here", "--quiet"], &config);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("belongs to one host"), "{}", said(&output));
    first.kill().unwrap();
    first.wait().unwrap();
    // A killed process does not keep its claim on the configuration.
    let text = std::fs::read_to_string(&config).unwrap().replace("[run]", "[run]\nevents = 10");
    std::fs::write(&config, text).unwrap();
    let output = evbd(&["run", "--here", "--quiet"], &config);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn who_has_no_role_is_told_the_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let config = system(dir.path(), "203.0.113.7", "host = \"no-such-host.invalid\"", "");
    for command in ["run", "check"] {
        let began = Instant::now();
        let output = evbd(&[command, "--here"], &config);
        let words = said(&output);
        assert_eq!(output.status.code(), Some(2), "{words}");
        for part in [
            "belongs to this host",
            "127.0.0.1 (lo)",
            "203.0.113.7",
            "supervisor, builder 1",
            "`no-such-host.invalid` has no address here",
        ] {
            assert!(words.contains(part), "{command}: `{part}` is not in {words}");
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
    let output = evbd(&["run", "--here", "--role", "supervisor"], &config);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("cannot be used with"), "{}", said(&output));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    for (host, source, says) in [
        ("203.0.113.7", "", ["which host runs source 1", "evb.toml:15:", "= key: source.host"]),
        (
            "127.0.0.1",
            "host = \"203.0.113.7\"",
            ["supervisor is on loopback", "evb.toml:6:", "= key: supervisor.listen"],
        ),
    ] {
        let config = system(dir.path(), host, source, "");
        // Without `--here`, the configuration is valid.
        assert_eq!(evbd(&["check"], &config).status.code(), Some(0));
        for command in ["run", "check"] {
            let output = evbd(&[command, "--here"], &config);
            let words = said(&output);
            assert_eq!(output.status.code(), Some(2), "{words}");
            for part in says {
                assert!(words.contains(part), "{command}: `{part}` is not in {words}");
            }
        }
    }
}

#[test]
fn check_says_who_hosts_what() {
    let dir = tempfile::tempdir().unwrap();
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let source = format!("host = \"{}\"", own.trim());
    let config = system(dir.path(), "203.0.113.7", &source, "");
    let output = evbd(&["check", "--here"], &config);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{page}{}", said(&output));
    assert!(page.contains("This host hosts source 1"), "{page}");
    assert!(page.contains("203.0.113.7") && page.contains("supervisor, builder 1"), "{page}");
    let output = evbd(&["check", "--here", "--json"], &config);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["here"]["roles"], serde_json::json!(["source 1"]));
    assert_eq!(object["here"]["hosts"][0]["here"], false);
}

/// Returns a free port below the range that the system assigns to other programs; the port of a
/// plan's first builder is free as well.
fn port_for_a_plan() -> u16 {
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 20_000 + (std::process::id() % 5000) as u16;
    (first..30_000).find(|port| is_free(*port) && is_free(port + 101)).expect("some port is free")
}

#[test]
fn what_is_planned_for_hosts_is_admitted_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let port = port_for_a_plan().to_string();
    let output = Command::new(EVBD)
        .args(["plan", "--hosts", "127.0.0.1", "--events", "50", "--trigger-rate", "1kHz", "--port", &port])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let config = dir.path().join("planned.toml");
    std::fs::write(&config, &output.stdout).unwrap();
    let output = evbd(&["run", "--here", "--quiet"], &config);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = Command::new(EVBD).args(["plan", "--hosts", "n[1-4]"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("scontrol show hostnames 'n[1-4]'"), "{}", said(&output));
}
