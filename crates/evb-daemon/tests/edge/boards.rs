//! Sources that connect to boards with frames of their own: boards that die and come back, send
//! garbage and half frames, and jump their counters.

use std::{fs, net::UdpSocket, ops::RangeInclusive, path::Path, process::Command, thread, time::Duration};

use evb_core::trigger::announcement::Announcement;
use evb_file::{EventFile, files_at};
use serde_json::Value;

use crate::{
    board::{Board, Crate, payload, source},
    system,
};

/// Longer than a source waits for the next bytes of a stream, also on a host with much load.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn announce(system: &Crate, numbers: RangeInclusive<u64>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in numbers {
        let datagram = Announcement { number, sent_ns: 0 }.encode();
        socket.send_to(&datagram, ("127.0.0.1", system.trigger)).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn settled(system: &Crate, events: u64) {
    system::wait_for(system.path(), "settled", |status| {
        let of = |outcome: &str| status["survey"]["events"][outcome].as_u64().unwrap_or(0);
        of("complete") + of("incomplete") == events
    });
}

/// Ends the run; returns its summary after a look at all events: each fragment is, byte for byte,
/// what its board sent for this event.
pub(crate) fn end(system: &Crate) -> Value {
    let summary = stopped(system);
    for path in files_at(&system.path().join("out")).unwrap() {
        for event in EventFile::open(path).unwrap().events().map(Result::unwrap) {
            for fragment in event.fragments() {
                let sent = payload(fragment.source.number(), event.id.number());
                assert!(fragment.payload == sent, "event {}: {}", event.id, fragment.source);
            }
        }
    }
    summary
}

/// Ends the run, and returns its summary.
pub(crate) fn stopped(system: &Crate) -> Value {
    system.does(&["stop"]);
    system::wait_for(system.path(), "over", |status| status["runs"] == 1);
    serde_json::from_slice(&fs::read(system.path().join("summary.json")).unwrap()).unwrap()
}

fn ready(boards: &mut [Board; 2]) -> Crate {
    let system = Crate::start(&boards[..]);
    boards.iter_mut().for_each(Board::accept);
    system::wait_for(system.path(), "ready", |status| status["ready"] == true);
    system.does(&["start"]);
    system
}

#[test]
fn what_boards_lose_is_named_and_no_event_has_a_foreign_byte() {
    let mut boards = [1, 2].map(Board::new);
    let system = ready(&mut boards);
    announce(&system, 1..=300);
    let [one, two] = &mut boards;
    one.send_events(1..=300);
    // The board of source 2 sends garbage, half a frame, dies within a frame and comes back, and
    // misses ten triggers.
    two.send_events(1..=50);
    thread::sleep(PAUSE);
    two.send(&[0x55; 500]);
    two.send_events(51..=100);
    let (half, last) = (two.frame(101), two.frame(151));
    two.send(&half[..half.len() / 2]);
    two.send_events(102..=150);
    two.send(&last[..30]);
    thread::sleep(PAUSE);
    two.die();
    two.accept();
    two.send_events((152..=200).chain(211..=300));
    settled(&system, 300);
    let summary = end(&system);
    assert_eq!(summary["events"]["complete"], 288, "{summary:#}\n{}", system.log());
    assert_eq!(summary["events"]["incomplete"], 12);
    let of = |source: usize, key: &str| summary["sources"][source][key].as_u64().unwrap();
    let keys =
        ["garbage_bytes", "resyncs", "malformed", "counter_gaps", "counter_skipped", "unplaced", "missing"];
    assert_eq!(keys.map(|key| of(0, key)), [0; 7], "{summary:#}");
    let garbage = (500 + half.len() / 2 + 30) as u64;
    assert_eq!(keys.map(|key| of(1, key)), [garbage, 3, 2, 3, 12, 0, 12], "{summary:#}");
    let remarks = summary["remarks"].as_array().unwrap();
    let named = format!("the boards of source 2 sent {garbage} B that belong to no frame");
    assert!(remarks.iter().any(|text| text.as_str().unwrap().contains(&named)), "{summary:#}");
    let log = system.log();
    for words in [
        "is connected to this source",
        "this source cannot use all that its board sent, and what is lost is in no event: ",
        "has closed its connection to this source, after 149 frames",
    ] {
        assert!(log.contains(words), "no `{words}` in\n{log}");
    }
}

