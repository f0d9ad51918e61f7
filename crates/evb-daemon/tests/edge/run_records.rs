//! The records of runs, and what `evbd runs` and `evbd report` show of them.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use evb_core::fragment::Checksum;
use evb_file::files_at;
use serde_json::Value;

#[path = "../../../../src/supervisor/state/tests/schema.rs"]
mod schema;

use crate::{run_hooks::System, system};

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

#[test]
fn a_record_of_a_killed_run_says_that_it_has_no_end() {
    let port = evb_needs::free_ports(1)[0];
    let system = System::new("", &format!("[control]\nlisten = \"127.0.0.1:{port}\""));
    let evbd_run = system.start_quietly();
    let dir = system.dir.path();
    system::wait_for(dir, "ready", |status| status["ready"] == true);
    assert!(system::ctl(dir, &["start"]).status.success());
    system::wait_for(dir, "events", |status| status["survey"]["events"]["complete"].as_u64() > Some(50));
    drop(evbd_run); // kill -9
    let record = record(&system);
    assert_eq!((&record["closed"], &record["report"]), (&false.into(), &Value::Null));
    assert!(record["verdict"].as_str().unwrap().contains("was not recorded"));
    let list = String::from_utf8(evbd(&system, &["runs"]).stdout).unwrap();
    assert!(list.contains("its end is not recorded"), "{list}");
}
