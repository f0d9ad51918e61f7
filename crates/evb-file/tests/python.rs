//! Checks that `tools/evb_read.py` reads the files of the Rust writer, and reports damage exactly
//! as the Rust reader does.
#![allow(clippy::unwrap_used)]

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    time::Instant,
};
use evb_file::{
    EventFile, EventFileWriter, FileIdentity, IndexState, ReadError, WriterOptions, dump, existing_files,
    format::FormatVersion,
};
use evb_needs::{Missing, granted, skip};

const RUN: RunNumber = RunNumber::new(42);

/// Returns the path of the Python reader, or says what is missing and returns `None`.
fn python() -> Option<PathBuf> {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/evb_read.py");
    if !reader.exists() {
        skip(&Missing::new(reader.display()).because("it is not part of the package"));
        return None;
    }
    // A program of that name may be there and refuse to run, as one that chooses among versions.
    granted(evb_needs::run("python3 --version")).map(|_| reader)
}

fn run(reader: &Path, arguments: &[&str]) -> Output {
    Command::new("python3").arg("-B").arg(reader).args(arguments).output().unwrap()
}

/// Runs a Python script that may import the module `evb_read`, and returns its output.
fn script(reader: &Path, text: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new("python3");
    command.args(["-B", "-c", text]).args(arguments).env("PYTHONPATH", reader.parent().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn event(id: u64, epoch: u64, sizes: &[usize]) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(epoch), BuilderId::new(5));
    event.triggered = Instant::from_nanos(id * 1_000_003);
    for (source, size) in (1..).zip(sizes) {
        let payload: Vec<u8> = (0..*size).map(|byte| (byte as u64 * 37 + id * 11 + source) as u8).collect();
        event.add(SourceId::new(source as u16), Timestamp::new(u64::MAX - id), payload.into());
    }
    event
}

fn events() -> Vec<Event> {
    let mut incomplete = event(3, 1, &[3]);
    incomplete.missing = [2, 3].map(|id| MissingSource::new(SourceId::new(id), Cause::Unknown)).into();
    vec![
        event(2, 1, &[10, 0, 7]),
        event(1, 1, &[1, 2, 3]),
        incomplete,
        event(1, 4, &[8, 8, 8]),
        event(9, 1, &[]),
    ]
}

fn written(dir: &Path, events: &[Event], close: bool) -> PathBuf {
    let sources = (1..=3).map(SourceId::new).collect();
    let identity = FileIdentity {
        run: RUN,
        epoch: Epoch::new(1),
        builder: BuilderId::new(5),
        sources,
        ..FileIdentity::default()
    };
    let options = WriterOptions { format: FormatVersion::One, ..WriterOptions::default() };
    let mut writer = EventFileWriter::create(dir, identity, options).unwrap();
    for event in events {
        writer.append(event).unwrap();
    }
    writer.commit().unwrap();
    if close {
        writer.close().unwrap();
    }
    existing_files(dir, RUN).unwrap().remove(0)
}

const TELL: &str = "
import sys, evb_read
for path in sys.argv[1:]:
    with evb_read.EventFile(path) as file:
        print(*file.header[:4], list(file.header.sources), file.index_state)
        for event in file:
            print(*event[:5], list(event.missing), event.offset, event.length)
            for part in event.fragments:
                print(part.source, part.timestamp, part.crc, part.payload.hex())
        print([tuple(entry) for entry in file.index()])
        print([file.event(n) and file.event(n).epoch for n in range(11)])
";

/// Returns the text that the Python script should print for a file, computed with the Rust reader.
fn told(path: &Path) -> String {
    let file = EventFile::open(path).unwrap();
    let (mut out, header) = (String::new(), file.header());
    let list = |ids: &[SourceId]| format!("{:?}", ids.iter().map(|id| id.number()).collect::<Vec<_>>());
    let state = if file.index_state() == IndexState::Present { "present" } else { "absent" };
    let builder = header.builder.unwrap();
    let (sources, sequence) = (list(&header.sources), header.sequence);
    writeln!(out, "{} {} {builder} {sequence} {sources} {state}", header.run, header.epoch).unwrap();
    for record in file.records() {
        let record = record.unwrap();
        let event = file.read(&record).unwrap();
        let Event { id, run, epoch, builder, triggered, ref missing, .. } = event;
        let missing: Vec<SourceId> = missing.iter().map(|missing| missing.source).collect();
        let (nanos, missing) = (triggered.as_nanos(), list(&missing));
        let (offset, length) = (record.offset, record.length.count());
        writeln!(out, "{id} {run} {epoch} {builder} {nanos} {missing} {offset} {length}").unwrap();
        for part in event.fragments() {
            let hex: String = part.payload.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(out, "{} {} {} {hex}", part.source, part.timestamp, part.checksum.number()).unwrap();
        }
    }
    let entries = file.index_entries(0, 100).unwrap();
    let entries: Vec<_> =
        entries.iter().map(|entry| (entry.event.number(), entry.epoch.number(), entry.offset)).collect();
    writeln!(out, "{entries:?}").unwrap();
    let epochs: Vec<String> = (0..11)
        .map(|id| file.event(EventId::new(id)).unwrap())
        .map(|event| event.map_or_else(|| "None".to_owned(), |event| event.epoch.to_string()))
        .collect();
    writeln!(out, "[{}]", epochs.join(", ")).unwrap();
    out
}

