//! Filters that are programs, at a real evbd.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use evb_file::{EventStream, files_at};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");

/// Keeps events whose id is no multiple of 3, with the id as tag; says in a directory that it runs.
const WORKER: &str = r#"
import os, sys, time
from evb_filter import Tag, run

open(os.path.join(sys.argv[1], "pid-%d" % os.getpid()), "w").close()
print("worker ready", flush=True)

def judge(event):
    assert event.complete and len(event) == 2 and len(event[1].payload) == 1000, event.id
    time.sleep(0.002)
    return event.id % 3 > 0 and Tag(event.id)

run(judge)
"#;

/// A system with two sources and two builders, whose filters are programs.
struct System {
    dir: tempfile::TempDir,
}

impl System {
    fn new(events: u64, filter: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(3);
        let path = dir.path().display();
        let filter = filter.replace("DIR", &path.to_string());
        let text = format!(
            r#"
[run]
events = {events}
[supervisor]
listen = "127.0.0.1:{}"
trigger = {{ kind = "as-fast-as-possible" }}
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "1 kB" }}
[[builder]]
id = 1
listen = "127.0.0.1:{}"
sink = {{ kind = "file", path = "{path}/out" }}
filter = {{ kind = "process", {filter} }}
[[builder]]
id = 2
listen = "127.0.0.1:{}"
sink = {{ kind = "file", path = "{path}/out" }}
filter = {{ kind = "process", {filter} }}
"#,
            ports[0], ports[1], ports[2]
        );
        fs::write(dir.path().join("evb.toml"), text).unwrap();
        fs::write(dir.path().join("worker.py"), WORKER).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn evbd(&self, words: &[&str]) -> Command {
        let mut evbd = Command::new(EVBD);
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python");
        evbd.args(words)
            .arg(self.path("evb.toml"))
            .env("PYTHONPATH", python)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        evbd.stdout(Stdio::piped()).stderr(Stdio::piped());
        evbd
    }

    fn start(&self) -> Child {
        let summary = self.path("summary.json");
        self.evbd(&["run", "--summary", summary.to_str().unwrap()]).spawn().unwrap()
    }

    /// Returns the ids of the workers that run.
    fn workers(&self) -> Vec<Pid> {
        let names = fs::read_dir(self.dir.path()).unwrap().flatten();
        let names = names.map(|file| file.file_name().into_string().unwrap());
        let ids = names.filter_map(|name| name.strip_prefix("pid-")?.parse().ok());
        ids.filter_map(Pid::from_raw).filter(|pid| test_kill_process(*pid).is_ok()).collect()
    }

    fn summary(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("summary.json")).unwrap()).unwrap()
    }

    /// Returns the ids and tags of the written events, those of each file in its order.
    fn written(&self) -> Vec<(u64, u64)> {
        let mut events = Vec::new();
        for path in files_at(&self.path("out")).unwrap() {
            let stream = EventStream::new(fs::File::open(&path).unwrap(), path).unwrap();
            let records = stream.map(|record| record.unwrap());
            let of_file: Vec<_> = records.map(|record| (record.event.number(), record.tag)).collect();
            assert!(of_file.is_sorted(), "{of_file:?}");
            events.extend(of_file);
        }
        events.sort_unstable();
        events
    }
}

fn log(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn workers_that_are_killed_ten_times_a_second_lose_no_event() {
    let Some(_) = evb_needs::granted(evb_needs::run("python3 --version")) else { return };
    const EVENTS: u64 = 5000;
    let system = System::new(EVENTS, r#"command = ["python3", "DIR/worker.py", "DIR"], workers = 3"#);
    let mut evbd = system.start();
    let (until, mut killed) = (Instant::now() + Duration::from_secs(120), 0);
    while evbd.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the run does not end");
        sleep(Duration::from_millis(100));
        let workers = system.workers();
        if let Some(pid) = workers.get(killed % workers.len().max(1)) {
            killed += usize::from(kill_process(*pid, Signal::KILL).is_ok());
        }
    }
    let output = evbd.wait_with_output().unwrap();
    let (log, summary, written) = (log(&output), system.summary(), system.written());
    assert!(killed > 20, "{killed}");
    let events = &summary["events"];
    let rejected = events["rejected"].as_u64().unwrap();
    assert_eq!(events["lost"], 0, "{summary:#}");
    assert_eq!(written.len() as u64 + rejected, EVENTS, "{summary:#}\n{log}");
    // An event at which two workers were killed by chance is kept, without a tag.
    let wrong = written.iter().filter(|(id, _)| id.is_multiple_of(3)).count() as u64;
    let untagged = written.iter().filter(|(id, tag)| tag != id).collect::<Vec<_>>();
    assert!(untagged.iter().all(|(_, tag)| *tag == 0) && untagged.len() <= 2 + killed / 20, "{untagged:?}");
    assert_eq!(rejected, EVENTS / 3 - wrong, "{log}");
    assert!(wrong as usize <= 2 + killed / 20, "{wrong} of {killed}\n{log}");
    assert_eq!(output.status.code(), Some(if wrong > 0 { 1 } else { 0 }), "{log}");
    let warnings = log.lines().filter(|line| line.contains("was killed by signal 9")).count();
    assert!((1..killed / 2).contains(&warnings), "{killed} {log}");
    assert!(log.contains("was killed by signal 9: its last line is `worker ready`"), "{log}");
    assert!(system.workers().is_empty(), "a worker has outlived evbd");
}

#[test]
fn events_without_a_verdict_are_a_problem_of_the_run() {
    let system =
        System::new(60, r#"command = ["false"], workers = 2, timeout = "200 ms", on_failure = "drop""#);
    let output = system.start().wait_with_output().unwrap();
    let (log, summary) = (log(&output), system.summary());
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert_eq!(summary["events"]["rejected"], 60, "{summary:#}");
    let told = "its filter did not judge ";
    assert!(summary["problems"].to_string().matches(told).count() == 2, "{summary:#}");
    assert!(log.contains("exited with code 1"), "{log}");
    assert!(
        log.contains("which `on_failure` has dropped, so no file has them: correct the program"),
        "{log}"
    );
}

#[test]
fn a_program_that_is_missing_is_refused_with_its_line() {
    let system = System::new(10, r#"command = ["/no/such/program"]"#);
    for words in [&["run"][..], &["check", "--here"]] {
        let output = system.evbd(words).output().unwrap();
        let said = log(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{said}");
        for part in ["builder.filter.command", "cannot run /no/such/program: No such file", "chmod +x"] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }
}

#[test]
fn a_worker_in_cpp_judges_by_the_bytes() {
    let Some(()) = evb_needs::granted(evb_needs::programs(&["c++"])) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let system = System::new(200, r#"command = ["DIR/large", "127"], workers = 2"#);
    let mut compile = Command::new("c++");
    compile.args(["-std=c++17", "-O1", "-I"]).arg(root.join("bindings/c/include"));
    let compiled =
        compile.arg(root.join("examples/filters/large.cpp")).arg("-o").arg(system.path("large")).output();
    let compiled = compiled.unwrap();
    assert!(compiled.status.success(), "{}", log(&compiled));
    let output = system.start().wait_with_output().unwrap();
    let (log, summary) = (log(&output), system.summary());
    assert_eq!(output.status.code(), Some(0), "{log}");
    let written = system.written();
    let kept = written.len() as u64;
    assert!(kept > 0 && kept < 200, "{kept}");
    assert!(written.iter().all(|(_, tag)| (1..=2).contains(tag)), "{written:?}");
    assert_eq!(kept + summary["events"]["rejected"].as_u64().unwrap(), 200);
}
