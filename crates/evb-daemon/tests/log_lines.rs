//! The log as a shifter reads it: sentences that name sources and builders as the configuration
//! does, when a source dies, a builder dies, strangers connect, and a disk is full.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod signals;

use std::{
    fs,
    io::Write as _,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Returns a configuration with named sources and builders; builder 1 writes files.
fn configuration(ports: &[u16], out: &Path) -> String {
    format!(
        r#"
[supervisor]
listen  = "127.0.0.1:{}"
trigger = {{ kind = "periodic", rate = "200 Hz" }}
deadline = "500 ms"
[[source]]
id    = 1
name  = "veto"
input = {{ kind = "generator", size = "1 kB" }}
[[source]]
id    = 2
name  = "tracker"
input = {{ kind = "generator", size = "1 kB" }}
[[source]]
id    = 3
name  = "TPC crate 1"
input = {{ kind = "generator", size = "1 kB" }}
[[source]]
id    = 4
name  = "calorimeter"
input = {{ kind = "tcp", listen = "127.0.0.1:{}", front_ends = 0 }}
[[builder]]
id     = 1
name   = "node a"
listen = "127.0.0.1:{}"
sink   = {{ kind = "file", path = "{out}" }}
give_up = "1 s"
[[builder]]
id     = 2
name   = "node b"
listen = "127.0.0.1:{}"
sink   = "null"
"#,
        ports[0],
        ports[1],
        ports[2],
        ports[3],
        out = out.display()
    )
}

struct Part {
    child: Child,
    log: PathBuf,
}

impl Part {
    /// Starts a process with these roles; its files may grow to `blocks` blocks of 512 bytes.
    fn start(dir: &Path, name: &str, roles: &[&str], blocks: Option<u32>) -> Self {
        let log = dir.join(name);
        let mut command = signals::evbd_with_small_files(blocks);
        command
            .args(["run", "--quiet"])
            .args(roles.iter().flat_map(|role| ["--role", role]))
            .arg(dir.join("evb.toml"))
            .env_remove("EVBD_LOG")
            .stdout(Stdio::null());
        let child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Self { child, log }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until a line of the log contains all of these texts.
    fn says(&self, texts: &[&str]) {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.text().lines().any(|line| texts.iter().all(|text| line.contains(text))) {
            assert!(Instant::now() < until, "never {texts:?}:\n{}", self.text());
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a port what no peer of evb sends.
fn disturb(port: u16) {
    let until = Instant::now() + Duration::from_secs(20);
    let mut stranger = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stranger) => break stranger,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        sleep(Duration::from_millis(50));
    };
    // The other side may have closed the connection.
    let _ = stranger.write_all(&[0xff; 64]);
    sleep(Duration::from_millis(50));
}

/// Checks that a line is a time, a level and a sentence, which names peers in full.
fn check(line: &str) {
    assert!(!line.contains("::") && !line.contains("unsaid"), "{line}");
    let words: Vec<&str> = line.split(' ').collect();
    let is_field = |word: &&&str| word.split_once('=').is_some_and(|(key, _)| !key.is_empty());
    assert_eq!(words.iter().find(is_field), None, "{line}");
    for (peer, name) in [
        ("source 1", " (veto)"),
        ("source 2", " (tracker)"),
        ("source 3", " (TPC crate 1)"),
        ("source 4", " (calorimeter)"),
        ("builder 1", " (node a)"),
        ("builder 2", " (node b)"),
    ] {
        for (place, _) in line.match_indices(peer) {
            assert!(line[place + peer.len()..].starts_with(name), "no{name}: {line}");
        }
    }
}

#[test]
fn warnings_are_sentences_with_the_names_of_sources_and_builders() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let ports = evb_needs::free_ports(4);
    // 192 kB.
    fs::write(dir.join("evb.toml"), configuration(&ports, &dir.join("out"))).unwrap();
    let lead = Part::start(dir, "lead", &["supervisor", "source:1", "source:2", "source:4"], None);
    let disk = Part::start(dir, "disk", &["builder:1"], Some(384));
    let dying_source = Part::start(dir, "source", &["source:3"], None);
    let dying_builder = Part::start(dir, "builder", &["builder:2"], None);
    disk.says(&["WARN builder 1 (node a): the builder's sink accepts no events", "os error 27"]);
    for port in &ports {
        disturb(*port);
    }
    lead.says(&["WARN the supervisor refused a connection from 127.0.0.1:"]);
    lead.says(&["WARN source 4 (calorimeter): closed the connection of the front end 127.0.0.1:"]);
    disk.says(&["WARN builder 1 (node a): the builder refused a connection from 127.0.0.1:"]);
    signals::send("KILL", [&dying_source.child]);
    lead.says(&["source 3 (TPC crate 1) is down"]);
    disk.says(&["WARN builder 1 (node a): the connection (lane) from source 3 (TPC crate 1) is down"]);
    signals::send("KILL", [&dying_builder.child]);
    lead.says(&["the connection (lane) to builder 2 (node b)", " is down"]);
    lead.says(&["builder 2 (node b) is gone"]);
    signals::send("TERM", [&lead.child]);
    disk.says(&["ERROR builder 1 (node a): "]);
    let mut count = 0;
    for part in [&lead, &disk, &dying_source, &dying_builder] {
        let text = part.text();
        for line in text.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR ")) {
            check(line);
            count += 1;
        }
    }
    assert!(count >= 8, "{count} lines");
    // Three sources lose this builder, and try to reach it again and again.
    let lanes =
        lead.text().lines().filter(|line| line.contains("the connection (lane) to builder 2")).count();
    assert!(lanes <= 8, "{lanes} lines about one builder:\n{}", lead.text());
}

#[test]
fn a_drain_says_for_whom_it_waits_and_how_long_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let ports = evb_needs::free_ports(4);
    let out = dir.join("out");
    // The events outlive the first 5 s of the drain by far.
    let text = configuration(&ports, &out).replace("\"500 ms\"", "\"60 s\"");
    fs::write(dir.join("evb.toml"), text).unwrap();
    let roles = ["supervisor", "source:1", "source:2", "source:3", "source:4", "builder:1", "builder:2"];
    let all = Part::start(dir, "all", &roles, None);
    let until = Instant::now() + Duration::from_secs(30);
    while !fs::read_dir(&out).is_ok_and(|mut files| files.next().is_some()) {
        assert!(Instant::now() < until, "the run does not begin:\n{}", all.text());
        sleep(Duration::from_millis(20));
    }
    // Events wait for source 4, which has no front end.
    sleep(Duration::from_secs(1));
    signals::send("TERM", [&all.child]);
    let words = [
        "WARN run 1 ends, and still builds ",
        " for source 4 (calorimeter)",
        "evb gives them up as lost in ",
    ];
    all.says(&words);
    all.text().lines().for_each(check);
}
