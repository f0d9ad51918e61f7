//! Every signal by which a process is asked to end, and trains of them: the run is drained, and no
//! assigned event is dropped. `EVB_SIGNAL_TRAINS` sets the number of trains.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod ports;
mod signals;

use std::{
    env, fs,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use evb_core::rng::Rng;
use serde_json::Value;

/// Signals that drain.
const ENDING: [&str; 6] = ["INT", "TERM", "HUP", "QUIT", "XCPU", "PWR"];
/// Signals that mean nothing to evbd.
const MEANINGLESS: [&str; 7] = ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "STKFLT"];

/// A process with all roles.
struct Run {
    dir: tempfile::TempDir,
    child: Child,
}

impl Run {
    /// Starts a run; `wrapper` is a command that starts evbd.
    fn start(wrapper: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = ports::free_ports(2);
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
                "--quiet",
                "--summary",
                "summary.json",
                "evb.toml",
            ],
        ];
        let words = words.concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(dir.path()).stdout(Stdio::null()).process_group(0);
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

#[test]
fn trains_of_signals_drain_too() {
    let trains = env::var("EVB_SIGNAL_TRAINS").map_or(6, |count| count.parse().unwrap());
    let mut rng = Rng::new(37);
    let all = [&ENDING[..], &MEANINGLESS].concat();
    for _ in 0..trains {
        let mut run = Run::start(&[]);
        let mut train = vec![ENDING[rng.below(6) as usize]];
        train.extend((0..rng.below(6)).map(|_| all[rng.below(13) as usize]));
        for signal in &train {
            // The run may be over before the last signal.
            let _ = Command::new("sh")
                .args(["-c", &format!("kill -s {signal} {} 2>/dev/null", run.child.id())])
                .status();
            sleep(Duration::from_millis(rng.below(50)));
        }
        run.assert_drained(&train.join(" "));
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
