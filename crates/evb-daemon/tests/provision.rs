//! `evbd provision` for real: in a network namespace, as root, with bytes counted on the receiving
//! side. Without root, or on a kernel without HTB, the test reports that and does nothing.

#![allow(clippy::unwrap_used)] // a test's helpers may panic

use std::{
    net::{SocketAddr, UdpSocket},
    process::{Command, Output},
    time::{Duration, Instant},
};

use evb_needs::{Missing, granted, skip};

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");
const MEGABIT: f64 = 1e6;
/// Size of a full packet without and with its headers.
const PAYLOAD: usize = 1_472;
const FRAME: f64 = 1_514.0;

/// Two network namespaces joined by a cable, removed when dropped.
struct Cable {
    source: String,
    builder: String,
}

impl Cable {
    /// Creates a cable; returns `None` and says what is missing if this machine cannot create one.
    fn lay(name: &str) -> Option<Self> {
        granted(Self::laid(name))
    }

    fn laid(name: &str) -> Result<Self, Missing> {
        evb_needs::programs(&["ip", "tc"])?;
        let cable = Self {
            source: format!("prov-{name}-s{}", std::process::id()),
            builder: format!("prov-{name}-b{}", std::process::id()),
        };
        let (s, b) = (&cable.source, &cable.builder);
        let steps = [
            format!("ip netns add {s}"),
            format!("ip netns add {b}"),
            format!("ip link add d0 netns {s} type veth peer name d0 netns {b}"),
            format!("ip -n {s} addr add 10.79.0.1/24 dev d0"),
            format!("ip -n {b} addr add 10.79.0.2/24 dev d0"),
            format!("ip -n {s} addr add fd79::1/64 dev d0 nodad"),
            format!("ip -n {s} link set d0 up"),
            format!("ip -n {b} link set d0 up"),
            format!("ip -n {s} link set lo up"),
            // These steps fail on a kernel without HTB or the u32 classifier, and the test is
            // skipped.
            format!("tc -n {s} qdisc add dev lo root handle 9: htb"),
            format!(
                "tc -n {s} filter add dev lo parent 9: protocol ip u32 match ip dport 1 0xffff flowid 9:1"
            ),
        ];
        for step in steps {
            evb_needs::run(&step)?;
        }
        Ok(cable)
    }

