//! The program as a user runs it, on files that the writer of event files has written. What it
//! writes is read here by the crates that wrote it; `cargo xtask eco export` reads it with h5py and
//! pyarrow.

#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Command, Output},
};

use evb_core::{
    event::{Alignment, Cause, Event, MissingSource},
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::Utc,
};
use evb_file::{EventFile, EventFileWriter, FileIdentity, WriterOptions, existing_files};
use parquet::{file::reader::SerializedFileReader, record::Field};
use serde_json::Value;

const RUN: RunNumber = RunNumber::new(7);
const RUN_ID: RunId = RunId::new(0x5eed_cafe << 96);

/// An event with a payload from each of the sources 1 and 2; event 3 lacks source 2. Events 1 to 4
/// have the four states of alignment in source 1, and event 1 lacks five packets of it.
fn event(id: u64, epoch: u64, builder: u16) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(epoch), BuilderId::new(builder));
    (event.run_id, event.utc) = (RUN_ID, Utc::from_nanos(1_763_000_000_000_000_000 + id));
    let state = Alignment::from_code(id as u8 % 4);
    event.add_judged(SourceId::new(1), Timestamp::new(id + 100), state, vec![id as u8; 5].into());
    if id == 1 {
        event.set_lost_packets(SourceId::new(1), 5);
    }
    if id == 4 {
        event.absent.push(MissingSource::new(SourceId::new(9), Cause::Excluded));
    }
    if id == 3 {
        event.missing.push(MissingSource::new(SourceId::new(2), Cause::Silent));
    } else {
        event.add(SourceId::new(2), Timestamp::new(u64::MAX), vec![id as u8; 3 * id as usize].into());
    }
    event
}

fn write(dir: &Path, builder: u16, events: &[Event]) {
    let sources = vec![SourceId::new(1), SourceId::new(2)];
    let identity = FileIdentity {
        run: RUN,
        run_id: RUN_ID,
        epoch: Epoch::new(1),
        builder: BuilderId::new(builder),
        sources,
        ..FileIdentity::default()
    };
    let mut writer = EventFileWriter::create(dir, identity, WriterOptions::default()).unwrap();
    events.iter().for_each(|event| writer.append(event).unwrap());
    writer.close().unwrap();
}

fn export(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evb-export"))
        .arg("in")
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap()
}

/// Exports and returns the exit code and the JSON.
fn summary(dir: &Path, arguments: &[&str]) -> (i32, Value) {
    let output = export(dir, &[arguments, &["--json"]].concat());
    let code = output.status.code().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    (code, serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}")))
}

/// A run of two builders: events 1 to 4, of which event 2 was built twice.
fn run() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), 1, &[event(3, 1, 1), event(1, 1, 1), event(2, 1, 1)]);
    write(&dir.path().join("in"), 2, &[event(2, 2, 2), event(4, 1, 2)]);
    dir
}

