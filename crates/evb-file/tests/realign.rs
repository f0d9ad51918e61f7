//! Checks that slips are repaired: in twenty runs of two builders, with slips of different sizes,
//! signs and sources, each repaired event equals the truth. The Python reader finds the same.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fmt::Write as _, path::Path, process::Command};

use evb_core::{
    event::{Alignment, Cause, Event, MissingSource},
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
};
use evb_file::{
    Episode, EventFile, EventFileWriter, FileIdentity, Merge, Selection, WriterOptions, files_at,
    merge_realigned,
};
use evb_needs::granted;

const RUN: RunNumber = RunNumber::new(7);
const RUN_ID: RunId = RunId::new(0x5eed_cafe << 96 | 1);
const EVENTS: u64 = 300;
const SOURCES: u16 = 4;

/// A slip of a board: from event `at` on, its fragment of event n has the content of event
/// n + `shift`, up to event `to`.
#[derive(Clone, Copy, Debug)]
struct Planted {
    source: SourceId,
    shift: i64,
    at: u64,
    to: Option<u64>,
}

impl Planted {
    fn is_on(&self, event: u64) -> bool {
        event >= self.at && self.to.is_none_or(|to| event <= to)
    }

    fn episode(&self) -> Episode {
        Episode {
            source: self.source,
            since: EventId::new(self.at),
            // The supervisor notices the end some events later.
            until: self.to.map(|to| EventId::new(to + 20)),
            kind: "slip".to_owned(),
            shift: Some(self.shift),
            misaligned: true,
            text: format!("was planted with {}", self.shift),
            ..Episode::default()
        }
    }
}

fn planted(run: u64) -> Vec<Planted> {
    const SHIFTS: [i64; 10] = [1, -1, 2, -2, 3, -5, 7, -8, 16, -16];
    let of = |source: u64, shift: u64, to| Planted {
        source: SourceId::new(1 + (source % u64::from(SOURCES)) as u16),
        shift: SHIFTS[(shift % 10) as usize],
        at: 17 + 11 * run,
        to,
    };
    let second = (run % 4 == 3).then(|| of(run + 1, run + 3, None));
    [of(run, run, (run % 5 == 4).then_some(40 + 11 * run))].into_iter().chain(second).collect()
}

/// Returns the event whose data the board of a source sends for an event; none after the last one.
fn content(planted: &[Planted], source: SourceId, event: u64) -> Option<u64> {
    let on = planted.iter().find(|one| one.source == source && one.is_on(event));
    let seen = event.saturating_add_signed(on.map_or(0, |one| one.shift));
    Some(seen).filter(|seen| *seen <= EVENTS)
}

fn payload(source: SourceId, event: u64) -> Vec<u8> {
    format!("source {source} in event {event}").into_bytes()
}

/// Writes the files of a run with two builders, of which the first one knows what happened.
fn write_run(dir: &Path, planted: &[Planted]) {
    let identity = |builder| FileIdentity {
        run: RUN,
        run_id: RUN_ID,
        builder: BuilderId::new(builder),
        sources: (1..=SOURCES).map(SourceId::new).collect(),
        ..FileIdentity::default()
    };
    let options = WriterOptions { rotate_at: evb_core::units::Bytes::kib(16), ..WriterOptions::default() };
    let mut writers = [1, 2].map(|id| EventFileWriter::create(dir, identity(id), options).unwrap());
    for id in 1..=EVENTS {
        let place = (id / 3 % 2) as usize;
        let (event_id, builder) = (EventId::new(id), BuilderId::new(1 + place as u16));
        let mut event = Event::empty(event_id, RUN, Epoch::default(), builder);
        event.run_id = RUN_ID;
        for source in (1..=SOURCES).map(SourceId::new) {
            let state = match planted.iter().any(|one| one.source == source && one.is_on(id)) {
                true => Alignment::Disagrees,
                false => Alignment::Agrees,
            };
            match content(planted, source, id) {
                Some(seen) => {
                    event.add_judged(source, Timestamp::new(seen), state, payload(source, seen).into())
                }
                None => event.missing.push(MissingSource::new(source, Cause::Silent)),
            }
        }
        writers[place].append(&event).unwrap();
    }
    let episodes: Vec<_> = planted.iter().map(Planted::episode).collect();
    let [mut first, second] = writers;
    first.note_episodes(&episodes).unwrap();
    first.close().unwrap();
    second.close().unwrap();
}