#[test]
fn a_dead_board_looks_dead_and_one_that_is_reset_fills_no_event() {
    let mut boards = [1, 2].map(Board::new);
    let system = ready(&mut boards);
    let [one, two] = &mut boards;
    announce(&system, 1..=50);
    one.send_events(1..=100);
    two.send_events(1..=50);
    system::wait_for(system.path(), "complete", |status| status["survey"]["events"]["complete"] == 50);
    two.switch_off();
    let presence = |status: &Value| status["survey"]["sources"][1]["presence"].clone();
    system::wait_for(system.path(), "gone", |status| presence(status) == "no readout");
    announce(&system, 51..=60);
    two.switch_on();
    two.accept();
    two.send_events(61..=80);
    system::wait_for(system.path(), "back", |status| presence(status) == "up");
    announce(&system, 61..=80);
    system::wait_for(system.path(), "complete", |status| status["survey"]["events"]["complete"] == 70);
    // The board is reset: its counter begins again, and none of its frames has an event.
    two.send_events(1..=50);
    announce(&system, 81..=100);
    system::wait_for(system.path(), "unplaced", |status| {
        let unused = &status["survey"]["sources"][1]["live"]["unused"];
        unused["counter reset"].as_u64().unwrap_or(0) + unused["repeated"].as_u64().unwrap_or(0) == 50
    });
    settled(&system, 100);
    let summary = end(&system);
    assert_eq!(summary["events"]["complete"], 70, "{summary:#}\n{}", system.log());
    assert!(system.log().contains("is another client connected?"), "{}", system.log());
}

#[test]
fn a_capture_is_decoded_and_the_examples_are_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let sections = "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = { kind = \"periodic\", rate = \"1 kHz\" }\n\
                    [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    fs::write(path("evb.toml"), format!("{sections}{}", source(3, 24))).unwrap();
    let board = Board::new(3);
    let frames =
        |events: RangeInclusive<u64>| events.flat_map(|event| board.frame(event)).collect::<Vec<_>>();
    let good = frames(1..=40);
    let bad = [frames(1..=10), vec![0x55; 99], frames(15..=20)].concat();
    for (capture, code, words) in [
        (
            good,
            0,
            &[
                "frames    40, of 61 to",
                "counter   0 to 39; 0 values missing in 0 gaps",
                "not used  0 B in no frame",
            ][..],
        ),
        (
            bad,
            1,
            &["frames    15, of", "5 values missing in 1 gap", "1 resynchronisation (1 frame cut short"],
        ),
        (vec![], 1, &["frames    none"]),
    ] {
        fs::write(path("capture"), capture).unwrap();
        let (text, exit) =
            evbd(&["frames", "--source", "3", "--config"], &[&path("evb.toml"), &path("capture")]);
        assert_eq!(exit, Some(code), "{text}");
        for words in words.iter().chain(&["  M magic eb 90", "  N counter, 16 bits, big-endian"]) {
            assert!(text.contains(words), "no `{words}` in\n{text}");
        }
    }
    // Each example has the picture of its own layout as a comment.
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/boards");
    let paths = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path());
    let count = paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).map(|example| {
        let (text, exit) = evbd(&["check"], &[&example]);
        assert!(exit == Some(0) && !text.contains("warning:"), "{text}");
        let written = fs::read_to_string(&example).unwrap();
        let written = written
            .lines()
            .skip_while(|line| !line.starts_with("#   byte "))
            .map_while(|line| line.strip_prefix('#'));
        let drawn: Vec<&str> = written.map(str::trim).collect();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(
            drawn.len() > 2 && lines.windows(drawn.len()).any(|window| *window == drawn),
            "{drawn:#?}\n{text}"
        );
    });
    assert_eq!(count.count(), 4);
}

/// Runs a command of evbd; returns its output and its exit code.
pub(crate) fn evbd(words: &[&str], paths: &[&Path]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_evbd")).args(words).args(paths).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}
