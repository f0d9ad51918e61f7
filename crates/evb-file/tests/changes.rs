//! Checks that files keep the changes by which sources were excluded or included. The Python reader
//! finds the same.
#![allow(clippy::unwrap_used)]

use std::{path::Path, process::Command};

use evb_core::{
    event::{Cause, Event, MissingSource},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::Utc,
};
use evb_file::{
    EventFile, EventFileWriter, FileIdentity, Merge, OwingChange, Selection, WriterOptions,
    dump::{ListOptions, list},
    files_at, merge,
};
use evb_needs::granted;

const RUN: RunNumber = RunNumber::new(7);
const RUN_ID: RunId = RunId::new(0x5eed_cafe << 96 | 1);
const BEGUN: u64 = 1_763_000_000_000_000_000;

/// Returns the exclusion of a source, as an operator asked for it `seconds` after the begin.
fn excluded(source: u16, from: u64, seconds: u64) -> OwingChange {
    let change = OwingChange::exclude(SourceId::new(source), EventId::new(from), "no \"power\"\n, ν");
    OwingChange { utc: Utc::from_nanos(BEGUN + seconds * 1_000_000_000), ..change }
}

fn included(source: u16, from: u64, seconds: u64) -> OwingChange {
    OwingChange { excluded: false, why: String::new(), ..excluded(source, from, seconds) }
}

fn writer(dir: &Path, builder: u16, changes: &[OwingChange]) -> EventFileWriter {
    let identity = FileIdentity {
        run: RUN,
        run_id: RUN_ID,
        builder: BuilderId::new(builder),
        sources: [2, 3].map(SourceId::new).into(),
        changes: changes.to_vec(),
        ..FileIdentity::default()
    };
    EventFileWriter::create(dir, identity, WriterOptions::default()).unwrap()
}

fn append(writer: &mut EventFileWriter, id: u64, builder: u16) {
    let mut event = Event::empty(EventId::new(id), RUN, Epoch::default(), BuilderId::new(builder));
    event.run_id = RUN_ID;
    event.add(SourceId::new(2), Default::default(), "data".into());
    event.absent.push(MissingSource::new(SourceId::new(3), Cause::Excluded));
    writer.append(&event).unwrap();
    writer.commit().unwrap();
}

fn files(dir: &Path) -> Vec<EventFile> {
    files_at(dir).unwrap().iter().map(|path| EventFile::open(path).unwrap()).collect()
}

/// Returns the changes of a run, as the Rust reader and, if Python is there, `evb_read.py` find
/// them.
fn changes(dir: &Path) -> Vec<OwingChange> {
    let found = Merge::open(&[dir.to_owned()], &Selection::default()).unwrap().identity().changes.clone();
    python_agrees(dir, &found);
    found
}

fn python_agrees(dir: &Path, found: &[OwingChange]) {
    const SCRIPT: &str = "\
import json, sys, evb_read
runs, _ = evb_read.runs_of(evb_read.files_at(sys.argv[1:]))
keys = ('source', 'excluded', 'from', 'utc', 'why')
print(json.dumps([dict(zip(keys, one)) for one in runs[0].changes]))
";
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python");
    if !reader.exists() || granted(evb_needs::run("python3 --version")).is_none() {
        return;
    }
    let mut python = Command::new("python3");
    python.args(["-B", "-c", SCRIPT]).arg(dir).env("PYTHONPATH", reader);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serde_json::from_slice::<Vec<OwingChange>>(&output.stdout).unwrap(), found);
}

