//! Programs that end well, badly, late or not at all.

use std::{
    fs,
    future::{pending, ready},
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use super::{GRACE, Program, ProgramError, output::LINES};

const LONG: Duration = Duration::from_secs(20);

/// Runs a script of `sh` in a directory, with its outcome and the time that it took.
fn run(dir: &Path, script: &str, limit: Duration) -> (Result<(), ProgramError>, Duration) {
    let words = ["sh", "-c", script].map(str::to_owned);
    let variables = [("EVB_RUN", "7".to_owned()), ("DIR", dir.display().to_string())];
    let program = Program { words: &words, part: "on_start of source 3", variables: &variables };
    let began = Instant::now();
    let outcome = alone(program.run(&json!({ "run": 7, "what": "start" }), limit, pending()));
    (outcome, began.elapsed())
}

fn alone<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn text(outcome: Result<(), ProgramError>) -> String {
    outcome.map_or_else(|error| error.to_string(), |()| "it succeeded".to_owned())
}

/// Returns true if the process with the id in a file exists, also as a zombie.
fn exists(path: &Path) -> bool {
    let id: i32 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
    // An orphan is a zombie until init has waited for it.
    let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let is_orphan = state.contains(") Z 1 ");
    test_kill_process(Pid::from_raw(id).unwrap()).is_ok() && !is_orphan
}

#[test]
fn a_program_gets_json_and_variables() {
    let dir = tempfile::tempdir().unwrap();
    let (outcome, _) = run(dir.path(), "cat > $DIR/json; echo $EVB_RUN > $DIR/run; echo done", LONG);
    outcome.unwrap();
    let given: Value = serde_json::from_slice(&fs::read(dir.path().join("json")).unwrap()).unwrap();
    assert_eq!(given, json!({ "run": 7, "what": "start" }));
    assert_eq!(fs::read_to_string(dir.path().join("run")).unwrap(), "7\n");
}

#[test]
fn a_program_that_fails_is_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let of = |script: &str| text(run(dir.path(), script, LONG).0);
    assert_eq!(of("exit 3"), "exited with code 3");
    let said = of("echo first >&2; printf 'no \\033[1mboard; at all\\n\\n' >&2; echo out; exit 3");
    assert_eq!(said, "exited with code 3: its last line on stderr is `no [1mboard, at all`");
    assert_eq!(of("kill -9 $$"), "was killed by signal 9");
    // This one reads nothing, and ends before its input is written.
    assert_eq!(of("exec <&-; exit 0"), "it succeeded");
    let words = ["/no/such/program".to_owned()];
    let program = Program { words: &words, part: "on_start of source 3", variables: &[] };
    let outcome = alone(program.run(&Value::Null, LONG, pending()));
    assert_eq!(text(outcome), "cannot be started: No such file or directory (os error 2)");
}

#[test]
fn what_takes_too_long_is_killed_with_all_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; (sleep 600 & echo $! > $DIR/grandchild; wait; wait) & echo $! > $DIR/child; \
                  echo $$ > $DIR/own; echo stuck >&2; while :; do sleep 1; done";
    let limit = Duration::from_millis(300);
    let (outcome, took) = run(dir.path(), script, limit);
    assert_eq!(
        text(outcome),
        "did not end within 300 ms, and was killed: its last line on stderr is `stuck`"
    );
    assert!(took >= limit + GRACE && took < limit + GRACE * 3, "{took:?}");
    for name in ["own", "child", "grandchild"] {
        assert!(!exists(&dir.path().join(name)), "{name}");
    }
}

#[test]
fn one_that_heeds_sigterm_has_time_to_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'echo cleaned > $DIR/cleaned; exit 0' TERM; sleep 600 & wait";
    let (outcome, took) = run(dir.path(), script, Duration::from_millis(300));
    assert!(matches!(outcome, Err(ProgramError::TimeOver { .. })));
    assert!(took < GRACE, "{took:?}");
    assert!(dir.path().join("cleaned").exists());
}

#[test]
fn a_program_that_ends_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    // The grandchild holds the pipes, too.
    let (outcome, took) = run(dir.path(), "sleep 600 & echo $! > $DIR/grandchild", LONG);
    outcome.unwrap();
    assert!(took < GRACE * 2, "{took:?}");
    assert!(!exists(&dir.path().join("grandchild")));
}

#[test]
fn much_output_neither_blocks_nor_grows() {
    let dir = tempfile::tempdir().unwrap();
    let lines = LINES * 50;
    let script = format!(
        "i=0; while [ $i -lt {lines} ]; do echo line $i; echo line $i >&2; i=$((i+1)); done; \
         head -c 3000000 /dev/zero >&2; exit 1"
    );
    let (outcome, _) = run(dir.path(), &script, LONG);
    // Control characters are left out, so the last line has nothing to show.
    assert_eq!(text(outcome), "exited with code 1");
}

#[test]
fn one_that_is_not_wanted_any_more_is_stopped() {
    let words = ["sleep", "600"].map(str::to_owned);
    let program = Program { words: &words, part: "on_start of source 3", variables: &[] };
    let began = Instant::now();
    let outcome = alone(program.run(&Value::Null, LONG, ready(())));
    assert!(matches!(outcome, Err(ProgramError::Cancelled)));
    assert!(began.elapsed() < GRACE);
}
