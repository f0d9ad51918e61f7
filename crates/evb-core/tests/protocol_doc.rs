//! Tests of the examples in docs/reference/protocol.md: the encoders produce the bytes on that
//! page, and the decoders read them.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{collections::BTreeMap, path::Path};

use bytes::BytesMut;
use evb_core::wire::encoding::Encoding;
use evb_core::{
    fragment::{Checksum, Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, Peer, RunId, SourceId},
    lane::OutgoingLane,
    wire::{
        control::{
            Assignments, Completions, Control, Decisions, Exception, Hello, HelloReply, LaneState, Message,
            Outcome, Reason, Refusal, Reply, Verdict, Welcome,
        },
        preamble::{ConnectionKind, PREAMBLE_LENGTH, Spoken, check_preamble, preamble},
        record::{
            ANNOUNCEMENT, Announcement, COMMIT_RANGE, RECORD_HEADER, RecordHeader, decode_fragment_header,
            decode_range, encode_commit,
        },
    },
};

#[path = "protocol_doc/datagrams.rs"]
mod datagrams;

const RUN_ID: RunId = RunId::new(0x5eed_cafe_0000_0000_0000_0000_0000_0007);
const EPOCH: Epoch = Epoch::new(1_763_731_564_000_000);

/// Returns the code blocks of the page that begin with "```hex NAME", by their names. Text behind
/// `;` is a comment.
fn page() -> BTreeMap<String, Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/protocol.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut examples = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```hex ") else { continue };
        let block = lines.by_ref().take_while(|line| *line != "```");
        let words = block.flat_map(|line| line.split(';').next().unwrap().split_whitespace());
        let bytes = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        assert!(examples.insert(name.to_owned(), bytes).is_none(), "{name} stands there twice");
    }
    examples
}

fn hello() -> Hello {
    let (from, to) = (Peer::Source(SourceId::new(3)), Peer::Builder(BuilderId::new(1)));
    Hello { run_id: RUN_ID, ..Hello::new(from, to) }
}

fn welcome() -> HelloReply {
    let lane = Some(LaneState { received: 120, announced: 200, committed: 100 });
    let welcome = Welcome { epoch: EPOCH.number(), run_id: RUN_ID, lane, ..Welcome::default() };
    HelloReply { reply: Some(Reply::Welcome(welcome)) }
}

fn refusal() -> HelloReply {
    HelloReply { reply: Some(Reply::Refusal(Refusal::because(Reason::WrongId, "this is builder 2"))) }
}

fn decisions() -> Message {
    let mut decisions = Decisions::starting(EventId::new(41));
    decisions.extend(1, Verdict::Assigned(BuilderId::new(1)));
    decisions.extend(2, Verdict::Assigned(BuilderId::new(2)));
    decisions.extend(3, Verdict::Inhibited);
    Message::Decisions(decisions)
}

fn assignments() -> Message {
    let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
    let mut last = (EventId::new(0), 0);
    assignments.add(&mut last, EventId::new(42), 5_000_000);
    assignments.add(&mut last, EventId::new(43), 5_000_500);
    Message::Assignments(assignments)
}

fn completions() -> Message {
    let mut completions = Completions::default();
    let mut last = EventId::new(0);
    [43, 42].into_iter().for_each(|event| completions.add(&mut last, EventId::new(event)));
    let outcome = Outcome::Incomplete;
    let (missing, missing_causes) = (vec![3], vec![2]);
    completions.exceptions.push(Exception {
        event: 44,
        outcome,
        missing,
        missing_causes,
        ..Exception::default()
    });
    Message::Completions(completions)
}

fn opening(kind: ConnectionKind, message: &impl Encoding) -> Vec<u8> {
    let mut bytes = preamble(kind).to_vec();
    message.encode_framed(&mut bytes);
    bytes
}

fn framed(message: Message) -> Vec<u8> {
    let message = Control { message: Some(message) };
    let mut bytes = Vec::new();
    message.encode_framed(&mut bytes);
    bytes
}

/// Returns a lane with the fragments of the page: event 42 with the nine digits, and event 43 with
/// no bytes.
fn lane() -> OutgoingLane {
    let mut lane = OutgoingLane::default();
    lane.append(Fragment::new(EventId::new(42), Timestamp::new(0x0102), &b"123456789"[..]));
    lane.append(Fragment::new(EventId::new(43), Timestamp::new(0x0103), &b""[..]));
    lane
}

fn data() -> Vec<u8> {
    let mut lane = lane();
    lane.announce(&mut BytesMut::new());
    lane.handle_grant(41).unwrap();
    let range = lane.take(41).unwrap().range;
    let mut bytes = RecordHeader::Data { length: 41, offset: 0 }.encode().to_vec();
    let mut slices = Vec::with_capacity(8);
    assert_eq!(lane.gather(range, &mut slices), 41);
    slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
    bytes
}