#[test]
fn changes_stand_beside_an_open_file_and_in_the_headers_of_later_ones() {
    let dir = tempfile::tempdir().unwrap();
    let of_plan = OwingChange { utc: Utc::UNKNOWN, ..excluded(3, 1, 0) };
    let mut of_builder = writer(dir.path(), 1, std::slice::from_ref(&of_plan));
    append(&mut of_builder, 1, 1);
    // The builder has connected again, and hears what it knew.
    of_builder.note_changes(std::slice::from_ref(&of_plan)).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the header of the file has it");

    let all = [of_plan.clone(), excluded(2, 9, 1)];
    of_builder.note_changes(&all).unwrap();
    // As if the builder was killed here.
    let open = &files(dir.path())[0];
    assert_eq!((&open.header().changes[..], &open.changes()[..]), (&[of_plan][..], &all[..]));
    assert_eq!(changes(dir.path()), all);
    of_builder.close().unwrap();
    std::fs::remove_file(dir.path().join("run000007_b01.alignment.json")).unwrap();
    let last = files(dir.path()).pop().unwrap();
    assert_eq!((last.records().count(), &last.header().changes[..]), (0, &all[..]));
    assert_eq!(changes(dir.path()), all);
}

/// Builder 2 was killed early, and knows only what was planned at the time.
#[test]
fn all_files_of_a_run_have_its_changes_together() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("run");
    let (first, planned) = (excluded(3, 1, 1), included(3, 100, 2));
    let (instead, last) = (included(3, 40, 3), excluded(2, 100, 4));
    let mut killed = writer(&from, 2, &[first.clone(), planned]);
    append(&mut killed, 2, 2);
    drop(killed);
    let mut survivor = writer(&from, 1, std::slice::from_ref(&first));
    append(&mut survivor, 1, 1);
    let all = [first, instead, last];
    survivor.note_changes(&all).unwrap();
    survivor.close().unwrap();
    assert_eq!(changes(&from), all);

    let to = dir.path().join("merged");
    merge(&[from], &Selection::default(), &to, WriterOptions::default()).unwrap();
    let merged = files(&to).remove(0);
    assert_eq!(merged.header().changes, all);
    assert_eq!(changes(&to), all);
    let mut text = Vec::new();
    list(&merged, ListOptions::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\nsource 3 is excluded from event 1 on (no \"power\" , ν)\n"), "{text}");
    assert!(text.contains("\nsource 3 is included from event 40 on\n"), "{text}");
}

/// A hostile or later list costs neither the file nor its events.
#[test]
fn what_cannot_be_read_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = writer(dir.path(), 1, &[]);
    append(&mut builder, 1, 1);
    builder.close().unwrap();
    let beside = dir.path().join("run000007_b01.alignment.json");
    for list in [
        "{}",
        "[5]",
        "[{\"source\": 70000}]",
        "[{\"from\": \"x\"}]",
        "[{\"from\": 1e999}]",
        &"[".repeat(100_000),
    ] {
        std::fs::write(&beside, format!("{{\"run_id\": \"{RUN_ID}\", \"changes\": {list}}}")).unwrap();
        assert_eq!(changes(dir.path()), [], "{list:.20}");
    }
}

/// The files that all readers must read in the same way.
#[test]
fn the_golden_files_have_all_changes_of_their_run() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/c/tests/file/golden-2/changes");
    let found = changes(&golden);
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "source 2 is excluded from event 1 on (broken)",
            "source 2 is included from event 3 on",
            "source 3 is excluded from event 4 on (no \"power\", ν)",
        ]
    );
    let utc: Vec<_> = found.iter().map(|change| change.utc.as_nanos().saturating_sub(BEGUN)).collect();
    assert_eq!(utc, [0, 2_000_000_000, 3_000_000_000]);
    let absent = |file: &EventFile| -> Vec<(u64, Vec<MissingSource>)> {
        file.events().map(|event| event.unwrap()).map(|event| (event.id.number(), event.absent)).collect()
    };
    let all: Vec<_> = files(&golden).iter().flat_map(absent).collect();
    let without = |source| vec![MissingSource::new(SourceId::new(source), Cause::Excluded)];
    assert_eq!(all, [(1, without(2)), (3, vec![]), (4, without(3)), (2, without(2))]);
}