#[test]
fn hdf5_has_flat_columns_in_the_order_of_event_ids() {
    let dir = run();
    fs::write(dir.path().join("evb.toml"), "[run]\nevents = 4\n").unwrap();
    let given = ["--to", "hdf5", "--out", "run.h5", "--configuration", "evb.toml"];
    let (code, said) = summary(dir.path(), &given);
    assert_eq!((code, &said["events"], &said["superseded"]), (0, &4.into(), &1.into()));
    let file = hdf5_pure::File::open(dir.path().join("run.h5")).unwrap();
    let numbers = |name: &str| file.dataset(name).unwrap().read::<u64>().unwrap();
    assert_eq!(numbers("events/event"), [1, 2, 3, 4]);
    assert_eq!(numbers("events/first_fragment"), [0, 2, 4, 5, 7]);
    assert_eq!(numbers("events/first_missing"), [0, 0, 0, 1, 1]);
    assert_eq!(numbers("fragments/event_row"), [0, 0, 1, 1, 2, 3, 3]);
    assert_eq!(numbers("fragments/timestamp")[..2], [101, u64::MAX]);
    let words = |name: &str| file.dataset(name).unwrap().read::<u16>().unwrap();
    assert_eq!((words("events/builder"), words("missing")), (vec![1, 2, 1, 2], vec![2]));
    assert_eq!(words("fragments/source"), [1, 2, 1, 2, 1, 1, 2]);
    assert_eq!(numbers("events/first_absent"), [0, 0, 0, 0, 1]);
    assert_eq!(numbers("events/utc_ns")[3], 1_763_000_000_000_000_004);
    let bytes = |name: &str| file.dataset(name).unwrap().read::<u8>().unwrap();
    assert_eq!(
        (bytes("missing_cause"), words("absent"), bytes("absent_cause")),
        (vec![2], vec![9], vec![16])
    );
    assert_eq!(bytes("fragments/alignment"), [1, 0, 2, 0, 3, 0, 0]);
    let lost = file.dataset("fragments/lost_packets").unwrap().read::<u32>().unwrap();
    assert_eq!(lost, [5, 0, 0, 0, 0, 0, 0]);
    let data = file.dataset("data").unwrap().read::<u8>().unwrap();
    let places = numbers("fragments/offset").into_iter().zip(numbers("fragments/length"));
    for ((offset, length), checksum) in places.zip(numbers("fragments/checksum")) {
        let payload = &data[offset as usize..(offset + length) as usize];
        assert_eq!(Checksum::of(payload).number(), checksum);
    }
    let attributes = file.root().attrs().unwrap();
    assert_eq!(attributes["events"].as_u64(), Some(4));
    assert_eq!(attributes["incomplete"].as_u64(), Some(1));
    assert_eq!(attributes["whole"].as_u64(), Some(1), "event 2");
    assert_eq!(attributes["misaligned"].as_u64(), Some(1), "event 2");
    assert_eq!(attributes["run_id"].as_str(), Some("5eedcafe000000000000000000000000"));
    assert_eq!(attributes["configuration"].as_str(), Some("[run]\nevents = 4\n"));
    assert_eq!(attributes["sources"].as_str(), Some("[1,2]"));
}

#[test]
fn parquet_has_a_row_for_each_fragment_and_each_missing_one() {
    let dir = run();
    let (code, _) = summary(dir.path(), &["--to", "parquet", "--out", "run.parquet"]);
    assert_eq!(code, 0);
    let file = fs::File::open(dir.path().join("run.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<Vec<Field>> = reader
        .into_iter()
        .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
        .collect();
    assert_eq!(rows.len(), 9);
    assert_eq!(rows[0][0], Field::ULong(1));
    assert_eq!(rows[1][5], Field::ULong(u64::MAX));
    assert_eq!(rows[2][1], Field::UShort(2), "the later epoch counts");
    // Event 3 has a fragment of source 1 and none of source 2.
    assert_eq!((&rows[4][4], &rows[4][6]), (&Field::UShort(1), &Field::UInt(5)));
    assert_eq!((&rows[5][0], &rows[5][4]), (&Field::ULong(3), &Field::UShort(2)));
    assert!(rows[5][5..9].iter().all(|field| *field == Field::Null));
    assert_eq!((&rows[5][10], &rows[5][11]), (&Field::UByte(2), &Field::Bool(false)));
    assert_eq!(
        (&rows[8][4], &rows[8][10], &rows[8][11]),
        (&Field::UShort(9), &Field::UByte(16), &Field::Bool(true))
    );
    assert_eq!((&rows[0][9], &rows[0][10]), (&Field::ULong(1_763_000_000_000_000_001), &Field::Null));
    assert_eq!((&rows[0][13], &rows[5][13]), (&Field::UInt(5), &Field::Null));
    let states: Vec<&Field> = rows.iter().map(|row| &row[12]).collect();
    let [unchecked, agrees, disagrees, unknown] = [0, 1, 2, 3].map(Field::UByte);
    let null = Field::Null;
    let expected =
        [&agrees, &unchecked, &disagrees, &unchecked, &unknown, &null, &unchecked, &unchecked, &null];
    assert_eq!(states, expected);
    for row in rows.iter().filter(|row| row[8] != Field::Null) {
        let Field::Bytes(payload) = &row[8] else { panic!("{row:?}") };
        assert_eq!(row[7], Field::ULong(Checksum::of(payload.data()).number()));
    }
}

#[test]
fn gaps_and_damage_are_told_and_change_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), 1, &[event(1, 1, 1), event(4, 1, 1), event(5, 1, 1)]);
    let (code, said) = summary(dir.path(), &["--to", "hdf5", "--out", "gaps.h5"]);
    assert_eq!((code, &said["absent"], &said["clean"]), (1, &2.into(), &false.into()));
    assert_eq!(said["gaps"], serde_json::json!([[2, 3]]));
    let allowed = ["--to", "parquet", "--out", "gaps.parquet", "--allow-gaps"];
    assert_eq!(export(dir.path(), &allowed).status.code(), Some(0));

    let path = existing_files(&dir.path().join("in"), RUN).unwrap().remove(0);
    let record = EventFile::open(&path).unwrap().records().nth(1).unwrap().unwrap();
    let place = record.offset + record.head_length.count();
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"x", place).unwrap();
    for format in ["hdf5", "parquet"] {
        let (code, said) = summary(dir.path(), &["--to", format, "--out", format, "--allow-gaps"]);
        assert_eq!((code, &said["events"], &said["damaged"]), (1, &2.into(), &1.into()));
        assert!(said["damage"][0].as_str().unwrap().contains("of event 4"), "{said}");
        let told = export(dir.path(), &["--to", format, "--out", format, "--allow-gaps", "--force"]);
        assert!(String::from_utf8_lossy(&told.stdout).contains("1 damaged record or tail left out"));
    }
    let file = hdf5_pure::File::open(dir.path().join("hdf5")).unwrap();
    let attributes = file.root().attrs().unwrap();
    assert_eq!((attributes["damaged"].as_u64(), attributes["absent"].as_u64()), (Some(1), Some(3)));
    assert!(attributes["findings"].as_str().unwrap().contains("of event 4"));
}