#[test]
fn python_reads_the_same_events() {
    let Some(reader) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut events = events();
    events.push(event(10, 1, &[100_000, 1, 70_001]));
    let closed = written(&dir.path().join("closed"), &events, true);
    let killed = written(&dir.path().join("killed"), &events, false);
    assert_eq!(script(&reader, TELL, &[&closed, &killed]), told(&closed) + &told(&killed));
}

#[test]
fn the_command_lists_shows_and_verifies() {
    let Some(reader) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), &events(), true);
    let file = path.to_str().unwrap();

    let verified = run(&reader, &[file]);
    let text = String::from_utf8(verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(1), "an incomplete event is not clean");
    assert!(text.contains("! event 3: INCOMPLETE, missing 2, 3"), "{text}");
    assert!(
        text.contains("4 events, 3 complete, 1 incomplete, 1 superseded copies, 50 B of payload: NOT CLEAN"),
        "{text}"
    );

    let listed = run(&reader, &[file, "--list"]);
    assert!(listed.status.success());
    assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 3 + 5);

    let shown = run(&reader, &[file, "--event", "2", "--hex"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    let mut expected = Vec::new();
    dump::hex(&EventFile::open(&path).unwrap().event(EventId::new(2)).unwrap().unwrap(), &mut expected)
        .unwrap();
    let expected = String::from_utf8(expected).unwrap();
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected.lines().skip(1).collect::<Vec<_>>());

    assert_eq!(run(&reader, &[file, "--event", "77"]).status.code(), Some(1));
    assert_eq!(run(&reader, &[reader.to_str().unwrap()]).status.code(), Some(2));

    let twice = written(&dir.path().join("twice"), &[event(1, 1, &[5]), event(1, 1, &[5])], true);
    let text = String::from_utf8(run(&reader, &[twice.to_str().unwrap()]).stdout).unwrap();
    assert!(text.contains("! event 1 of epoch 1 is there again") && text.contains(": NOT CLEAN"), "{text}");

    let clean = written(&dir.path().join("clean"), &[event(1, 1, &[5])], true);
    let verified = run(&reader, &[clean.to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn python_reads_format_2_in_every_state() {
    let Some(reader) = python() else { return };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let mut command = Command::new("python3");
    command.args(["-B", "-m", "unittest", "-q", "test_evb_read"]).current_dir(tests);
    let output = command.env("PYTHONPATH", reader.parent().unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const JUDGE: &str = "
import sys, evb_read
def judge(name, data):
    with open(sys.argv[2], 'wb') as out:
        out.write(data)
    try:
        with evb_read.EventFile(sys.argv[2]) as file:
            items = [
                ('torn' if item.torn else 'damaged') + ' %d %d' % (item.offset, item.length)
                if isinstance(item, evb_read.Damaged) else str(item.id)
                for item in file.scan()
            ]
            print(name, file.index_state, ', '.join(items))
    except evb_read.NotAnEventFile:
        print(name, 'refused')
data = open(sys.argv[1], 'rb').read()
for place in range(len(data)):
    judge('cut %d' % place, data[:place])
    judge('flip %d' % place, data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1:])
    judge('zeros %d' % place, data[:place] + bytes(len(data) - place))
    judge('mark %d' % place, data[:place] + b'EVBI' + data[place + 4:])
    judge('more %d' % place, data + data[:place])
    judge('other %d' % place, data + data[place:])
";

fn judge(out: &mut String, name: &str, path: &Path, data: &[u8]) {
    fs::write(path, data).unwrap();
    let Ok(file) = EventFile::open(path) else { return writeln!(out, "{name} refused").unwrap() };
    let items = file.events().map(|item| match item {
        Ok(event) => event.id.to_string(),
        Err(ReadError::TornTail { offset, length, .. }) => format!("torn {offset} {}", length.count()),
        Err(ReadError::Damaged { offset, length, .. }) => format!("damaged {offset} {}", length.count()),
        Err(other) => panic!("{other}"),
    });
    let items = items.collect::<Vec<_>>().join(", ");
    let state = match file.index_state() {
        IndexState::Present => "present",
        IndexState::Absent => "absent",
        IndexState::Damaged => "damaged",
    };
    writeln!(out, "{name} {state} {items}").unwrap();
}

#[test]
fn both_readers_judge_whatever_befalls_a_file_alike() {
    let Some(reader) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), &events(), true);
    let (data, copy) = (fs::read(&path).unwrap(), dir.path().join("copy"));
    let mut expected = String::new();
    for place in 0..data.len() {
        judge(&mut expected, &format!("cut {place}"), &copy, &data[..place]);
        let mut flipped = data.clone();
        flipped[place] ^= 0x10;
        judge(&mut expected, &format!("flip {place}"), &copy, &flipped);
        let (before, after) = data.split_at(place);
        let marked = [before, b"EVBI", after.get(4..).unwrap_or_default()].concat();
        judge(&mut expected, &format!("zeros {place}"), &copy, &[before, &vec![0; after.len()]].concat());
        judge(&mut expected, &format!("mark {place}"), &copy, &marked);
        judge(&mut expected, &format!("more {place}"), &copy, &[&data, before].concat());
        judge(&mut expected, &format!("other {place}"), &copy, &[&data, after].concat());
    }
    let found = script(&reader, JUDGE, &[&path, &copy]);
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), 6 * data.len());
}
