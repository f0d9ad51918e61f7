//! Full disks, tested from end to end. A limit on the size of files stands for the full disk: the
//! limit needs no root, and can be raised while the process lives. Where the test may mount, a
//! small tmpfs is filled for real.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod signals;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use evb_needs::{Missing, granted, programs};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");

struct Run {
    dir: tempfile::TempDir,
    child: Child,
}

impl Run {
    /// Starts a source and two builders that write into `out`; files may grow to `blocks` blocks.
    fn start(blocks: Option<u32>, run: &str, give_up: &str, out: Option<&Path>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("out");
        let out = out.unwrap_or(&own);
        let ports = evb_needs::free_ports(3);
        let text = format!(
            r#"
[run]
{run}
[supervisor]
listen  = "127.0.0.1:{}"
trigger = {{ kind = "periodic", rate = "2 kHz" }}
[[source]]
id    = 1
input = {{ kind = "generator", size = "1 kB" }}
[[builder]]
id     = 1
listen = "127.0.0.1:{}"
sink   = {{ kind = "file", path = "{out}" }}
give_up = "{give_up}"
[[builder]]
id     = 2
listen = "127.0.0.1:{}"
sink   = {{ kind = "file", path = "{out}" }}
give_up = "{give_up}"
"#,
            ports[0],
            ports[1],
            ports[2],
            out = out.display()
        );
        let config = dir.path().join("evb.toml");
        fs::write(&config, text).unwrap();
        let mut child = signals::evbd_with_small_files(blocks)
            .args(["run", "--quiet", "--summary"])
            .args([dir.path().join("summary.json"), config])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The test itself writes the log, so that the limit on file sizes does not apply to the
        // log.
        let (mut said, mut log) =
            (child.stderr.take().unwrap(), fs::File::create(dir.path().join("log")).unwrap());
        std::thread::spawn(move || io::copy(&mut said, &mut log));
        Self { dir, child }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// Waits until a log line contains the given words, and returns the line.
    fn says(&self, words: &str) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            assert!(Instant::now() < until, "never {words}: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn room(&self) {
        let maximum = getrlimit(Resource::Fsize).maximum;
        let limit = Rlimit { current: maximum, maximum };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).unwrap();
    }

    fn stop(&self) {
        signals::send("TERM", [&self.child]);
    }

    fn ends(&mut self) -> (Option<i32>, Value) {
        let until = Instant::now() + Duration::from_secs(30);
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                None => panic!("it does not end: {}", self.log()),
            }
        };
        (code, serde_json::from_slice(&fs::read(self.path("summary.json")).unwrap()).unwrap())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number of events in the files, which must be clean.
fn verified(out: &Path) -> u64 {
    let output = Command::new(EVBD).args(["verify", "--json"]).arg(out).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json: Value = serde_json::from_str(&text).unwrap();
    let run = &json["runs"][0];
    assert_eq!((&run["duplicates"]["total"], &run["torn_tails"]["total"]), (&0.into(), &0.into()), "{text}");
    run["records"].as_u64().unwrap_or_else(|| panic!("{text}"))
}

fn count(summary: &Value, key: &str) -> u64 {
    summary["events"][key].as_u64().unwrap()
}

#[test]
fn a_run_goes_on_when_there_is_room_again_and_nothing_is_lost() {
    let mut run = Run::start(Some(400), "events = 3000", "30 s", None);
    let line = run.says("the builder's sink accepts no events");
    assert!(line.contains("WARN") && line.contains("os error 27"), "{line}");
    assert!(line.contains("run000001_b0") && line.contains(" WARN builder "), "{line}");
    std::thread::sleep(Duration::from_millis(500));
    run.room();
    let (code, summary) = run.ends();
    assert_eq!(code, Some(0), "{summary:#}\n{}", run.log());
    assert_eq!((count(&summary, "complete"), count(&summary, "written")), (3000, 3000));
    // While the disks were full, all slots were taken, which causes dead time.
    assert!(count(&summary, "inhibited") > 500, "{:#}", summary["events"]);
    let cause = &summary["dead_time_causes"][0]["cause"];
    assert!(cause.as_str().is_some_and(|cause| cause.starts_with("sink of builder ")), "{cause}");
    run.says("accepts events again");
    assert!(!run.log().contains("ERROR"), "nothing was lost: {}", run.log());
    assert_eq!(verified(&run.path("out")), 3000);
}

#[test]
fn a_disk_that_is_full_at_the_start_is_waited_for() {
    let mut run = Run::start(Some(0), "events = 500", "30 s", None);
    let line = run.says("the builder's sink accepts no events");
    assert!(line.contains("WARN") && line.contains("os error 27") && line.contains("run000001_b0"), "{line}");
    std::thread::sleep(Duration::from_secs(1));
    run.room();
    let (code, summary) = run.ends();
    assert_eq!(code, Some(0), "{summary:#}\n{}", run.log());
    assert_eq!((count(&summary, "complete"), count(&summary, "written")), (500, 500));
    assert!(count(&summary, "inhibited") > 500, "{:#}", summary["events"]);
    let cause = &summary["dead_time_causes"][0]["cause"];
    assert!(cause.as_str().is_some_and(|cause| cause.starts_with("sink of builder ")), "{cause}");
    run.says("accepts events again");
    assert_eq!(verified(&run.path("out")), 500);
}

