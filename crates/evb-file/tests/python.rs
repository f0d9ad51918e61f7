//! Checks that `bindings/python/evb_read.py` reads the files of the Rust writer, and reports damage
//! exactly as the Rust reader does.
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
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::{Instant, Utc},
};
use evb_file::{
    EventFile, EventFileWriter, FileIdentity, IndexState, ReadError, Recovery, WriterOptions, dump,
    existing_files, format::FormatVersion,
};
use evb_needs::{Missing, granted, skip};

const RUN: RunNumber = RunNumber::new(42);
const RUN_ID: RunId = RunId::new(0x5eed_cafe_0123_4567_89ab_cdef_0000_0001);
const FORMATS: [FormatVersion; 2] = [FormatVersion::One, FormatVersion::Two];

/// Returns the path of the Python reader, or says what is missing and returns `None`.
fn python() -> Option<PathBuf> {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python/evb_read.py");
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
    (event.run_id, event.utc) = (RUN_ID, Utc::from_nanos(1_763_000_000_000_000_000 + id));
    event.triggered = Instant::from_nanos(id * 1_000_003);
    for (source, size) in (1..).zip(sizes) {
        let payload: Vec<u8> = (0..*size).map(|byte| (byte as u64 * 37 + id * 11 + source) as u8).collect();
        event.add(SourceId::new(source as u16), Timestamp::new(u64::MAX - id), payload.into());
    }
    event
}

fn events() -> Vec<Event> {
    let mut incomplete = event(3, 1, &[3]);
    let without = |id, cause| MissingSource::new(SourceId::new(id), cause);
    incomplete.missing = vec![without(2, Cause::NoReadout), without(3, Cause::Unknown)];
    let mut partial = event(1, 1, &[1, 2]);
    partial.absent = vec![without(3, Cause::Excluded), without(9, Cause::Other(99))];
    vec![event(2, 1, &[10, 0, 7]), partial, incomplete, event(1, 4, &[8, 8, 8]), event(9, 1, &[])]
}

fn written(dir: &Path, format: FormatVersion, events: &[Event], close: bool) -> PathBuf {
    let sources = (1..=3).map(SourceId::new).collect();
    let identity = FileIdentity {
        run: RUN,
        epoch: Epoch::new(1),
        builder: BuilderId::new(5),
        sources,
        run_id: RUN_ID,
        begun: Utc::from_nanos(1_763_000_000_000_000_000),
        clock_synchronised: Some(true),
        kind: "cosmics".to_owned(),
        comment: "with a façade".to_owned(),
        source_names: [(SourceId::new(2), "tracker".to_owned())].into(),
        builder_names: [(BuilderId::new(5), "eb-5".to_owned())].into(),
        ..FileIdentity::default()
    };
    let options = WriterOptions { format, ..WriterOptions::default() };
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
        header = file.header
        print(*header[:4], list(header.sources), file.index_state)
        print(header.version, header.run_id, header.begun_unix_ns, header.clock, header.kind, header.comment)
        print(list(header.source_names.items()), list(header.builder_names.items()))
        for event in file:
            print(*event[:5], event.run_id, event.utc_ns, event.offset, event.length)
            print(list(event.missing_causes.items()), list(event.absent_causes.items()), event.complete, event.whole)
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
    let id = if header.run_id.is_known() { header.run_id.to_string() } else { String::new() };
    let clock = if header.clock_synchronised == Some(true) { "synchronised" } else { "unknown" };
    let (version, begun) = (header.version, header.begun.as_nanos());
    writeln!(out, "{version} {id} {begun} {clock} {} {}", header.kind, header.comment).unwrap();
    let sources = header.source_names.iter().map(|(id, name)| format!("({id}, '{name}')"));
    let builders = header.builder_names.iter().map(|(id, name)| format!("({id}, '{name}')"));
    writeln!(out, "[{}] [{}]", sources.collect::<String>(), builders.collect::<String>()).unwrap();
    for record in file.records() {
        let record = record.unwrap();
        let event = file.read(&record).unwrap();
        let Event { id, run, epoch, builder, triggered, utc, run_id, .. } = event;
        let short = if run_id.is_known() { run_id.short().to_string() } else { String::new() };
        let (nanos, utc) = (triggered.as_nanos(), utc.as_nanos());
        let (offset, length) = (record.offset, record.length.count());
        writeln!(out, "{id} {run} {epoch} {builder} {nanos} {short} {utc} {offset} {length}").unwrap();
        let causes = |list: &[MissingSource]| {
            let one = |missing: &MissingSource| format!("({}, '{}')", missing.source, missing.cause);
            format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(", "))
        };
        let (missing, absent) = (causes(&event.missing), causes(&event.absent));
        let truth = |is: bool| if is { "True" } else { "False" };
        let (complete, whole) = (truth(event.is_complete()), truth(event.is_whole()));
        writeln!(out, "{missing} {absent} {complete} {whole}").unwrap();
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
    for format in FORMATS {
        let closed = written(&dir.path().join(format!("{format}-closed")), format, &events, true);
        let killed = written(&dir.path().join(format!("{format}-killed")), format, &events, false);
        assert_eq!(script(&reader, TELL, &[&closed, &killed]), told(&closed) + &told(&killed));
    }
}

