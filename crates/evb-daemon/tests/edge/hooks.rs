//! What is done with boards when a run starts, and after its end: boards that run freely, that are
//! reset by bytes, and that a program must tell.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use evb_file::{EventFile, files_at};
use serde_json::{Value, json};

use crate::{
    board::{Board, Crate, payload},
    boards::{announce, settled},
    system,
};

/// Writes a script, which gets JSON on standard input.
pub(crate) fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", dir.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns what programs were told, one object for each call.
fn told(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("told")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn whats(dir: &Path) -> Vec<(String, u64)> {
    let of = |object: Value| (object["what"].as_str().unwrap().to_owned(), object["run"].as_u64().unwrap());
    told(dir).into_iter().map(of).collect()
}

fn wait_until_ready(system: &Crate, over: u64) {
    system::wait_for(system.path(), "ready", |status| status["runs"] == over && status["ready"] == true);
}

fn wait_until_over(system: &Crate, runs: u64) {
    system.does(&["stop"]);
    system::wait_for(system.path(), "over", |status| status["runs"] == runs);
}

#[test]
fn boards_that_run_freely_are_reset_or_are_told_fit_each_other_run_after_run() {
    let dir = tempfile::tempdir().unwrap();
    let arm =
        script(dir.path(), "arm", "{ cat; echo; } >> told; echo $1 > armed-$EVB_SOURCE; echo armed $EVB_RUN");
    let disarm = script(dir.path(), "disarm", "{ cat; echo; } >> told; rm armed-$EVB_SOURCE");
    let mut boards = [1, 2, 3].map(Board::new);
    boards[0].first = "\"any\"";
    boards[1].keys = "on_start = { send = \"ff 00 a5\" }, on_stop = { send = \"ff005a\" }, ".to_owned();
    boards[2].keys = format!(
        "on_start = {{ run = [\"{}\", \"crate 3\"] }}, on_stop = {{ run = [\"{}\"] }}, ",
        arm.display(),
        disarm.display()
    );
    let system = Crate::start(&boards);
    for run in 1..=2 {
        boards.iter_mut().for_each(Board::accept);
        wait_until_ready(&system, run - 1);
        // Boards 1 and 2 count triggers that are of no run.
        let [free, reset, _] = &mut boards;
        (free.ahead, reset.ahead) = (1000 * run, 0);
        free.send_events(200..=210);
        reset.send_events(500..=510);
        system.does(&["start"]);
        reset.hear(&[0xff, 0x00, 0xa5]);
        assert_eq!(fs::read_to_string(dir.path().join("armed-3")).unwrap(), "crate 3\n");
        free.ahead = 1000 * run + 210;
        announce(&system, 1..=100);
        boards.iter_mut().for_each(|board| board.send_events(1..=100));
        settled(&system, 100);
        wait_until_over(&system, run);
        boards[1].hear(&[0xff, 0x00, 0x5a]);
        boards.iter_mut().for_each(Board::die);
        let summary = fs::read(system.path().join("summary.json")).unwrap();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        assert_eq!(summary["events"]["complete"], 100, "{summary:#}\n{}", system.log());
        assert_eq!(summary["sources"][0]["discarded_before_start"], 11, "{summary:#}");
        assert_eq!(summary["sources"][1]["discarded_before_start"], 11, "{summary:#}");
    }
    let mut events = 0;
    for path in files_at(&system.path().join("out")).unwrap() {
        for event in EventFile::open(path).unwrap().events().map(Result::unwrap) {
            events += 1;
            for fragment in event.fragments() {
                let sent = payload(fragment.source.number(), event.id.number());
                assert!(fragment.payload == sent, "event {}: {}", event.id, fragment.source);
            }
        }
    }
    assert_eq!(events, 200);
    system::wait_for(dir.path(), "told", |_| told(dir.path()).len() == 4);
    let objects = told(dir.path());
    let [start, stop, next, _] = &objects[..] else { panic!("{objects:?}") };
    let id = start["run_id"].as_str().unwrap();
    assert_eq!(*start, json!({ "what": "start", "run": 1, "run_id": id, "source": 3, "name": null }));
    assert_eq!((&stop["what"], &stop["run"], &stop["run_id"]), (&json!("stop"), &json!(1), &start["run_id"]));
    assert!(stop["reason"].as_str().unwrap().contains("complete"), "{stop}");
    assert_eq!(next["run"], 2);
    assert_ne!(next["run_id"], start["run_id"]);
    let log = system.log();
    for words in [
        "waiting for on_start of source 2 (send the board ff 00 a5, within 10.0 s)",
        "on_start of source 3 has succeeded in ",
        "arm: armed 1",
    ] {
        assert!(log.contains(words), "no `{words}` in\n{log}");
    }
}

#[test]
fn a_start_is_refused_with_the_reason_and_the_next_one_works() {
    let dir = tempfile::tempdir().unwrap();
    let arm = script(
        dir.path(),
        "arm",
        "{ cat; echo; } >> told; if [ -e broken ]; then echo 'crate 1: no board' >&2; exit 3; fi\n\
         if [ -e slow ]; then sleep 600; fi",
    );
    let disarm = script(dir.path(), "disarm", "{ cat; echo; } >> told");
    let mut boards = [1, 2].map(Board::new);
    boards[0].keys = format!(
        "on_start = {{ run = [\"{}\"], timeout = \"4 s\" }}, on_stop = {{ run = [\"{}\"] }}, ",
        arm.display(),
        disarm.display()
    );
    boards[1].keys = "on_start = { send = \"01\", timeout = \"500 ms\" }, ".to_owned();
    let mut system = Crate::start(&boards);
    boards.iter_mut().for_each(Board::accept);
    wait_until_ready(&system, 0);
    let refused = |words: &[&str]| {
        let output = system::ctl(system.path(), &["start"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{text}");
        for words in words {
            assert!(text.contains(words), "no `{words}` in\n{text}\n{}", system.log());
        }
    };
    let program = format!("on_start failed: the program {} ", arm.display());
    fs::write(dir.path().join("broken"), "").unwrap();
    refused(&[
        "source 1",
        &program,
        "exited with code 3: its last line on stderr is `crate 1: no board`",
        "correct that on its host",
    ]);
    fs::rename(dir.path().join("broken"), dir.path().join("slow")).unwrap();
    refused(&["source 1", &program, "did not end within 4.00 s, and was killed"]);
    fs::remove_file(dir.path().join("slow")).unwrap();
    boards[1].switch_off();
    refused(&["source 2", "on_start failed: the board has not been connected for 500 ms"]);
    boards[1].switch_on();
    boards[1].accept();
    system.does(&["start"]);
    boards[1].hear(&[1]);
    announce(&system, 1..=10);
    boards.iter_mut().for_each(|board| board.send_events(1..=10));
    settled(&system, 10);
    // A signal ends the run, and evbd waits for what follows.
    system.signal("TERM");
    assert!(system.wait().success(), "{}", system.log());
    let calls = whats(dir.path());
    let starts = calls.iter().filter(|(what, _)| what == "start").count();
    assert_eq!((starts, calls.len()), (4, 5), "{calls:?}");
    assert_eq!(calls.last().unwrap().0, "stop");
}

#[test]
fn a_process_that_ends_while_a_program_runs_takes_it_along() {
    let dir = tempfile::tempdir().unwrap();
    let arm = script(dir.path(), "arm", "echo $$ > id; sleep 600");
    let disarm = script(dir.path(), "disarm", "touch disarmed");
    let mut boards = [Board::new(1)];
    boards[0].keys = format!(
        "on_start = {{ run = [\"{}\"], timeout = \"100 s\" }}, on_stop = {{ run = [\"{}\"] }}, ",
        arm.display(),
        disarm.display()
    );
    let mut system = Crate::start(&boards);
    boards[0].accept();
    wait_until_ready(&system, 0);
    let path = system.path().to_owned();
    let start = thread::spawn(move || system::ctl(&path, &["start"]));
    let id = || fs::read_to_string(dir.path().join("id")).unwrap_or_default();
    system::wait_for(system.path(), "armed", |_| id().ends_with('\n'));
    let began = Instant::now();
    system.signal("TERM");
    system.wait();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(!start.join().unwrap().status.success());
    assert!(!Path::new("/proc").join(id().trim()).exists(), "{}", system.log());
    assert!(!dir.path().join("disarmed").exists(), "on_stop without on_start");
}
