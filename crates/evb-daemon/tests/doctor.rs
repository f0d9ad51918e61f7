//! `evbd doctor` as a user runs it: its report is compared with what this test reads from the
//! system.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use evb_needs::{Missing, granted, skip, sys};
use serde_json::Value;

fn doctor(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    command.current_dir(root).arg("doctor").args(arguments).output().expect("evbd starts")
}

fn report(arguments: &[&str]) -> Value {
    let output = doctor(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Returns the only finding of that name, and of that device if one is given.
fn finding<'r>(report: &'r Value, device: Option<&str>, name: &str) -> &'r Value {
    let findings = report["findings"].as_array().expect("findings");
    let is_it =
        |finding: &&Value| finding["name"] == name && device.is_none_or(|device| finding["device"] == device);
    let found: Vec<_> = findings.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{name} of {device:?}: {found:#?}");
    found[0]
}

fn setting(name: &str) -> String {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).trim().to_owned()
}

#[test]
fn every_finding_has_its_keys() {
    let report = report(&["--json"]);
    assert_eq!(report["configuration"], Value::Null);
    let findings = report["findings"].as_array().expect("findings");
    for finding in findings {
        for key in ["group", "name", "value", "verdict", "why"] {
            assert!(finding[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {finding:#}");
        }
        assert!(finding["command"].is_null() || finding["command"].is_string(), "{finding:#}");
        let verdicts = ["good", "could be better", "bad", "unknown"];
        assert!(verdicts.iter().any(|verdict| finding["verdict"] == *verdict), "{finding:#}");
        let is_missing = finding["value"].as_str().is_some_and(|value| value.starts_with("not available, "));
        assert_eq!(finding["available"], !is_missing, "{finding:#}");
        assert_eq!(finding["data"].is_null(), is_missing, "{finding:#}");
    }
    for name in [
        "clock source",
        "timer lateness",
        "cores",
        "frequency governor",
        "memory copies",
        "receive buffer",
        "send buffer",
        "TCP receive limit",
        "TCP send limit",
        "congestion control",
        "tcp_tso_rtt_log",
        "path MTU",
        "grant path",
        "R·C/L",
    ] {
        finding(&report, None, name);
    }
    for name in [
        "link",
        "speed",
        "MTU",
        "offloads",
        "coalescing",
        "rings",
        "pause frames",
        "qdisc",
        "txqueuelen",
        "offload",
    ] {
        finding(&report, Some("lo"), name);
    }
    let counted: u64 = report["counts"].as_object().expect("counts").values().filter_map(Value::as_u64).sum();
    assert_eq!(counted, findings.len() as u64);
}

#[test]
fn the_kernel_says_the_same() {
    let report = report(&["--json", "--device", "lo"]);
    assert_eq!(report["kernel"], setting("kernel.osrelease"));
    for (name, limit) in [("receive buffer", "net.core.rmem_max"), ("send buffer", "net.core.wmem_max")] {
        let data = &finding(&report, None, name)["data"];
        let most: u64 = setting(limit).parse().expect("a number");
        assert_eq!(data["most"], most, "{limit}");
        assert_eq!(data["got"], most.min(data["asked"].as_u64().expect("asked")), "{limit}");
    }
    for (name, limits) in
        [("TCP receive limit", "net.ipv4.tcp_rmem"), ("TCP send limit", "net.ipv4.tcp_wmem")]
    {
        let data = &finding(&report, None, name)["data"];
        let read: Vec<u64> =
            setting(limits).split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(
            [&data["least"], &data["default"], &data["most"]].map(Value::as_u64),
            [Some(read[0]), Some(read[1]), Some(read[2])]
        );
    }
    if Path::new("/proc/sys/net/ipv4/tcp_tso_rtt_log").exists() {
        let log: u64 = setting("net.ipv4.tcp_tso_rtt_log").parse().expect("a number");
        assert_eq!(finding(&report, None, "tcp_tso_rtt_log")["data"], log);
    }
    let congestion = &finding(&report, None, "congestion control")["data"];
    assert_eq!(congestion["default"], setting("net.ipv4.tcp_congestion_control"));
    let available = setting("net.ipv4.tcp_available_congestion_control");
    let words: Vec<&str> = available.split_whitespace().collect();
    assert_eq!(congestion["available"], serde_json::json!(words));
    assert!(words.iter().any(|word| congestion["got"] == *word), "{congestion}");
}

#[test]
fn the_clock_and_the_cores_are_those_of_the_system() {
    let Some(()) = granted(sys()) else { return };
    let report = report(&["--json", "--device", "lo"]);
    let clock = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    if let Ok(current) = clock {
        assert_eq!(finding(&report, None, "clock source")["data"]["current"], current.trim());
    }
    let allowed = finding(&report, None, "cores")["data"]["allowed"].as_array().expect("cores").len();
    let usable = std::thread::available_parallelism().expect("cores").get();
    assert!(usable <= allowed, "{usable} of {allowed}: a quota may take some, nothing gives more");
    let late = &finding(&report, None, "timer lateness")["data"];
    let of = |key: &str| late[key].as_f64().expect("a time");
    assert!(0.0 < of("p50_us") && of("p50_us") <= of("p99_us") && of("p99_us") <= of("max_us"), "{late}");
    assert!(late["count"].as_u64().is_some_and(|count| count > 10), "half a second of waits: {late}");
}

#[test]
fn devices_are_as_sysfs_shows_them() {
    let Some(()) = granted(sys()) else { return };
    let devices = fs::read_dir("/sys/class/net").expect("devices");
    let names: Vec<String> =
        devices.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).take(4).collect();
    let flags: Vec<&str> = names.iter().flat_map(|name| ["--device", name.as_str()]).collect();
    let report = report(&[&["--json"], flags.as_slice()].concat());
    for name in &names {
        let read = |file: &str| {
            let text = fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?;
            text.trim().parse::<u64>().ok()
        };
        // This process may have been moved to a network namespace that /sys does not show.
        if finding(&report, Some(name), "link")["data"]["index"].as_u64() != read("ifindex") {
            skip(&Missing::new(format_args!("a /sys that shows {name} of this network namespace")));
            continue;
        }
        assert_eq!(finding(&report, Some(name), "MTU")["data"].as_u64(), read("mtu"), "{name}");
        assert_eq!(
            finding(&report, Some(name), "txqueuelen")["data"].as_u64(),
            read("tx_queue_len"),
            "{name}"
        );
        // For a device that is down, /sys shows no speed.
        if read("carrier").is_none() {
            continue;
        }
        let speed = &finding(&report, Some(name), "speed")["data"]["bits_per_second"];
        let megabits = read("speed").filter(|megabits| (1..u64::from(u32::MAX)).contains(megabits));
        assert_eq!(speed.as_u64(), megabits.map(|megabits| megabits * 1_000_000), "{name}");
    }
}

#[test]
fn this_host_is_good_enough_for_the_quickstart() {
    let output = doctor(&["examples/quickstart.toml"]);
    let page = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert!(page.contains("\npath to 127.0.0.1 ") && page.contains("\ndevice lo\n"), "{page}");
}

#[test]
fn a_host_that_is_not_good_enough_exits_with_1() {
    let Some(()) = granted(sys()) else { return };
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart.toml"))
            .expect("the example");
    let file = tempfile::NamedTempFile::new().expect("a file");
    // No host has a core of this number.
    let pinned = text.replacen("listen = \"127.0.0.1:7101\"", "listen = \"127.0.0.1:7101\"\ncpu = 4095", 1);
    assert_ne!(pinned, text);
    fs::write(file.path(), pinned).expect("written");
    let path = file.path().to_str().expect("a plain path");
    let output = doctor(&[path, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(finding(&report, None, "cores")["verdict"], "bad");
    assert_eq!(report["verdict"], "bad");
}

#[test]
fn what_is_not_there_exits_with_2() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), "[run]\nnumer = 1\n").expect("written");
    let path = file.path().to_str().expect("a plain path");
    assert_eq!(doctor(&[path]).status.code(), Some(2));
    assert_eq!(doctor(&["/nowhere/at.all"]).status.code(), Some(2));
    let output = doctor(&["--device", "no-such-device"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("there is no device `no-such-device`"), "{message}");
}

#[test]
fn the_grant_path_is_what_check_takes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = "examples/quickstart.toml";
    let output = doctor(&[config, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let path = &report["grant_path_us"];
    assert_eq!(path, &finding(&report, None, "grant path")["data"]);
    let (p50, wake_up) = (path["first_byte"]["p50"].as_f64(), path["source_wake_up"]["p50"].as_f64());
    assert!(wake_up > Some(0.0) && wake_up < p50, "{path}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), &output.stdout).expect("written");
    let check = Command::new(env!("CARGO_BIN_EXE_evbd"))
        .current_dir(root)
        .args(["check", config, "--json", "--path"])
        .arg(file.path())
        .output()
        .expect("evbd starts");
    let checked: Value =
        serde_json::from_slice(&check.stdout).unwrap_or_else(|error| panic!("{error}: {check:?}"));
    assert_eq!(checked["grant_path"]["origin"], "measured");
    assert_eq!(checked["grant_path"]["stages"].as_array().map(Vec::len), Some(5));
}
