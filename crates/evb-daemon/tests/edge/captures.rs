//! Sources that replay captures of boards, and the tool that decodes them.

use std::{fs, time::Duration};

use crate::{
    board::{Board, Crate, HEADER},
    boards::{announce, end, evbd, settled},
    system,
};

const EVENTS: u64 = 200;

/// Returns a pcap file (raw IP) with segments of a connection from a port, a millisecond apart.
fn capture(port: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 0xffff, 101]);
    for (number, (sequence, payload)) in (0..).zip(segments) {
        let flags = if payload.is_empty() { 2 } else { 0x10 };
        let length = (40 + payload.len()) as u16;
        let packet = [
            &[0x45, 0][..],
            &length.to_be_bytes(),
            &[0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1],
            &port.to_be_bytes(),
            &[0x13, 0x88],
            &sequence.to_be_bytes(),
            &[0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0],
            payload,
        ]
        .concat();
        let size = packet.len() as u32;
        file.extend(words(&[1_700_000_000, number * 1000, size, size]));
        file.extend(packet);
    }
    file
}

/// Returns the segments of a board that sends these events.
fn segments(stream: &[u8]) -> Vec<(u32, &[u8])> {
    let mut sequence = u32::MAX - 5000;
    let mut segments = vec![(sequence.wrapping_sub(1), &[][..])];
    for piece in stream.chunks(700) {
        segments.push((sequence, piece));
        sequence = sequence.wrapping_add(piece.len() as u32);
    }
    segments
}

fn source(id: u16, keys: &str) -> String {
    format!(
        "[[source]]\nid = {id}\nmax_fragment = \"8 KiB\"\ncounter = {{ bits = 16, first = 0 }}\n\
         clock = {{ rate = \"125 MHz\", bits = 48 }}\n\
         input = {{ kind = \"pcap\", {keys}, frame = {{ magic = \"eb90\", header = {HEADER}, \
         keep = \"payload\", length = {{ at = 2, bytes = 2, counts = \"payload\" }}, counter = {{ at = 4, bytes = 2 }}, \
         clock = {{ at = 6, bytes = 6 }} }} }}\n"
    )
}

/// Two boards are replayed: one of them with segments in another order and twice, the other with
/// one that was not captured. The frames of the gap are missing, and no event has a foreign byte.
#[test]
fn a_run_of_captures_is_that_of_the_boards() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let stream = |id: u16| (1..=EVENTS).flat_map(|event| Board::new(id).frame(event)).collect::<Vec<u8>>();
    let (one, two) = (stream(1), stream(2));
    let mut mixed = segments(&one);
    for place in (3..mixed.len() - 2).step_by(5) {
        mixed.swap(place, place + 1);
    }
    mixed.insert(20, mixed[10]);
    let mut lossy = segments(&two);
    lossy.remove(lossy.len() / 2);
    fs::write(path("1.pcap"), capture(24, &mixed)).unwrap();
    let (first, second) = lossy.split_at(9);
    fs::write(path("2a.pcap"), capture(25, first)).unwrap();
    fs::write(path("2b.pcap"), capture(25, second)).unwrap();
    let folder = dir.path().display();
    let sections = [
        source(1, &format!("path = \"{folder}/1.pcap\", speed = 2.0, from = \"127.0.0.1:24\"")),
        source(
            2,
            &format!("paths = [\"{folder}/2a.pcap\", \"{folder}/2b.pcap\"], speed = \"max\", to = \"5000\""),
        ),
    ];
    let system = Crate::start_with(&sections.concat());
    system::wait_for(system.path(), "ready", |status| status["ready"] == true);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!system.log().contains("is at its end"), "the run has not begun: {}", system.log());
    system.does(&["start"]);
    announce(&system, 1..=EVENTS);
    settled(&system, EVENTS);
    let summary = end(&system);
    let log = system.log();
    let complete = summary["events"]["complete"].as_u64().unwrap();
    assert!((EVENTS - 14..EVENTS - 1).contains(&complete), "{summary:#}\n{log}");
    for words in [
        &format!("the capture that this source replays is at its end: {EVENTS} frames in"),
        "0 B missing",
        "700 B missing",
        "the capture of this source lacks some of what the board sent, or has bytes that are no frame",
    ] {
        assert!(log.contains(words), "no `{words}` in\n{log}");
    }
    assert!(!log.contains("a problem in evb"), "{log}");
}

#[test]
fn the_tool_decodes_captures_and_names_the_flows() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let sections = "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = { kind = \"periodic\", rate = \"1 kHz\" }\n\
                    [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    fs::write(path("evb.toml"), format!("{sections}{}", crate::board::source(3, 24))).unwrap();
    let board = Board::new(3);
    let stream: Vec<u8> = (1..=40).flat_map(|event| board.frame(event)).collect();
    let all = segments(&stream);
    let lossy = [&all[..2], &all[3..]].concat();
    let cut = capture(24, &all);
    for (file, code, words) in [
        (
            capture(24, &all),
            0,
            vec![
                "frames    40, of 61 to".to_owned(),
                "counter   0 to 39; 0 values missing in 0 gaps".to_owned(),
                "0 B in no frame".to_owned(),
                format!("used      {} packets, TCP from 127.0.0.1:24 to 127.0.0.1:5000", all.len()),
                "in packet".to_owned(),
            ],
        ),
        (capture(24, &lossy), 1, vec!["700 B missing".to_owned(), " missing in 1 gap".to_owned()]),
        (
            capture(23, &all),
            1,
            vec![
                "frames    none".to_owned(),
                format!("not used  {} packets, TCP from 127.0.0.1:23 to 127.0.0.1:5000", all.len()),
                "no packet is used: the source takes those from 127.0.0.1:24 to any".to_owned(),
            ],
        ),
        (cut[..cut.len() - 9].to_vec(), 1, vec!["ends within the packet at byte".to_owned()]),
    ] {
        fs::write(path("capture"), file).unwrap();
        let (text, exit) =
            evbd(&["frames", "--source", "3", "--config"], &[&path("evb.toml"), &path("capture")]);
        assert_eq!(exit, Some(code), "{text}");
        for words in &words {
            assert!(text.contains(words), "no `{words}` in\n{text}");
        }
    }
    // The check finds a file that is no capture.
    fs::write(path("capture"), "text").unwrap();
    let keys = format!("path = \"{}\"", path("capture").display());
    fs::write(path("evb.toml"), format!("{sections}{}", source(1, &keys))).unwrap();
    let (text, exit) = evbd(&["check", "--here"], &[&path("evb.toml")]);
    assert_eq!(exit, Some(2), "{text}");
    assert!(text.contains("neither a pcap nor a pcapng file"), "{text}");
}