#[test]
fn of_several_runs_one_must_be_chosen() {
    let dir = run();
    let identity = FileIdentity {
        run: RUN,
        run_id: RunId::new(0xabcd_0000 << 96),
        builder: BuilderId::new(3),
        ..FileIdentity::default()
    };
    // A writer refuses a folder with files of the run's number, so they come together later.
    let elsewhere = dir.path().join("elsewhere");
    EventFileWriter::create(&elsewhere, identity, WriterOptions::default()).unwrap().close().unwrap();
    let file = existing_files(&elsewhere, RUN).unwrap().remove(0);
    fs::rename(&file, dir.path().join("in").join(file.file_name().unwrap())).unwrap();
    let to = ["--to", "hdf5", "--out", "run.h5"];
    let refused = export(dir.path(), &to);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("run 7 (5eedcafe, 2 files)") && said.contains("run 7 (abcd0000, 1 file)"),
        "{said}"
    );
    let (code, told) = summary(dir.path(), &[&to[..], &["--run", "5eed"]].concat());
    assert_eq!((code, &told["events"]), (0, &4.into()));
    assert_eq!(told["run_id"], "5eedcafe000000000000000000000000");
}

#[test]
fn wrong_usage_is_refused_and_changes_nothing() {
    let dir = run();
    fs::write(dir.path().join("there.h5"), "mine").unwrap();
    for arguments in [
        &["--to", "hdf5", "--out", "there.h5"][..],
        &["--to", "root", "--out", "new"],
        &["--to", "hdf5"],
        &["--to", "hdf5", "--out", "new", "nowhere"],
        &["--to", "hdf5", "--out", "."],
        &["--to", "hdf5", "--out", "new", "--configuration", "nowhere"],
    ] {
        let output = export(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
    assert_eq!(fs::read(dir.path().join("there.h5")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    let forced = export(dir.path(), &["--to", "hdf5", "--out", "there.h5", "--force"]);
    assert_eq!(forced.status.code(), Some(0));
    assert!(hdf5_pure::File::open(dir.path().join("there.h5")).is_ok());
}

#[test]
fn a_closed_pipe_changes_no_exit_code() {
    let dir = run();
    fs::write(dir.path().join("there.h5"), "mine").unwrap();
    for (out, code) in [("there.h5", 2), ("new.h5", 0)] {
        let closed = || std::io::pipe().unwrap().1;
        let mut command = Command::new(env!("CARGO_BIN_EXE_evb-export"));
        command.args(["in", "--to", "hdf5", "--out", out]).current_dir(dir.path());
        let status = command.stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{out}: {status}");
    }
}

#[test]
fn a_run_without_events_has_empty_columns() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), 1, &[]);
    for format in ["hdf5", "parquet"] {
        assert_eq!(export(dir.path(), &["--to", format, "--out", format]).status.code(), Some(0));
    }
    let file = hdf5_pure::File::open(dir.path().join("hdf5")).unwrap();
    assert_eq!(file.dataset("events/first_fragment").unwrap().read::<u64>().unwrap(), [0]);
    assert_eq!(file.dataset("data").unwrap().shape().unwrap(), [0]);
}
