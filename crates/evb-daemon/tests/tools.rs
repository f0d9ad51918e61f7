//! `evbd verify`, `dump` and `merge`, tested as a user runs them.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
};
use evb_file::{EventFile, EventFileWriter, FileIdentity, WriterOptions, files_at};

const RUN: RunNumber = RunNumber::new(5);
const SOURCE: SourceId = SourceId::new(1);

fn evbd(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    let Output { status, stdout, stderr } =
        command.current_dir(dir).args(arguments).output().expect("evbd starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

/// Writes the event files of two builders with ten events.
fn record(dir: &Path) {
    for number in 1..=2 {
        let (epoch, builder) = (Epoch::new(1), BuilderId::new(number));
        let identity =
            FileIdentity { run: RUN, epoch, builder, sources: vec![SOURCE], ..FileIdentity::default() };
        let options = WriterOptions::default();
        let mut writer = EventFileWriter::create(dir.join("in"), identity, options).expect("files");
        for id in (u64::from(number)..=10).step_by(2) {
            let mut event = Event::empty(EventId::new(id), RUN, epoch, builder);
            event.add(SOURCE, Timestamp::new(id), format!("payload of {id}").into());
            writer.append(&event).expect("written");
        }
        writer.close().expect("closed");
    }
}

#[test]
fn a_clean_run_is_verified_listed_and_merged() {
    let dir = tempfile::tempdir().expect("a directory");
    record(dir.path());
    let (code, out, _) = evbd(dir.path(), &["verify", "in", "--events", "10"]);
    assert_eq!((code, out.lines().last()), (Some(0), Some("clean")), "{out}");
    let (code, out, _) = evbd(dir.path(), &["verify", "in", "--events", "11", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &report["clean"], &report["runs"][0]["events"]), (Some(1), &false.into(), &10.into()));

    let (code, out, _) = evbd(dir.path(), &["dump", "in"]);
    assert_eq!((code, out.lines().filter(|line| line.ends_with("complete")).count()), (Some(0), 10), "{out}");
    let (code, out, _) = evbd(dir.path(), &["dump", "in", "--event", "7", "--hex"]);
    assert!(code == Some(0) && out.contains("|payload of 7|"), "{out}");
    let (code, out, _) = evbd(dir.path(), &["dump", "in", "--event", "70"]);
    assert!(code == Some(1) && out.contains("event 70 is in none"), "{out}");

    let (code, out, _) = evbd(dir.path(), &["merge", "in", "--out", "merged"]);
    assert_eq!((code, out.as_str()), (Some(0), "10 events in 1 file\n"));
    let merged = files_at(&dir.path().join("merged")).expect("files");
    let file = EventFile::open(&merged[0]).expect("a file");
    let ids: Vec<u64> = file.events().map(|event| event.expect("intact").id.number()).collect();
    assert_eq!(ids, (1..=10).collect::<Vec<u64>>());
    let (code, _, error) = evbd(dir.path(), &["merge", "in", "--out", "merged"]);
    assert!(code == Some(2) && error.contains("exists"), "{error}");
}

#[test]
fn damage_is_told_and_never_exits_with_0() {
    let dir = tempfile::tempdir().expect("a directory");
    record(dir.path());
    let path = &files_at(&dir.path().join("in")).expect("files")[0];
    let mut bytes = fs::read(path).expect("read");
    let place = bytes.windows(12).position(|text| text == b"payload of 3").expect("event 3 is there");
    bytes[place] ^= 1;
    fs::write(path, bytes).expect("written");
    let (code, out, _) = evbd(dir.path(), &["verify", "in"]);
    assert!(code == Some(1) && out.contains("event 3") && out.ends_with("NOT CLEAN\n"), "{out}");
    let (code, out, _) = evbd(dir.path(), &["merge", "in", "--out", "merged"]);
    assert!(code == Some(1) && out.starts_with("9 events"), "{out}");
    let (code, out, _) = evbd(dir.path(), &["dump", "in", "--event", "3"]);
    assert!(code == Some(1) && out.contains("event 3"), "{out}");
}

#[test]
fn without_files_nothing_is_done() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("empty")).expect("a directory");
    for arguments in [
        &["verify", "empty"][..],
        &["verify", "nowhere"],
        &["dump", "empty"],
        &["merge", "empty", "--out", "merged"],
        &["dump", "empty", "--hex"],
    ] {
        let (code, out, error) = evbd(dir.path(), arguments);
        assert!(code == Some(2) && out.is_empty() && error.contains("error"), "{arguments:?}: {error}");
    }
}