fn encoded() -> BTreeMap<String, Vec<u8>> {
    let (mut announce, mut commit) = (BytesMut::new(), BytesMut::new());
    assert_eq!(lane().announce(&mut announce), 2);
    encode_commit(25, &[41..141, 300..400], &mut commit);
    let all = [
        ("hello", opening(ConnectionKind::Lane, &hello())),
        ("welcome", opening(ConnectionKind::Lane, &welcome())),
        ("refusal", opening(ConnectionKind::Lane, &refusal())),
        ("decisions", framed(decisions())),
        ("assignments", framed(assignments())),
        ("completions", framed(completions())),
        ("announce", announce.to_vec()),
        ("grant", RecordHeader::Grant { end: 41 }.encode().to_vec()),
        ("data", data()),
        ("commit", commit.to_vec()),
    ];
    all.into_iter().chain(datagrams::encoded()).map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

fn after_preamble(bytes: &[u8]) -> &[u8] {
    let (preamble, message) = bytes.split_first_chunk::<PREAMBLE_LENGTH>().unwrap();
    assert_eq!(check_preamble(*preamble, ConnectionKind::Lane), Ok(Spoken::Clear));
    unframed(message)
}

fn unframed(bytes: &[u8]) -> &[u8] {
    let (length, message) = bytes.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_le_bytes(*length) as usize, message.len());
    message
}

fn record(bytes: &[u8]) -> (RecordHeader, &[u8]) {
    let (header, body) = bytes.split_first_chunk::<RECORD_HEADER>().unwrap();
    let header = RecordHeader::decode(*header).unwrap();
    (header, body)
}

#[test]
fn the_encoders_make_what_the_page_shows() {
    let (page, encoded) = (page(), encoded());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
    for (name, bytes) in &encoded {
        let shown = page.get(name).map(|bytes| hex(bytes));
        assert_eq!(shown.as_deref(), Some(hex(bytes).as_str()), "{name}");
    }
    assert_eq!(page.len(), encoded.len(), "the page has examples that are not tested");
}

#[test]
fn handshakes_of_the_page_are_understood() {
    let page = page();
    let hello = Hello::decode(after_preamble(&page["hello"])).unwrap();
    assert_eq!(hello.from_peer(), Some(Peer::Source(SourceId::new(3))));
    assert_eq!(hello.to_peer(), Some(Peer::Builder(BuilderId::new(1))));
    assert_eq!(hello.known_run(), Some(RUN_ID));
    let Some(Reply::Welcome(welcome)) = HelloReply::decode(after_preamble(&page["welcome"])).unwrap().reply
    else {
        panic!("no welcome");
    };
    let held = welcome.checked_lane(RUN_ID).unwrap();
    assert_eq!((held.received, held.announced, held.committed), (120, 200, 100));
    let refused = HelloReply::decode(after_preamble(&page["refusal"])).unwrap();
    assert_eq!(refused, refusal());
}

#[test]
fn control_messages_of_the_page_are_understood() {
    let page = page();
    let message = |name: &str| Control::decode(unframed(&page[name])).unwrap().message.unwrap();
    let Message::Decisions(decisions) = message("decisions") else { panic!("no decisions") };
    let assigned = |builder| Verdict::Assigned(BuilderId::new(builder));
    let verdicts = [(41, 1, assigned(1)), (42, 2, assigned(2)), (44, 3, Verdict::Inhibited)];
    let verdicts = verdicts.map(|(first, count, verdict)| (EventId::new(first), count, verdict));
    assert_eq!(decisions.verdicts().unwrap(), verdicts);
    let Message::Assignments(assignments) = message("assignments") else { panic!("no assignments") };
    let events = [(EventId::new(42), 5_000_000), (EventId::new(43), 5_000_500)];
    assert_eq!((assignments.roster_version, assignments.events().unwrap().as_slice()), (1, &events[..]));
    let Message::Completions(completions) = message("completions") else { panic!("no completions") };
    assert_eq!(completions.events().map(EventId::number).collect::<Vec<_>>(), [43, 42]);
    assert_eq!(completions.exceptions[0].outcome, Outcome::Incomplete);
    assert_eq!(completions.exceptions[0].missing, [3]);
}

#[test]
fn lane_records_of_the_page_are_understood() {
    let page = page();
    let (header, body) = record(&page["announce"]);
    assert_eq!(header, RecordHeader::Announce { count: 2, offset: 0 });
    let announcements: Vec<_> = body.as_chunks::<ANNOUNCEMENT>().0.iter().map(Announcement::decode).collect();
    let announced = |event, timestamp, length| Announcement {
        event: EventId::new(event),
        timestamp: Timestamp::new(timestamp),
        length,
        lost_packets: 0,
    };
    assert_eq!(announcements, [announced(42, 0x0102, 9), announced(43, 0x0103, 0)]);
    assert_eq!(record(&page["grant"]), (RecordHeader::Grant { end: 41 }, &[][..]));
    let (header, body) = record(&page["data"]);
    assert_eq!(header, RecordHeader::Data { length: 41, offset: 0 });
    let (fragment, body) = body.split_first_chunk::<16>().unwrap();
    assert_eq!(decode_fragment_header(fragment), (EventId::new(42), Checksum::of(b"123456789")));
    assert_eq!(&body[..9], b"123456789");
    let next = body[9..].first_chunk::<16>().unwrap();
    assert_eq!(decode_fragment_header(next), (EventId::new(43), Checksum::of(b"")));
    let (header, body) = record(&page["commit"]);
    assert_eq!(header, RecordHeader::Commit { count: 2, offset: 25 });
    let ranges: Result<Vec<_>, _> = body.as_chunks::<COMMIT_RANGE>().0.iter().map(decode_range).collect();
    assert_eq!(ranges, Ok(vec![41..141, 300..400]));
}
