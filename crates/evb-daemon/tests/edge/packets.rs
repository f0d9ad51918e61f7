//! Boards that send the fragments of their events as packets over UDP: packets that are lost, come
//! in another order, twice or from another sender, and boards that begin again.

use std::{collections::BTreeMap, net::UdpSocket, thread, time::Duration};

use evb_file::{EventFile, files_at};
use serde_json::Value;

use crate::{
    board::Crate,
    boards::{announce, evbd, settled, stopped},
    system,
};

/// Payload bytes of a packet, and packets of a fragment.
const SIZE: usize = 100;
const PACKETS: u8 = 4;

/// A board that sends packets: counter, number of the packet, number of packets.
struct Board {
    socket: UdpSocket,
    port: u16,
}

impl Board {
    fn new(port: u16) -> Self {
        Self { socket: UdpSocket::bind("127.0.0.1:0").unwrap(), port }
    }

    fn send(&self, datagram: &[u8]) {
        self.socket.send_to(datagram, ("127.0.0.1", self.port)).unwrap();
    }

    /// Sends the packets of an event that `keeps` keeps, in the order of `places`.
    fn send_event(&self, event: u64, places: impl IntoIterator<Item = u8>) {
        let sent = payload(event);
        for place in places {
            let part = &sent[usize::from(place) * SIZE..][..SIZE];
            self.send(&[&[0xe7][..], &((event - 1) as u16).to_be_bytes(), &[place, PACKETS], part].concat());
        }
    }
}

/// Returns the payload of an event: each packet says event and place, and has no byte 0.
fn payload(event: u64) -> Vec<u8> {
    let part = |place: u8| (0..SIZE).map(move |at| 1 + ((event as usize * 31 + at * 7) % 199) as u8 + place);
    (0..PACKETS).flat_map(part).collect()
}

/// Returns the section of a source.
fn source(id: u16, port: u16, keys: &str) -> String {
    format!(
        "[[source]]\nid = {id}\nmax_fragment = \"8 KiB\"\ncounter = {{ bits = 16, first = 0 }}\n\
         input = {{ kind = \"udp\", listen = \"127.0.0.1:{port}\", frame = {{ magic = \"e7\", header = 5, \
         counter = {{ at = 1, bytes = 2 }} }}, packets = {{ number = {{ at = 3, bytes = 1 }}, \
         count = {{ at = 4, bytes = 1 }} }}{keys} }}\n"
    )
}

fn all() -> std::ops::Range<u8> {
    0..PACKETS
}

/// The fragments of a run by source: event, payload and number of lost packets.
fn fragments(system: &Crate) -> BTreeMap<u16, BTreeMap<u64, (Vec<u8>, u32)>> {
    let mut found = BTreeMap::<u16, BTreeMap<u64, (Vec<u8>, u32)>>::new();
    for path in files_at(&system.path().join("out")).unwrap() {
        for event in EventFile::open(path).unwrap().events().map(Result::unwrap) {
            for part in event.fragments() {
                let of = found.entry(part.source.number()).or_default();
                of.insert(event.id.number(), (part.payload.to_vec(), part.lost_packets));
            }
        }
    }
    found
}

fn of(summary: &Value, source: usize, key: &str) -> u64 {
    summary["sources"][source][key].as_u64().unwrap_or_else(|| panic!("no {key} in {summary:#}"))
}

#[test]
fn every_lost_packet_is_named_and_nothing_foreign_is_in_an_event() {
    const EVENTS: u64 = 200;
    let ports = [(); 4].map(|()| evb_needs::free_ports(1)[0]);
    let boards = ports.map(Board::new);
    let from = format!(", from = \"127.0.0.1:{}\"", boards[3].socket.local_addr().unwrap().port());
    let keys = ["", ", on_loss = \"fill\"", ", on_loss = \"keep-short\"", &from];
    let sections = (1..).zip(ports).zip(keys).map(|((id, port), keys)| source(id, port, keys));
    let system = Crate::start_with(&sections.collect::<String>());
    system::wait_for(system.path(), "ready", |status| status["ready"] == true);
    system.does(&["start"]);
    announce(&system, 1..=EVENTS);
    let stranger = Board::new(ports[3]);
    for event in 1..=EVENTS {
        for (number, board) in boards.iter().enumerate() {
            match (event % 10, number) {
                // A packet is lost at three boards; once it is the last one of the run.
                (0, 0..3) => board.send_event(event, all().filter(|place| *place != (event / 10 % 4) as u8)),
                (3, _) => board.send_event(event, all().rev()),
                (5, _) => board.send_event(event, [2, 0, 2, 1, 3, 0]),
                (6, _) => {
                    board.send(&[0x55; 60]);
                    board.send_event(event, all());
                }
                _ => board.send_event(event, all()),
            }
        }
        if event % 20 == 7 {
            stranger.send_event(event, all());
        }
        thread::sleep(Duration::from_millis(1));
    }
    settled(&system, EVENTS);
    let lossy = EVENTS / 10;
    let summary = stopped(&system);
    assert_eq!(summary["events"]["complete"], EVENTS - lossy, "{summary:#}\n{}", system.log());
    assert_eq!(summary["events"]["incomplete"], lossy);
    let causes = &summary["sources"][0]["missing_by_cause"];
    assert_eq!(causes["packets lost before the source"], lossy, "{summary:#}");
    for source in 0..4 {
        let lost = if source < 3 { lossy } else { 0 };
        assert_eq!(of(&summary, source, "lost_packets"), lost, "source {source}: {summary:#}");
        assert_eq!(of(&summary, source, "garbage_bytes"), 60 * EVENTS / 10, "source {source}: {summary:#}");
        assert_eq!(of(&summary, source, "unused_packets"), 2 * EVENTS / 10, "source {source}: {summary:#}");
    }
    // An event without source 1 is incomplete, so no complete event has a fragment with a gap.
    assert_eq!([1, 2].map(|source| of(&summary, source, "lossy")), [0, 0]);
    let found = fragments(&system);
    for event in 1..=EVENTS {
        let (sent, is_lossy) = (payload(event), event % 10 == 0);
        let gap = usize::from((event / 10 % 4) as u8) * SIZE;
        let whole = Some((sent.clone(), 0));
        let of = |source: u16| found[&source].get(&event).cloned();
        assert_eq!(of(1), whole.clone().filter(|_| !is_lossy), "event {event}");
        assert_eq!(of(4), whole, "event {event}");
        if is_lossy {
            let filled = [&sent[..gap], &[0; SIZE], &sent[gap + SIZE..]].concat();
            let short = [&sent[..gap], &sent[gap + SIZE..]].concat();
            assert_eq!((of(2), of(3)), (Some((filled, 1)), Some((short, 1))), "event {event}");
        } else {
            assert_eq!((of(2), of(3)), (whole.clone(), whole), "event {event}");
        }
    }
}

