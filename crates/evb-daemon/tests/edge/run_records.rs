//! The records of runs, and what `evbd runs` and `evbd report` show of them.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use evb_core::fragment::Checksum;
use evb_file::files_at;
use serde_json::Value;

#[path = "../../../../src/supervisor/state/tests/schema.rs"]
mod schema;

use crate::{
    run_hooks::{Evbd, System},
    system,
};

/// Runs a command with the state directory of the system.
fn evbd(system: &System, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    command.args(words).arg(system.path("evb-state")).output().unwrap()
}

pub(crate) fn record(system: &System) -> Value {
    let output = evbd(system, &["runs", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns how a record disagrees with the schema.
pub(crate) fn disagreements(record: &Value) -> Vec<String> {
    schema::disagreements("the record", record, &schema::of_records())
}

/// Compares a record with the schema and with the files of the run.
fn assert_true_of_the_files(system: &System, record: &Value) {
    assert_eq!(disagreements(record), [""; 0]);
    let files = record["files"].as_array().unwrap();
    let found = files_at(&system.path("out")).unwrap();
    let paths: Vec<_> = files.iter().map(|file| PathBuf::from(file["path"].as_str().unwrap())).collect();
    assert_eq!((&paths, &record["files_left_out"]), (&found, &0.into()));
    for file in files {
        let content = fs::read(file["path"].as_str().unwrap()).unwrap();
        let sum = format!("{:016x}", Checksum::of(&content).number());
        assert_eq!((&file["size"], &file["crc64_nvme"]), (&content.len().into(), &sum.into()));
    }
    let events: u64 = files.iter().filter_map(|file| file["events"].as_u64()).sum();
    assert_eq!(record["events"]["written"], events);
}

#[test]
fn a_record_is_closed_and_true_after_the_end_of_a_run() {
    let system = System::new("", "[run]\nevents = 400");
    let (output, summary) = system.run();
    assert!(output.status.success());
    let record = record(&system);
    assert_eq!((&record["version"], &record["closed"]), (&1.into(), &true.into()));
    for key in ["run", "run_id", "begin", "end", "exit_code", "verdict", "events"] {
        assert_eq!((&record[key], &record["report"][key]), (&summary[key], &summary[key]), "{key}");
    }
    let text = fs::read_to_string(system.path("evb.toml")).unwrap();
    assert_eq!(
        (&record["configuration"]["text"], &record["builder_names"]["1"]),
        (&text.into(), &"near".into())
    );
    assert_true_of_the_files(&system, &record);
    let report = String::from_utf8(evbd(&system, &["report", "1", "--state"]).stdout).unwrap();
    assert!(report.contains("400 complete") && report.contains("1 near"), "{report}");
    assert_eq!(evbd(&system, &["report", "2", "--state"]).status.code(), Some(2));
}

/// Starts a run under run control that goes on until it is stopped, and waits for its first events.
pub(crate) fn begun(system: &System) -> Evbd {
    let evbd = system.start_quietly();
    let dir = system.dir.path();
    system::wait_for(dir, "ready", |status| status["ready"] == true);
    assert!(system::ctl(dir, &["start"]).status.success());
    events(system, 50);
    evbd
}

/// Waits until more than that number of events are complete.
fn events(system: &System, more_than: u64) {
    let complete = |status: &Value| status["survey"]["events"]["complete"].as_u64();
    system::wait_for(system.dir.path(), "events", |status| complete(status) > Some(more_than));
}

fn controlled(more: &str) -> System {
    let port = evb_needs::free_ports(1)[0];
    System::new("", &format!("[control]\nlisten = \"127.0.0.1:{port}\"\n{more}"))
}

/// The state directory is copied again and again while a run begins, goes on and ends.
#[test]
fn a_copy_of_the_state_directory_has_whole_documents_only() {
    let system = controlled("");
    let evbd = begun(&system);
    let state = system.path("evb-state");
    let stopped = thread::scope(|scope| {
        let stop = scope.spawn(|| system::ctl(system.dir.path(), &["stop"]).status.success());
        let mut copies = 0;
        while !stop.is_finished() || copies < 100 {
            for entry in fs::read_dir(&state).unwrap() {
                let path = entry.unwrap().path();
                // A file that is being written has no name of a record.
                if path.extension().is_some_and(|ending| ending == "json") {
                    let document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                    assert_eq!(disagreements(&document), [""; 0]);
                    copies += 1;
                }
            }
        }
        stop.join().unwrap()
    });
    assert!(stopped);
    let runs = |status: &Value| status["runs"] == 1;
    system::wait_for(system.dir.path(), "over", runs);
    let record = record(&system);
    assert_eq!(record["closed"], true);
    assert_true_of_the_files(&system, &record);
    drop(evbd);
}

/// The supervisor is killed, and another one goes on with the run by its journal: the record has
/// what the first one has noted.
#[test]
fn another_supervisor_goes_on_with_the_record() {
    let system = System::new("run_starts = [\"true\"]", "[run]\nduration = \"20 s\"");
    let path = system.path("evb.toml");
    let text = fs::read_to_string(&path).unwrap();
    let journal = format!("[supervisor]\njournal = \"{}\"\n", system.path("journal").display());
    fs::write(&path, text.replace("[supervisor]\n", &journal)).unwrap();
    let first = system.start_roles(&["supervisor"]);
    let others = system.start_roles(&["source:1", "builder:1"]);
    let files = |least: usize| {
        let until = Instant::now() + Duration::from_secs(30);
        while files_at(&system.path("out")).map_or(0, |files| files.len()) < least {
            assert!(Instant::now() < until, "no file");
            thread::sleep(Duration::from_millis(50));
        }
    };
    // The record is written every ten seconds.
    files(2);
    thread::sleep(Duration::from_secs(11));
    drop(first); // kill -9
    let before = record(&system);
    assert_eq!((&before["closed"], disagreements(&before)), (&false.into(), vec![]));
    assert!(!before["files"].as_array().unwrap().is_empty(), "{before:#}");
    let mut second = system.start_roles(&["supervisor"]);
    assert!(second.wait().success());
    drop(others);
    let after = record(&system);
    assert_eq!((&after["closed"], &after["run_id"]), (&true.into(), &before["run_id"]));
    assert_eq!(after["hooks"]["counts"]["run_starts"]["succeeded"], 1, "noted by the first one");
    let points = |record: &Value| record["series"]["points"].as_array().unwrap().clone();
    assert_eq!(points(&after)[0], points(&before)[0]);
    assert_true_of_the_files(&system, &after);
}

#[test]
fn a_record_names_what_went_wrong_and_when() {
    let system = controlled("");
    let text = fs::read_to_string(system.path("evb.toml")).unwrap();
    let front_end =
        "[[source]]\nid = 2\nneed = \"expendable\"\ninput = { kind = \"unix\", path = \"DIR/socket\" }\n";
    let front_end = front_end.replace("DIR", &system.dir.path().display().to_string());
    fs::write(system.path("evb.toml"), text + &front_end).unwrap();
    let _evbd = begun(&system);
    system::wait_for(system.dir.path(), "problem", |status| !status["problems"][0].is_null());
    // The problems are looked at every two seconds.
    thread::sleep(Duration::from_secs(3));
    assert!(system::ctl(system.dir.path(), &["stop"]).status.success());
    system::wait_for(system.dir.path(), "over", |status| status["runs"] == 1);
    let record = record(&system);
    assert_eq!(disagreements(&record), [""; 0]);
    let noted = record["noted_problems"].as_array().unwrap();
    let problem = noted.iter().find(|noted| noted["subject"] == "source 2");
    let problem = problem.unwrap_or_else(|| panic!("{record:#}"));
    let time = |key: &Value| key.as_str().unwrap().to_owned();
    let (begin, first, end) = (time(&record["begin"]), time(&problem["first"]), time(&record["end"]));
    assert!(begin < first && first < end, "{problem:#}");
    let page = system.path("page.html");
    let words = ["report", "1", "--html", page.to_str().unwrap(), "--state"];
    assert!(evbd(&system, &words).status.success());
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("source 2") && page.contains("<svg") && page.contains("run000001_b01_0000.evb"));
    let text = String::from_utf8(evbd(&system, &["report", "1", "--state"]).stdout).unwrap();
    assert!(text.contains("source 2: ") && text.contains("files          "), "{text}");
}

#[test]
fn a_record_of_a_killed_run_says_that_it_has_no_end() {
    let system = controlled("");
    let evbd_run = begun(&system);
    drop(evbd_run); // kill -9
    let record = record(&system);
    assert_eq!((&record["closed"], &record["report"]), (&false.into(), &Value::Null));
    assert!(record["verdict"].as_str().unwrap().contains("was not recorded"));
    assert_eq!(disagreements(&record), [""; 0]);
    let list = String::from_utf8(evbd(&system, &["runs"]).stdout).unwrap();
    assert!(list.contains("its end is not recorded"), "{list}");
}