#[test]
fn what_is_never_written_is_lost_by_name_and_nothing_else_is() {
    let mut run = Run::start(Some(400), "", "1 s", None);
    run.says("the builder's sink accepts no events");
    std::thread::sleep(Duration::from_millis(500));
    run.stop();
    let (code, summary) = run.ends();
    assert_eq!(code, Some(1), "{}", run.log());
    let (complete, lost) = (count(&summary, "complete"), count(&summary, "lost"));
    assert!(lost > 0 && complete > 0, "{:#}", summary["events"]);
    assert_eq!(complete + lost, count(&summary, "assigned"));
    let problems = summary["problems"].to_string();
    for part in [
        "builder 1: the sink did not accept the event within 1 s after the stop",
        "run000001_b01_0000.evb",
        "os error 27",
    ] {
        assert!(problems.contains(part), "no `{part}`: {problems}");
    }
    // The files contain exactly the acknowledged events.
    assert_eq!(verified(&run.path("out")), complete);
    assert!(run.log().contains("ERROR"), "events were lost: {}", run.log());
}

/// Waits until the first file of builder 1 has this size.
fn wait_for_bytes(run: &Run, bytes: u64) {
    let file = run.path("out/run000001_b01_0000.evb");
    let until = Instant::now() + Duration::from_secs(10);
    while fs::metadata(&file).map_or(0, |file| file.len()) < bytes {
        assert!(Instant::now() < until, "{}", run.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of stored events that are gone according to the problems, of which there is
/// one for each of these files.
fn gone(summary: &Value, files: &[&str]) -> u64 {
    let problems = summary["problems"].as_array().unwrap();
    assert_eq!(problems.len(), files.len(), "{problems:?}");
    let of_file = |file: &&str| {
        let named = |problem: &&str| problem.contains(*file) && problem.contains(" stored events are gone (");
        let words = problems.iter().filter_map(Value::as_str).find(named);
        let words = words.unwrap_or_else(|| panic!("nothing of {file}: {problems:?}"));
        let count = words.split(": ").nth(1).and_then(|words| words.split(' ').next());
        count.and_then(|count| count.parse::<u64>().ok()).unwrap_or_else(|| panic!("no number: {words}"))
    };
    files.iter().map(of_file).sum()
}

#[test]
fn a_removed_directory_is_made_again_and_what_it_held_is_a_problem() {
    let mut run = Run::start(None, "", "30 s", None);
    let out = run.path("out");
    wait_for_bytes(&run, 100_000);
    // The file lives on under another name, and the builder goes on writing it.
    fs::create_dir(run.path("kept")).unwrap();
    fs::rename(out.join("run000001_b02_0000.evb"), run.path("kept/run000001_b02_0000.evb")).unwrap();
    fs::remove_dir_all(&out).unwrap();
    let line = run.says("the builder's sink accepts no events");
    assert!(line.contains("run000001_b01_0000.evb") && line.contains("os error 2"), "{line}");
    assert!(run.says("stored events are gone (").contains("ERROR"));
    run.says(", but stored events are gone: the lines before name them, the cause and what to do");
    std::thread::sleep(Duration::from_millis(200));
    run.stop();
    let (code, summary) = run.ends();
    assert_eq!((code, count(&summary, "lost")), (Some(1), 0), "{}", run.log());
    let gone = gone(&summary, &["run000001_b01_0000.evb"]);
    assert!(!run.log().contains("no event was lost") && gone > 50, "{gone}: {}", run.log());
    let held = verified(&out) + verified(&run.path("kept"));
    assert_eq!(held + gone, count(&summary, "written"), "{summary:#}");
    assert!(out.join("run000001_b01_0001.evb").exists(), "{:?}", fs::read_dir(&out).map(Iterator::count));
}

#[test]
fn files_that_another_program_cuts_cost_named_events() {
    let mut run = Run::start(None, "", "30 s", None);
    wait_for_bytes(&run, 200_000);
    // One is emptied, as `copytruncate` of logrotate does; the other loses its second half.
    fs::File::create(run.path("out/run000001_b01_0000.evb")).unwrap();
    let half = fs::OpenOptions::new().write(true).open(run.path("out/run000001_b02_0000.evb")).unwrap();
    half.set_len(half.metadata().unwrap().len() / 2).unwrap();
    run.says("another program cut it");
    std::thread::sleep(Duration::from_millis(500));
    run.stop();
    let (code, summary) = run.ends();
    assert_eq!((code, count(&summary, "lost")), (Some(1), 0), "{}", run.log());
    let gone = gone(&summary, &["run000001_b01_0000.evb", "run000001_b02_0000.evb"]);
    assert!(!run.log().contains("no event was lost"), "{}", run.log());
    assert_eq!(verified(&run.path("out")) + gone, count(&summary, "written"), "{summary:#}");
}

/// Mounts a file system of 1 MiB.
fn small(at: &Path) -> Result<(), Missing> {
    programs(&["mount", "umount"])?;
    evb_needs::run(&format!("mount -t tmpfs -o size=1m evb-test {}", at.display())).map(drop)
}

#[test]
fn a_full_file_system_is_waited_for() {
    let mount = tempfile::tempdir().unwrap();
    let Some(()) = granted(small(mount.path())) else { return };
    let ballast = mount.path().join("ballast");
    fs::write(&ballast, vec![0; 500_000]).unwrap();
    let out = mount.path().join("out");
    let outcome = std::panic::catch_unwind(|| {
        let mut run = Run::start(None, "events = 1500", "30 s", Some(&out));
        // The file system is too small for 1500 events of 1.2 kB.
        let line = run.says("the builder's sink accepts no events");
        assert!(line.contains("os error 28"), "{line}");
        fs::remove_file(&ballast).unwrap();
        let remounted = Command::new("mount").args(["-o", "remount,size=8m"]).arg(mount.path()).status();
        assert!(remounted.unwrap().success());
        let (code, summary) = run.ends();
        assert_eq!((code, count(&summary, "written")), (Some(0), 1500), "{}", run.log());
        assert_eq!(verified(&out), 1500);
    });
    let unmounted = Command::new("umount").arg(mount.path()).status();
    assert!(unmounted.unwrap().success());
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