#[test]
fn complete_events_with_lost_packets_are_a_problem_wherever_they_are_counted() {
    let port = evb_needs::free_ports(1)[0];
    let board = Board::new(port);
    let system = Crate::start_with(&source(7, port, ", on_loss = \"fill\""));
    // What the board sent before the start is in no event, also a part of a fragment.
    system::wait_for(system.path(), "ready", |status| status["ready"] == true);
    (1..=20).for_each(|event| board.send_event(event, all()));
    board.send_event(21, [0, 1]);
    // Whether it is given up before the start or not makes no difference.
    thread::sleep(Duration::from_millis(200));
    system.does(&["start"]);
    announce(&system, 1..=30);
    (1..=28).for_each(|event| board.send_event(event, all().skip(usize::from(event % 7 == 0))));
    // The first packets of the last events: the rest never comes.
    board.send_event(29, [0]);
    board.send_event(30, [3, 0, 2]);
    settled(&system, 30);
    let summary = stopped(&system);
    let verdict = "30 of 30 assigned events complete (of these, 6 with lost packets of source 7)";
    assert!(summary["verdict"].as_str().unwrap().contains(verdict), "{summary:#}\n{}", system.log());
    assert_eq!((of(&summary, 0, "lossy"), of(&summary, 0, "lost_packets")), (6, 4 + 3 + 1));
    let problem = "6 fragments of source 7 in complete events lack packets (8 packets lost in all";
    let problems = summary["problems"].as_array().unwrap();
    assert!(problems.iter().any(|text| text.as_str().unwrap().contains(problem)), "{summary:#}");
    let (text, exit) = evbd(&["verify"], &[&system.path().join("out")]);
    assert!(text.contains("6  with a fragment that lacks packets, lost before evb: 6 of source 7"), "{text}");
    assert_eq!(exit, Some(0), "the files are intact: {text}");
    let (text, _) = evbd(&["dump", "--event", "14"], &[&system.path().join("out")]);
    assert!(text.contains("lost packets: 1"), "{text}");
}

#[test]
fn a_board_that_is_reset_or_restarts_fills_no_event_with_foreign_packets() {
    let port = evb_needs::free_ports(1)[0];
    let board = Board::new(port);
    let system = Crate::start_with(&source(7, port, ""));
    system::wait_for(system.path(), "ready", |status| status["ready"] == true);
    system.does(&["start"]);
    announce(&system, 1..=60);
    (1..=20).for_each(|event| board.send_event(event, all()));
    // It dies within a fragment, comes back with another port and an earlier counter, then goes on.
    board.send_event(21, [0, 1]);
    let again = Board::new(port);
    thread::sleep(Duration::from_millis(250));
    (1..=10).for_each(|event| again.send_event(event, all()));
    (22..=60).for_each(|event| again.send_event(event, all()));
    settled(&system, 60);
    let summary = stopped(&system);
    assert_eq!(summary["events"]["incomplete"], 1, "{summary:#}\n{}", system.log());
    assert_eq!(of(&summary, 0, "lost_packets"), 2, "{summary:#}");
    let unplaced = of(&summary, 0, "unplaced") + of(&summary, 0, "repeats");
    assert_eq!(unplaced + of(&summary, 0, "contradictions"), 10, "{summary:#}");
    for (event, (bytes, lost)) in &fragments(&system)[&7] {
        assert_eq!((bytes, *lost), (&payload(*event), 0), "event {event}");
    }
}
