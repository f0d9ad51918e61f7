//! Programs of hooks that work, fail, hang, fork, talk or are missing.

use std::{fs, path::Path, time::Instant};

use evb_core::{
    fragment::Checksum,
    id::{EventId, RunId, RunNumber},
    time::Utc,
    units::Bytes,
};

use super::*;

/// Returns hooks with a script of `sh` as the program of one hook.
fn hooks(hook: Hook, script: &str, limit: Duration) -> Hooks {
    let words = Some(["sh", "-c", script].map(str::to_owned).to_vec());
    let mut config = HooksConfig { timeout: limit, ..HooksConfig::default() };
    match hook {
        Hook::RunStarts => config.run_starts = words,
        Hook::RunEnds => config.run_ends = words,
        Hook::FileClosed => config.file_closed = words,
        Hook::Problem => config.problem = words,
    }
    let hooks = Hooks::default();
    hooks.configure(&config);
    hooks
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn end(hooks: &Hooks) {
    block_on(hooks.end(std::future::pending()));
}

fn ended(run: u32) -> RunReport {
    let begin = Utc::from_nanos(1_700_000_000_000_000_000);
    RunReport { run, begin, end: begin, verdict: "good".to_owned(), ..RunReport::default() }
}

/// Returns how many calls have succeeded, failed, were dropped and are pending.
fn counts(hooks: &Hooks) -> [u64; 4] {
    let status = &hooks.status()[0];
    [status.succeeded, status.failed, status.dropped, status.pending]
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn the_end_of_a_run_is_told_and_only_of_one_that_has_begun() {
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("told");
    let script = format!("cat >> {0}; echo >> {0}; test $EVB_HOOK-$EVB_RUN = run_ends-7", told.display());
    let hooks = hooks(Hook::RunEnds, &script, LONG);
    hooks.tell_end(&RunReport { begin: Utc::UNKNOWN, ..ended(6) });
    hooks.tell_end(&ended(7));
    end(&hooks);
    assert_eq!(counts(&hooks), [1, 0, 0, 0]);
    let told: Value = serde_json::from_str(&fs::read_to_string(told).unwrap()).unwrap();
    assert_eq!(
        (&told["hook"], &told["run"], &told["verdict"]),
        (&json!("run_ends"), &json!(7), &json!("good"))
    );
    for key in ["run_id", "exit_code", "events", "duration_s", "annotation", "begin", "end", "wall_clock"] {
        assert!(!told[key].is_null(), "{key} of {told}");
    }
    hooks.tell_end(&ended(8));
    assert_eq!(counts(&hooks), [1, 0, 1, 0], "after the end");
}

fn closed(path: &Path) -> ClosedFile {
    let size = Bytes::new(fs::metadata(path).map_or(0, |found| found.len()));
    let (run, run_id) = (RunNumber::new(7), RunId::UNKNOWN);
    let (first, last) = (Some(EventId::new(3)), Some(EventId::new(9)));
    let checksum = Some(Checksum::of(&fs::read(path).unwrap()));
    ClosedFile { run, run_id, path: path.to_owned(), size, events: 4, first, last, checksum }
}

#[test]
fn a_file_is_told_with_its_checksum_and_a_program_that_fails_is_called_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.evb");
    let content = vec![7; 3 * 256 * 1024 + 5];
    fs::write(&file, &content).unwrap();
    let script = format!("cd {}; cat >> told; echo >> told; test $(wc -l < told) = 2", dir.path().display());
    let hooks = hooks(Hook::FileClosed, &script, LONG);
    hooks.tell_closed(BuilderId::new(2), "near", &closed(&file));
    end(&hooks);
    assert_eq!(counts(&hooks), [1, 0, 0, 0]);
    let told = fs::read_to_string(dir.path().join("told")).unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(told.len() == 2 && told[0] == told[1], "{told:?}");
    let checksum = format!("{:016x}", Checksum::of(&content).number());
    let expected = json!({
        "hook": "file_closed", "run": 7, "run_id": RunId::UNKNOWN.to_string(), "builder": 2, "name": "near",
        "path": file, "size": content.len(), "events": 4, "first": 3, "last": 9, "crc64_nvme": checksum,
    });
    assert_eq!(told[0], expected);
}

#[test]
fn calls_beyond_the_limit_are_dropped_and_nobody_waits_for_a_program_that_hangs() {
    let hooks = hooks(Hook::RunEnds, "sleep 1000", Duration::from_secs(1));
    let began = Instant::now();
    (0..2 + WAITING as u32).for_each(|_| hooks.tell_end(&ended(7)));
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    let [succeeded, failed, dropped, pending] = counts(&hooks);
    assert_eq!((succeeded, failed), (0, 0));
    assert!((1..=2).contains(&dropped) && dropped + pending == 2 + WAITING as u64, "{dropped} {pending}");
    end(&hooks);
    // The first call after the end that exceeds its limit at each attempt is the last one.
    assert_eq!(counts(&hooks), [0, 1, 1 + WAITING as u64, 0]);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[test]
fn a_program_that_fails_delays_the_end_once() {
    let hooks = hooks(Hook::RunEnds, "false", LONG);
    (0..10).for_each(|_| hooks.tell_end(&ended(7)));
    let began = Instant::now();
    end(&hooks);
    assert_eq!(counts(&hooks), [0, 10, 0, 0]);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[test]
fn a_second_interrupt_stops_the_programs() {
    let hooks = hooks(Hook::RunEnds, "sleep 1000 & sleep 1000", LONG * 10);
    (0..3).for_each(|_| hooks.tell_end(&ended(7)));
    let began = Instant::now();
    block_on(async { hooks.end(tokio::time::sleep(Duration::from_millis(300))).await });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(counts(&hooks), [0, 1, 2, 0]);
}
