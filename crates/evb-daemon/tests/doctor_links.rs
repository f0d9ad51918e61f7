//! `evbd doctor` on links that this test makes: two network namespaces and a pair of `veth`, with
//! one queueing discipline after the other. The doctor's report is compared with the output of
//! `tc`. The test needs root; it skips a discipline that the kernel lacks.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use evb_needs::{Missing, granted, skip};
use serde_json::Value;

/// Two network namespaces and the cable between them, removed when dropped.
struct Cable {
    near: String,
    far: String,
}

const FAR: &str = "10.83.0.2";

impl Cable {
    /// Creates a cable; says what is missing and returns `None` without the necessary rights or
    /// tools.
    fn new(name: &str) -> Option<Self> {
        granted(Self::laid(name))
    }

    fn laid(name: &str) -> Result<Self, Missing> {
        evb_needs::programs(&["ip", "tc"])?;
        let id = std::process::id();
        let cable = Self { near: format!("doc-{name}-a-{id}"), far: format!("doc-{name}-b-{id}") };
        let (near, far) = (&cable.near, &cable.far);
        let made = [
            format!("ip netns add {near}"),
            format!("ip netns add {far}"),
            format!("ip link add near netns {near} numtxqueues 2 type veth peer name far netns {far}"),
            format!("ip -n {near} addr add 10.83.0.1/24 dev near"),
            format!("ip -n {far} addr add {FAR}/24 dev far"),
            format!("ip -n {near} link set lo up"),
            format!("ip -n {far} link set lo up"),
            format!("ip -n {near} link set near up"),
            format!("ip -n {far} link set far up"),
        ];
        for command in made {
            evb_needs::run(&command)?;
        }
        Ok(cable)
    }

    fn here(&self, command: &str) -> Output {
        output(&format!("ip netns exec {} {command}", self.near)).expect("ip starts")
    }

    /// Runs the doctor on the near host. Returns the doctor's report and exit code.
    fn doctor(&self, arguments: &str) -> (Value, Option<i32>) {
        let output = self.here(&format!("{} doctor --json {arguments}", env!("CARGO_BIN_EXE_evbd")));
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (report, output.status.code())
    }

    /// Sets a queueing discipline. Returns true if the kernel supports the discipline.
    fn put(&self, qdisc: &str) -> bool {
        succeeds(&format!("ip netns exec {} tc qdisc replace dev near root {qdisc}", self.near))
    }

    /// Returns the root queueing discipline as `tc` shows it.
    fn root(&self) -> Value {
        let output = self.here("tc -j qdisc show dev near");
        let all: Value = serde_json::from_slice(&output.stdout).expect("tc's JSON");
        let root = all.as_array().and_then(|all| all.iter().find(|qdisc| qdisc["root"] == true));
        root.expect("a root").clone()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            succeeds(&format!("ip netns del {name}"));
        }
    }
}

fn in_kernel(qdisc: &str) -> Missing {
    Missing::new(format_args!("a kernel with {qdisc}"))
}

fn output(command: &str) -> Option<Output> {
    let mut words = command.split(' ');
    Command::new(words.next()?).args(words).output().ok()
}

fn succeeds(command: &str) -> bool {
    output(command).is_some_and(|output| output.status.success())
}

fn finding<'r>(report: &'r Value, name: &str) -> &'r Value {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("{name} in {report:#}"))
}

/// Returns true if departure times were kept with the `txtime` offload.
fn txtime_held(report: &Value) -> bool {
    let tried = finding(report, "offload")["data"].as_array().expect("proofs");
    tried.iter().any(|proof| proof["offload"] == "txtime" && proof["held"] == true)
}