/// Checks that an event has of each source what the board sent of this event, if it did.
fn check(event: &Event, planted: &[Planted]) {
    for source in (1..=SOURCES).map(SourceId::new) {
        let sent: BTreeSet<u64> = (1..=EVENTS).filter_map(|id| content(planted, source, id)).collect();
        let truth = sent.contains(&event.id.number()).then(|| payload(source, event.id.number()));
        let found = event.fragment(source).map(|part| part.payload.to_vec());
        assert_eq!(found, truth, "event {}, source {source}, {planted:?}", event.id);
        assert_eq!(event.is_missing(source), truth.is_none(), "event {}, source {source}", event.id);
    }
}

/// Returns a repaired run as a text with a line for each fragment.
fn told(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events {
        let missing: Vec<_> = event.missing_sources().map(|source| source.number()).collect();
        writeln!(text, "{} {missing:?}", event.id).unwrap();
        for part in event.fragments() {
            let (state, payload) = (part.alignment, String::from_utf8_lossy(part.payload));
            writeln!(text, "{} {state} {payload}", part.source).unwrap();
        }
    }
    text
}

#[test]
fn repaired_events_equal_the_truth() {
    for run in 0..20 {
        let (dir, planted) = (tempfile::tempdir().unwrap(), planted(run));
        let from = dir.path().join("run");
        write_run(&from, &planted);
        let mut merge = Merge::open(std::slice::from_ref(&from), &Selection::default()).unwrap();
        merge.realign(&[]);
        let events: Vec<Event> = std::iter::from_fn(|| merge.next_event().unwrap()).collect();
        assert_eq!(events.len() as u64, EVENTS);
        events.iter().for_each(|event| check(event, &planted));

        let to = dir.path().join("repaired");
        let (runs, options) = (Selection::default(), WriterOptions::default());
        let report = merge_realigned(std::slice::from_ref(&from), &runs, &to, options, &[], |_| ()).unwrap();
        assert_eq!((report.realigned.slips.len(), report.realigned.others.len()), (planted.len(), 0));
        let written = EventFile::open(&files_at(&to).unwrap()[0]).unwrap();
        assert_eq!(written.events().collect::<Result<Vec<_>, _>>().unwrap(), events);
        // What is repaired is not moved again.
        let mut again = Merge::open(&[to], &Selection::default()).unwrap();
        again.realign(&[]);
        let twice: Vec<Event> = std::iter::from_fn(|| again.next_event().unwrap()).collect();
        assert_eq!(twice, events);
        python_agrees(&from, &told(&events));
    }
}

/// Checks that `evb_read.py` gives the same events, if Python is there.
fn python_agrees(dir: &Path, told: &str) {
    const SCRIPT: &str = "\
import sys, evb_read
runs, _ = evb_read.runs_of(evb_read.files_at(sys.argv[1:]))
for event in runs[0].realigned():
    print(event.id, list(event.missing))
    for part in event.fragments:
        print(part.source, part.alignment, part.payload.decode())
";
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python");
    if !reader.exists() || granted(evb_needs::run("python3 --version")).is_none() {
        return;
    }
    let mut python = Command::new("python3");
    python.args(["-B", "-c", SCRIPT]).arg(dir).env("PYTHONPATH", reader);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), told);
}

/// The episodes stand beside an open file, and in the header of a last file once it is closed.
#[test]
fn files_keep_what_happened() {
    let (dir, planted) = (tempfile::tempdir().unwrap(), planted(0));
    write_run(dir.path(), &planted);
    let last =
        files_at(dir.path()).unwrap().into_iter().rfind(|path| path.to_string_lossy().contains("_b01_"));
    let last = EventFile::open(last.unwrap()).unwrap();
    assert_eq!((last.events().count(), &last.header().episodes), (0, &vec![planted[0].episode()]));
    let beside = dir.path().join("run000007_b01.alignment.json");
    std::fs::remove_file(&beside).unwrap();
    let merge = Merge::open(&[dir.path().to_owned()], &Selection::default()).unwrap();
    assert_eq!(merge.identity().episodes, [planted[0].episode()]);

    // A builder that is killed leaves only the file beside.
    let killed = tempfile::tempdir().unwrap();
    let identity =
        FileIdentity { run: RUN, run_id: RUN_ID, builder: BuilderId::new(1), ..FileIdentity::default() };
    let mut writer = EventFileWriter::create(killed.path(), identity, WriterOptions::default()).unwrap();
    let mut event = Event::empty(EventId::FIRST, RUN, Epoch::default(), BuilderId::new(1));
    event.run_id = RUN_ID;
    writer.append(&event).unwrap();
    writer.commit().unwrap();
    writer.note_episodes(&[planted[0].episode()]).unwrap();
    drop(writer);
    let file = EventFile::open(&files_at(killed.path()).unwrap()[0]).unwrap();
    assert_eq!((file.header().episodes.len(), file.episodes()), (0, vec![planted[0].episode()]));
}