    fn on(namespace: &str, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]).args(arguments);
        command
    }

    fn provision(&self, config: &str, arguments: &[&str]) -> (i32, String) {
        let mut all = vec!["provision", config, "--device", "d0"];
        all.extend(arguments);
        told(&Self::on(&self.source, EVBD, &all).output().unwrap())
    }

    fn root_qdisc(&self) -> String {
        let output =
            Command::new("tc").args(["-n", &self.source, "qdisc", "show", "dev", "d0", "root"]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        // The first four words are kind and handle; counters follow.
        text.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    }

    /// Returns the rate, in bit/s of L2 frames, at which datagrams arrive that are sent to the
    /// given port as fast as possible.
    fn rate(&self, port: u16) -> f64 {
        let me = std::env::current_exe().unwrap();
        let start = |namespace: &str, part: &str, output: bool| {
            let mut command =
                Self::on(namespace, &me.to_string_lossy(), &["--exact", part, "--ignored", "--nocapture"]);
            command.env("EVB_TEST_PORT", port.to_string());
            command.stdout(if output { std::process::Stdio::piped() } else { std::process::Stdio::null() });
            command.spawn().unwrap()
        };
        let receiver = start(&self.builder, "receives", true);
        std::thread::sleep(Duration::from_millis(200));
        let mut sender = start(&self.source, "sends", false);
        let (_, text) = told(&receiver.wait_with_output().unwrap());
        sender.wait().unwrap();
        let line = text.lines().find_map(|line| line.split_once("RATE ")).expect("a rate").1;
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for namespace in [&self.source, &self.builder] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

fn told(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// Returns the port to use; `None` if a user has started this part of the test by hand.
fn port() -> Option<u16> {
    std::env::var("EVB_TEST_PORT").ok()?.parse().ok()
}

/// Part of a test that runs in a process of its own, in the source's namespace.
#[test]
#[ignore = "a part of the other tests"]
fn sends() {
    let Some(port) = port() else { return };
    let socket = UdpSocket::bind("10.79.0.1:0").unwrap();
    socket.connect(SocketAddr::from(([10, 79, 0, 2], port))).unwrap();
    let until = Instant::now() + Duration::from_millis(2_900);
    while Instant::now() < until {
        // Sending fails while the queue is full, or while the receiver does not listen yet; such
        // failures are ignored.
        let _ = socket.send(&[0; PAYLOAD]);
    }
}

/// Part of a test that runs in a process of its own, in the builder's namespace.
#[test]
#[ignore = "a part of the other tests"]
fn receives() {
    let Some(port) = port() else { return };
    let socket = UdpSocket::bind(("10.79.0.2", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut room = [0; 2048];
    socket.recv(&mut room).unwrap();
    // After 500 ms, the initial contents of the token buckets are used up.
    let (begin, mut count) = (Instant::now() + Duration::from_millis(500), 0_u64);
    let (mut first, mut last) = (begin, begin);
    while last < begin + Duration::from_secs(2) {
        socket.recv(&mut room).unwrap();
        last = Instant::now();
        match last {
            early if early < begin => first = early,
            _ => count += 1,
        }
    }
    println!("RATE {}", count as f64 * FRAME * 8.0 / last.duration_since(first).as_secs_f64());
}

const CONFIG: &str = "
[supervisor]
listen = \"10.79.0.1:7000\"
trigger = { kind = \"periodic\", rate = \"1 kHz\" }
[network]
link_rate = \"1 Gbit/s\"
[security]
mode = \"none\"
[[source]]
id = 1
bind = \"10.79.0.1\"
input = { kind = \"generator\", size = \"1 kB\" }
[[builder]]
id = 1
listen = \"10.79.0.2:7101\"
sink = \"null\"
[[builder]]
id = 2
listen = \"[fd79::2]:7102\"
sink = \"null\"
";

/// Returns the median of five measured rates, because the machine may be busy.
fn median_rate(cable: &Cable, port: u16, asked: f64) -> f64 {
    let mut rates = Vec::new();
    for _ in 0..5 {
        rates.push(cable.rate(port));
        // The rate is near enough, so further measurements would only take time.
        if (rates[rates.len() - 1] / asked - 1.0).abs() < 0.01 {
            return rates[rates.len() - 1];
        }
    }
    rates.sort_by(f64::total_cmp);
    rates[2]
}

#[test]
fn applied_it_keeps_the_rate_and_removed_it_is_gone() {
    let Some(cable) = Cable::lay("rate") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let config = config.to_str().unwrap();
    let before = cable.root_qdisc();

    let (code, text) = cable.provision(config, &["status"]);
    assert!(code == 1 && text.contains("nothing is applied"), "{text}");
    for bucket in ["htb", "tbf"] {
        let wish = ["--rate", "1=40 Mbit/s", "--bytes", "buffer", "--bucket", bucket];
        let with = |action: &'static str| [&[action], &wish[..]].concat();
        let (code, text) = cable.provision(config, &with("apply"));
        assert!(code == 0 && text.contains("as the configuration asks"), "{bucket}: {text}");
        let (code, text) = cable.provision(config, &with("status"));
        assert!(code == 0 && text.contains("as the configuration asks: 2 destinations"), "{bucket}: {text}");
        let (code, text) = cable.provision(config, &["status", "--rate", "1=41 Mbit/s", "--bytes", "buffer"]);
        assert!(code == 1 && text.contains("different"), "{bucket}: {text}");
        let rate = median_rate(&cable, 7101, 40.0 * MEGABIT);
        assert!((rate / 40.0 / MEGABIT - 1.0).abs() < 0.01, "{bucket}: {rate} bit/s");
    }
    // Datagrams to another port of the builder's host are not limited.
    assert!(cable.rate(7109) > 80.0 * MEGABIT);

    let (code, text) = cable.provision(config, &["remove"]);
    assert!(code == 0 && text.contains("there again"), "{text}");
    assert_eq!(cable.root_qdisc(), before);
    let (code, text) = cable.provision(config, &["remove"]);
    assert!(code == 0 && text.contains("nothing to remove"), "{text}");
}

#[test]
fn what_somebody_has_put_there_stays_unless_asked_for() {
    let Some(cable) = Cable::lay("foreign") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let config = config.to_str().unwrap();
    let theirs = ["-n", &cable.source, "qdisc", "add", "dev", "d0", "root", "handle", "1:", "htb"];
    assert!(Command::new("tc").args(theirs).status().unwrap().success());
    let before = cable.root_qdisc();
    for action in ["apply", "remove"] {
        let (code, text) = cable.provision(config, &[action]);
        assert!(code == 1 && text.contains("--replace"), "{text}");
        assert_eq!(cable.root_qdisc(), before);
    }

    let (code, text) = cable.provision(config, &["apply", "--replace"]);
    assert_eq!(code, 0, "{text}");
    // The printed plan is a script with the same effect as `apply`.
    let (code, _) = cable.provision(config, &["remove"]);
    assert_eq!(code, 0);
    let (_, script) = cable.provision(config, &["print"]);
    assert!(Cable::on(&cable.source, "sh", &["-c", &script]).status().unwrap().success(), "{script}");
    let (code, text) = cable.provision(config, &["status"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_step_that_fails_leaves_the_kernels_default() {
    let Some(cable) = Cable::lay("rollback") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let config = config.to_str().unwrap();
    let before = cable.root_qdisc();
    // The option needs a classifier that some kernels lack; where it exists, `apply` succeeds.
    let (code, text) = cable.provision(config, &["apply", "--class", "control,priority=6"]);
    if code == 0 {
        return skip(&Missing::new("a kernel that lacks a classifier"));
    }
    assert!(text.contains("evbd has undone all steps"), "{text}");
    assert_eq!(cable.root_qdisc(), before);
}