#[test]
fn queueing_disciplines_are_as_tc_shows_them() {
    let Some(cable) = Cable::new("q") else { return };
    // Each case: the discipline, the options that both `evbd doctor` and `tc` show, the verdict,
    // and true if departure times are kept.
    let cases: [(&str, &[&str], &str, bool); 6] = [
        ("fq limit 5000 flow_limit 77", &["limit", "flow_limit", "quantum", "initial_quantum"], "good", true),
        ("pfifo_fast", &[], "could be better", false),
        ("pfifo limit 123", &["limit"], "could be better", false),
        ("fq_codel limit 321", &["limit"], "could be better", false),
        ("tbf rate 300mbit burst 32k limit 64k", &[], "unknown", false),
        ("etf clockid CLOCK_TAI delta 250000", &["delta"], "bad", false),
    ];
    for (qdisc, options, verdict, txtime) in cases {
        if !cable.put(qdisc) {
            skip(&in_kernel(qdisc));
            continue;
        }
        let (report, _) = cable.doctor(&format!("--device near --peer {FAR}"));
        let found = finding(&report, "qdisc");
        let (root, seen) = (cable.root(), &found["data"][0]);
        assert_eq!((&seen["kind"], &seen["place"]), (&root["kind"], &"root".into()), "{qdisc}");
        for option in options {
            let ours = if *option == "delta" { "delta_ns" } else { option };
            assert!(root["options"][option].is_u64(), "{option} of {root}");
            assert_eq!(seen["options"][ours], root["options"][option], "{option} of {qdisc}");
        }
        if root["kind"] == "tbf" {
            let of_tc = |key: &str| root["options"][key].as_u64().expect("a number");
            assert_eq!(seen["options"]["bits_per_second"], of_tc("rate") * 8);
            // The kernel keeps the depth of the bucket as a time, which tc rounds down to
            // microseconds.
            let burst = seen["options"]["burst"].as_u64().expect("a number");
            let rounded = of_tc("burst")..=of_tc("burst") + of_tc("rate") / 1_000_000 + 1;
            assert!(rounded.contains(&burst), "{burst} is not in {rounded:?}");
        }
        assert_eq!(found["verdict"], verdict, "{qdisc}: {found:#}");
        // With `etf`, no answers come back, because this discipline drops even the address queries.
        if root["kind"] != "etf" {
            assert_eq!(txtime_held(&report), txtime, "{qdisc}: {:#}", finding(&report, "offload"));
            assert_eq!(finding(&report, "round trip")["data"]["answered"], 20);
        }
    }
}

#[test]
fn every_queue_of_a_device_counts() {
    let Some(cable) = Cable::new("m") else { return };
    if !cable.put("handle 1: mq") {
        return skip(&in_kernel("mq"));
    }
    let verdict = || finding(&cable.doctor("--device near").0, "qdisc")["verdict"].clone();
    assert_eq!(verdict(), "could be better");
    let leaf = |number: u8| {
        succeeds(&format!("ip netns exec {} tc qdisc replace dev near parent 1:{number} fq", cable.near))
    };
    if !leaf(1) {
        return skip(&in_kernel("fq"));
    }
    assert_eq!(verdict(), "could be better", "one of two");
    assert!(leaf(2));
    assert_eq!(verdict(), "good");
}

#[test]
fn a_path_that_swallows_full_packets_is_bad() {
    let Some(cable) = Cable::new("p") else { return };
    let (report, _) = cable.doctor(&format!("--peer {FAR}"));
    assert_eq!(finding(&report, "path MTU")["verdict"], "good");
    assert_eq!(finding(&report, "path MTU")["data"]["mtu"], 1500);
    assert!(succeeds(&format!("ip -n {} link set near mtu 9000", cable.near)));
    let (report, code) = cable.doctor(&format!("--peer {FAR}"));
    let found = finding(&report, "path MTU");
    assert_eq!((&found["verdict"], &found["data"]["mtu"]), (&"bad".into(), &9000.into()), "{found:#}");
    assert_eq!(code, Some(0), "without a configuration nothing is bad for one");
    assert_eq!(found["command"], "ip link set near mtu 1500");
    assert!(succeeds(&format!("ip -n {} link set near mtu 1500", cable.near)), "the command helps");
    let (report, _) = cable.doctor(&format!("--peer {FAR}"));
    assert_eq!(finding(&report, "path MTU")["verdict"], "good");
}

#[test]
fn a_limit_below_the_configured_link_is_bad() {
    let Some(cable) = Cable::new("l") else { return };
    let text = r#"
[supervisor]
listen  = "10.83.0.2:7000"
trigger = { kind = "periodic", rate = "1 kHz" }
[network]
link_rate   = "100 Mbit/s"
port_buffer = "128 KiB"
[security]
mode = "none"
[[source]]
id    = 1
bind  = "10.83.0.1"
input = { kind = "generator", size = "1 kB" }
[[builder]]
id     = 1
listen = "10.83.0.2:7101"
sink   = "null"
"#;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let path = file.path().to_str().expect("a plain path");
    let (report, code) = cable.doctor(path);
    assert_eq!((code, &report["roles"]), (Some(0), &serde_json::json!(["source 1"])), "{report:#}");
    assert_eq!(finding(&report, "link")["device"], "near", "the device that leads to the peer");
    let ratio = finding(&report, "R·C/L");
    assert_eq!(ratio["data"]["with_network"], true, "{ratio:#}");
    if !cable.put("tbf rate 99mbit burst 32k limit 64k") {
        return skip(&in_kernel("tbf"));
    }
    let (report, code) = cable.doctor(path);
    assert_eq!((code, &finding(&report, "qdisc")["verdict"]), (Some(1), &"bad".into()), "{report:#}");
}