#[test]
fn the_command_lists_shows_and_verifies() {
    let Some(reader) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), FormatVersion::Two, &events(), true);
    let file = path.to_str().unwrap();

    let verified = run(&reader, &[file]);
    let text = String::from_utf8(verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(1), "an incomplete event is not clean");
    assert!(text.contains("! event 3: INCOMPLETE, missing source 2 (no readout), source 3"), "{text}");
    assert!(
        text.contains("4 events, 3 complete, 1 incomplete, 1 superseded copies, 47 B of payload: NOT CLEAN"),
        "{text}"
    );

    let listed = run(&reader, &[file, "--list"]);
    assert!(listed.status.success());
    assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 6 + 5);

    let shown = run(&reader, &[file, "--event", "2", "--hex"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    let mut expected = Vec::new();
    dump::hex(&EventFile::open(&path).unwrap().event(EventId::new(2)).unwrap().unwrap(), &mut expected)
        .unwrap();
    let expected = String::from_utf8(expected).unwrap();
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected.lines().skip(1).collect::<Vec<_>>());

    assert_eq!(run(&reader, &[file, "--event", "77"]).status.code(), Some(1));
    assert_eq!(run(&reader, &[reader.to_str().unwrap()]).status.code(), Some(2));

    let twice =
        written(&dir.path().join("twice"), FormatVersion::One, &[event(1, 1, &[5]), event(1, 1, &[5])], true);
    let text = String::from_utf8(run(&reader, &[twice.to_str().unwrap()]).stdout).unwrap();
    assert!(text.contains("! event 1 of epoch 1 is there again") && text.contains(": NOT CLEAN"), "{text}");

    let clean = written(&dir.path().join("clean"), FormatVersion::Two, &[event(1, 1, &[5])], true);
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
            print(name, file.index_state, file.recovered or 'intact', ', '.join(items))
    except evb_read.NotAnEventFile:
        print(name, 'refused')
data = open(sys.argv[1], 'rb').read()
mark = b'EVX2' if data[8] == 2 else b'EVBI'
for place in range(0, len(data), data[8]):
    judge('cut %d' % place, data[:place])
    judge('flip %d' % place, data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1:])
    judge('zeros %d' % place, data[:place] + bytes(len(data) - place))
    judge('mark %d' % place, data[:place] + mark + data[place + 4:])
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
    let recovered = match file.recovery() {
        None => "intact",
        Some(Recovery::ClosingBlock) => "closing block",
        Some(Recovery::Records) => "records",
    };
    writeln!(out, "{name} {state} {recovered} {items}").unwrap();
}

#[test]
fn both_readers_judge_whatever_befalls_a_file_alike() {
    let Some(reader) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (format, mark) in FORMATS.into_iter().zip([b"EVBI", b"EVX2"]) {
        let path = written(&dir.path().join(format.to_string()), format, &events(), true);
        let (data, copy) = (fs::read(&path).unwrap(), dir.path().join("copy"));
        let places = || (0..data.len()).step_by(format.number().into());
        let mut expected = String::new();
        for place in places() {
            judge(&mut expected, &format!("cut {place}"), &copy, &data[..place]);
            let mut flipped = data.clone();
            flipped[place] ^= 0x10;
            judge(&mut expected, &format!("flip {place}"), &copy, &flipped);
            let (before, after) = data.split_at(place);
            let marked = [before, mark, after.get(4..).unwrap_or_default()].concat();
            judge(&mut expected, &format!("zeros {place}"), &copy, &[before, &vec![0; after.len()]].concat());
            judge(&mut expected, &format!("mark {place}"), &copy, &marked);
            judge(&mut expected, &format!("more {place}"), &copy, &[&data, before].concat());
            judge(&mut expected, &format!("other {place}"), &copy, &[&data, after].concat());
        }
        let found = script(&reader, JUDGE, &[&path, &copy]);
        for (found, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.lines().count(), 6 * places().count());
    }
}
