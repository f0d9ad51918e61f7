//! Every signal by which a process is asked to end, and trains of them, also by `timeout` and from
//! a terminal: the run is drained, and no assigned event is dropped; a process whose run has not
//! begun ends at once. A merge is whole or absent.
//! `EVB_SIGNAL_TRAINS` sets the number of trains.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod signals;

use std::{
    env, fs,
    io::Write as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use evb_core::rng::Rng;
use serde_json::Value;

/// Signals that drain.
const ENDING: [&str; 6] = ["INT", "TERM", "HUP", "QUIT", "XCPU", "PWR"];
/// Signals that mean nothing to evbd.
const MEANINGLESS: [&str; 9] = ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "STKFLT", "PIPE", "XFSZ"];
/// Signals that `timeout` hands on.
const HANDED_ON: [&str; 4] = ["INT", "TERM", "HUP", "QUIT"];
/// Words that start the words after them on a terminal, and write their process id into a file.
const ON_TERMINAL: [&str; 4] = ["sh", "-c", r#"exec script -qefc "echo \$\$ >pid; exec $*" /dev/null"#, "sh"];

/// A process with all roles.
struct Run {
    dir: tempfile::TempDir,
    child: Child,
}

impl Run {
    /// Starts a run; `wrapper` is a command that starts evbd.
    fn start(wrapper: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(2);
        let text = format!(
            r#"[supervisor]
listen = "127.0.0.1:{}"
trigger = {{ kind = "periodic", rate = "500 Hz" }}
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "2 kB" }}
[[builder]]
id = 1
listen = "127.0.0.1:{}"
sink = {{ kind = "file", path = "out" }}
"#,
            ports[0], ports[1]
        );
        fs::write(dir.path().join("evb.toml"), text).unwrap();
        let words = [
            wrapper,
            &[
                "env",
                "--default-signal",
                env!("CARGO_BIN_EXE_evbd"),
                "run",
                "--summary",
                "summary.json",
                "evb.toml",
            ],
        ];
        let words = words.concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(dir.path()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = command.stderr(log).spawn().unwrap();
        let run = Self { dir, child };
        let until = Instant::now() + Duration::from_secs(30);
        while !fs::read_dir(run.dir.path().join("out")).is_ok_and(|mut files| files.next().is_some()) {
            assert!(Instant::now() < until, "it never began: {}", run.log());
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(100));
        run
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end: {}", self.log());
            sleep(Duration::from_millis(5));
        }
    }

    /// Checks that the run was drained.
    fn assert_drained(&mut self, what: &str) {
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{what}: signal {:?}, {}", status.signal(), self.log());
        self.assert_closed(what);
    }

    /// Checks that the run's ledger is closed, and that no assigned event was dropped.
    fn assert_closed(&self, what: &str) {
        let summary = fs::read(self.dir.path().join("summary.json")).unwrap();
        let events = serde_json::from_slice::<Value>(&summary).unwrap()["events"].clone();
        assert_eq!(events["complete"], events["assigned"], "{what}: {events:#}");
        assert!(events["complete"].as_u64() > Some(0), "{what}: {events:#}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_request_to_end_drains() {
    for signal in ENDING {
        let mut run = Run::start(&[]);
        signals::send(signal, [&run.child]);
        run.assert_drained(signal);
    }
}

#[test]
fn other_signals_mean_nothing() {
    let mut run = Run::start(&[]);
    for signal in MEANINGLESS {
        signals::send(signal, [&run.child]);
        sleep(Duration::from_millis(20));
        assert!(run.child.try_wait().unwrap().is_none(), "{signal}: {}", run.log());
    }
    signals::send("TERM", [&run.child]);
    run.assert_drained("TERM after the others");
}

#[test]
fn what_was_ignored_from_the_beginning_stays_ignored() {
    let mut run = Run::start(&["sh", "-c", "trap '' HUP INT QUIT; shift 2; exec \"$@\"", "sh"]);
    for signal in ["HUP", "INT", "QUIT"] {
        signals::send(signal, [&run.child]);
        sleep(Duration::from_millis(50));
    }
    assert!(!run.log().contains("stopping"), "{}", run.log());
    signals::send("TERM", [&run.child]);
    run.assert_drained("TERM");
}

/// Sends a signal to a process, if it still runs.
fn send(signal: &str, process: u32) {
    let line = format!("kill -s {signal} {process} 2>/dev/null");
    let _ = Command::new("sh").args(["-c", &line]).status();
}

/// Returns the number of trains of a test.
fn trains() -> u64 {
    env::var("EVB_SIGNAL_TRAINS").map_or(6, |count| count.parse().unwrap())
}

/// Returns some signals with the times before them. One of them asks for the end.
fn train(rng: &mut Rng, ending: &[&'static str], all: &[&'static str]) -> Vec<(Duration, &'static str)> {
    let mut pick = |from: &[&'static str]| from[rng.below(from.len() as u64) as usize];
    let mut signals: Vec<_> = (0..5).map(|_| pick(all)).collect();
    signals[2] = pick(ending);
    let first = rng.below(3) as usize;
    let last = 3 + rng.below(3) as usize;
    signals[first..last].iter().map(|signal| (Duration::from_millis(rng.below(50)), *signal)).collect()
}

/// Sends trains of signals to processes that are started by `words`.
fn trains_drain(words: &[&str], seed: u64, ending: &[&'static str], all: &[&'static str]) {
    let mut rng = Rng::new(seed);
    for _ in 0..trains() {
        let mut run = Run::start(words);
        let train = train(&mut rng, ending, all);
        for (pause, signal) in &train {
            sleep(*pause);
            send(signal, run.child.id());
        }
        run.assert_drained(&format!("{words:?}: {train:?}"));
    }
}

#[test]
fn trains_of_signals_drain_too() {
    trains_drain(&[], 37, &ENDING, &[&ENDING[..], &MEANINGLESS].concat());
}

/// `timeout` hands a signal on to the process and to its group, so it arrives twice.
#[test]
fn trains_by_timeout_drain_too() {
    trains_drain(&["timeout", "1000"], 38, &HANDED_ON, &HANDED_ON);
}

/// A terminal sends SIGINT and SIGQUIT for keys, and SIGHUP when it is closed. Then evbd's messages
/// go nowhere.
#[test]
fn trains_of_a_terminal_drain_too() {
    let Some(()) = evb_needs::granted(evb_needs::programs(&["script"])) else { return };
    let mut rng = Rng::new(39);
    let keys = ["INT", "QUIT"];
    let all = [&keys[..], &keys, &keys, &keys, &ENDING, &MEANINGLESS].concat();
    for _ in 0..trains() {
        let mut run = Run::start(&ON_TERMINAL);
        let id = fs::read_to_string(run.dir.path().join("pid")).unwrap().trim().parse().unwrap();
        let train = train(&mut rng, &ENDING, &all);
        for (pause, signal) in &train {
            sleep(*pause);
            let key = match *signal {
                "INT" => b"\x03",
                "QUIT" => b"\x1c",
                "HUP" => {
                    signals::send("KILL", [&run.child]);
                    continue;
                }
                other => {
                    send(other, id);
                    continue;
                }
            };
            // The terminal may be closed already.
            let _ = run.child.stdin.as_ref().unwrap().write_all(key);
        }
        run.wait();
        let until = Instant::now() + Duration::from_secs(30);
        while Path::new(&format!("/proc/{id}")).exists() {
            assert!(Instant::now() < until, "it does not end: {train:?} {}", run.log());
            sleep(Duration::from_millis(5));
        }
        run.assert_closed(&format!("of a terminal: {train:?}"));
    }
}

#[test]
fn trains_leave_a_merge_whole_or_absent() {
    let mut rng = Rng::new(40);
    let mut run = Run::start(&[]);
    sleep(Duration::from_secs(1));
    signals::send("TERM", [&run.child]);
    run.assert_drained("before the merges");
    let path = run.dir.path();
    let start = |arguments: &[&str]| {
        let log = fs::File::options().append(true).open(path.join("log")).unwrap();
        let mut evbd = signals::evbd();
        evbd.args(arguments).current_dir(path).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    };
    let succeeds = |arguments: &[&str]| start(arguments).wait().unwrap().success();
    // Their headers have the times at which the files were made, so files are not compared.
    let length = |out: &str| {
        let files = fs::read_dir(path.join(out)).into_iter().flatten().map(|file| file.unwrap());
        let merged = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "evb"));
        merged.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    let begun = Instant::now();
    assert!(succeeds(&["merge", "out", "--out", "whole"]));
    let duration = begun.elapsed();
    let all = [&ENDING[..], &MEANINGLESS].concat();
    for _ in 0..trains() {
        let _ = fs::remove_dir_all(path.join("merged"));
        let mut child = start(&["merge", "out", "--out", "merged"]);
        sleep(duration.mul_f64(rng.uniform()));
        let train = train(&mut rng, &all, &all);
        for (pause, signal) in &train {
            send(signal, child.id());
            sleep(*pause);
        }
        let ended = child.wait().unwrap();
        let is_absent = length("merged") == 0;
        assert!(!is_absent || !ended.success(), "{train:?}: {ended}");
        let again = !is_absent || succeeds(&["merge", "out", "--out", "merged"]);
        assert!(again, "after {train:?}: {}", run.log());
        assert!(succeeds(&["verify", "merged"]), "after {train:?}, absent: {is_absent}: {}", run.log());
        assert_eq!(length("merged"), length("whole"), "after {train:?}, absent: {is_absent}");
    }
}

/// `timeout` sends its signal to the process and then to its group, so it arrives twice.
#[test]
fn timeout_of_coreutils_drains() {
    let mut run = Run::start(&["timeout", "1"]);
    let status = run.wait();
    assert_eq!(status.code(), Some(124), "{}", run.log());
    let summary = fs::read(run.dir.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["events"]["complete"], summary["events"]["assigned"], "{summary:#}");
}

/// A system whose run is asked to end before it begins.
struct Early {
    dir: tempfile::TempDir,
    children: Vec<(&'static str, Child)>,
}

impl Early {
    fn new(input: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(2);
        let text = format!(
            "[supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {{ kind = \"periodic\", rate = \"500 Hz\" }}\n\
             [[source]]\nids = \"1-2\"\ninput = {{ {input} }}\n\
             [[builder]]\nid = 1\nlisten = \"127.0.0.1:{}\"\nsink = \"null\"\n",
            ports[0], ports[1]
        );
        fs::write(dir.path().join("evb.toml"), text).unwrap();
        Self { dir, children: Vec::new() }
    }

    /// Starts a process with some roles, or with all; it gets the name of its first role.
    fn launch(&mut self, roles: &[&'static str]) {
        let name = roles.first().copied().unwrap_or("all");
        let log = fs::File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        let mut evbd = signals::evbd();
        evbd.args(["run", "--summary", &format!("{name}.json"), "evb.toml"]).current_dir(self.dir.path());
        evbd.args(roles.iter().flat_map(|role| ["--role", role]));
        let child = evbd.env("EVBD_LOG", "info").stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.children.push((name, child));
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap()
    }

    fn waits_for(&self, name: &str, words: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.log(name).contains(words) {
            assert!(Instant::now() < until, "{name} never said {words:?}: {}", self.log(name));
            sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM to a process.
    fn stop(&self, name: &str) {
        signals::send("TERM", self.children.iter().filter(|(own, _)| *own == name).map(|(_, child)| child));
    }

    /// Waits for the ends of all processes, which must come soon.
    fn ends(&mut self) -> Vec<ExitStatus> {
        let until = Instant::now() + Duration::from_secs(5);
        let mut ended = Vec::new();
        while let Some((name, mut child)) = self.children.pop() {
            loop {
                if let Some(status) = child.try_wait().unwrap() {
                    ended.push(status);
                    break;
                }
                if Instant::now() >= until {
                    self.children.push((name, child));
                    panic!("{name} does not end: {}", self.log(name));
                }
                sleep(Duration::from_millis(5));
            }
        }
        ended
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const GENERATOR: &str = "kind = \"generator\", size = \"2 kB\"";

#[test]
fn a_signal_before_all_roles_have_joined_ends_the_process_at_once() {
    for step in 0..60 {
        let mut early = Early::new(GENERATOR);
        early.launch(&[]);
        sleep(Duration::from_millis(5) + Duration::from_micros(1100) * step);
        early.stop("all");
        let status = early.ends()[0];
        // evbd may not even have seen the signal yet.
        let is_good = status.success() || status.signal() == Some(15);
        assert!(is_good, "step {step}: {status}, {}", early.log("all"));
    }
}

/// The thread that opens the pipe waits for a writer, which never comes.
#[test]
fn a_signal_while_an_input_does_not_open_ends_the_process_at_once() {
    for with_supervisor in [true, false] {
        let mut early = Early::new("kind = \"replay\", format = \"km3net\", path = \"pipe\"");
        assert!(Command::new("mkfifo").arg(early.dir.path().join("pipe")).status().unwrap().success());
        let roles = ["supervisor", "source:1", "builder:1"];
        early.launch(if with_supervisor { &roles } else { &roles[1..] });
        let name = early.children[0].0;
        sleep(Duration::from_millis(500));
        early.stop(name);
        let status = early.ends()[0];
        assert_eq!(status.code(), Some(0), "{name}: signal {:?}, {}", status.signal(), early.log(name));
    }
}

/// The process that is asked to end is the supervisor's, or one that has joined; source 2 is
/// missing.
#[test]
fn a_run_that_is_stopped_before_it_begins_is_no_failure() {
    for asked in ["supervisor", "source:1", "builder:1"] {
        let mut early = Early::new(GENERATOR);
        for role in ["supervisor", "source:1", "builder:1"] {
            early.launch(&[role]);
        }
        early.waits_for("supervisor", "source 1");
        early.waits_for("supervisor", "builder 1");
        sleep(Duration::from_millis(200));
        early.stop(asked);
        let ended = early.ends();
        assert!(ended.iter().all(ExitStatus::success), "{asked}: {ended:?} {}", early.log("supervisor"));
        let summary = fs::read(early.dir.path().join("supervisor.json")).unwrap();
        let summary = serde_json::from_slice::<Value>(&summary).unwrap();
        assert_eq!(summary["exit_code"], 0, "{summary:#}");
        assert_eq!(summary["verdict"], "stopped before it began", "{summary:#}");
        assert!(summary["remarks"][0].as_str().unwrap().contains("by a signal"), "{summary:#}");
    }
}
