use core::ops::Range;

use super::*;
use crate::{
    fragment::{Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, SourceId},
    index::LaneIndex,
    lane::{LaneError, Taken},
    source::{Output, SourceCoreConfig},
    units::Bytes,
    wire::{
        control::{Decisions, Message, RoleReport, SourceReport, Verdict},
        datagram::DatagramKind,
        record::{
            COMMIT_RANGE, MAX_RESEND_RANGES, RecordError, RecordHeader, encode_commit, encode_resend,
            next_record,
        },
    },
};

const BUILDER: BuilderId = BuilderId::new(4);
const ASSOCIATION: Association =
    Association { epoch: Epoch::new(7), source: SourceId::new(3), builder: BUILDER, connection: 0xabcd };

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

/// Returns a source with one lane of `fragments` announced fragments. Each fragment takes 100 bytes
/// of the lane.
fn source(fragments: u64) -> SourceCore {
    let config = SourceCoreConfig {
        id: SourceId::new(3),
        max_fragment: Bytes::new(1000),
        orphan_timeout: Duration::from_secs(5),
        heartbeat: Duration::from_secs(1),
        builders: vec![BUILDER],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::MAX,
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut source = SourceCore::new(config, at(0));
    let mut decisions = Decisions::starting(EventId::FIRST);
    decisions.extend(fragments as u32, Verdict::Assigned(BUILDER));
    source.handle_decisions(&decisions).unwrap();
    for event in 1..=fragments {
        let fragment = Fragment::new(EventId::new(event), Timestamp::new(event), vec![event as u8; 84]);
        source.push(fragment, at(0)).unwrap();
    }
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.associate(LaneIndex::new(0), ASSOCIATION, Some(Duration::from_millis(1)), 1472);
    while wants(&mut source, at(0)) {
        source.write_datagram(LaneIndex::new(0), at(0), &mut BytesMut::new());
    }
    source
}

/// Returns true if the source has records to send on its lane.
fn wants(source: &mut SourceCore, now: Instant) -> bool {
    let outputs = core::iter::from_fn(|| source.poll(now));
    outputs.filter(|output| matches!(output, Output::Announce(lane) if lane.get() == 0)).count() > 0
}

fn header(kind: DatagramKind, sequence: u32) -> DatagramHeader {
    DatagramHeader { kind, request: 0, association: ASSOCIATION, sequence, heard: 0, offset: 0 }
}

/// Delivers a datagram with records of the builder.
fn hear(source: &mut SourceCore, sequence: u32, body: &[u8]) -> Result<(), DatagramFault> {
    hear_at(at(10), source, sequence, body)
}

fn hear_at(now: Instant, source: &mut SourceCore, sequence: u32, body: &[u8]) -> Result<(), DatagramFault> {
    let header = header(DatagramKind::Records, sequence);
    source.handle_datagram(LaneIndex::new(0), &header, body, now)
}

fn grant(source: &mut SourceCore, sequence: u32, end: u64) {
    hear(source, sequence, &RecordHeader::Grant { end }.encode()).unwrap();
}

/// Delivers a request so late that all bytes may have been lost.
fn resend(source: &mut SourceCore, request: u16, ranges: &[Range<u64>]) -> Result<(), DatagramFault> {
    let mut body = BytesMut::new();
    encode_resend(request, ranges, &mut body);
    hear_at(at(50_000 * u64::from(request)), source, request.into(), &body)
}

/// Tests docs/reference/protocol.md RUN-38.
#[test]
fn the_worst_ten_paths_are_named_by_their_builders() {
    let builders: Vec<_> = (20..=40).rev().map(BuilderId::new).collect();
    let config = SourceCoreConfig { builders: builders.clone(), ..source(1).config().clone() };
    let source = SourceCore::new(config, at(0));
    let retransmits: Vec<u64> = builders.iter().map(|id| u64::from(id.number()) % 20).collect();
    let named: Vec<_> =
        source.worst_paths(&retransmits).iter().map(|path| (path.builder, path.tcp_retransmits)).collect();
    let expected: Vec<_> = (30..=39).rev().map(|id| (id, u64::from(id) % 20)).collect();
    assert_eq!(named, expected);
    assert_eq!(source.worst_paths(&[]), [], "no lane had to repeat anything");
}

fn report(source: &SourceCore) -> SourceReport {
    match source.report(0, None).message {
        Some(Message::Report(report)) => match report.report {
            Some(RoleReport::Source(report)) => report,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Takes all bytes that the source may send now, in the order of sending.
fn take_all(source: &mut SourceCore) -> Vec<(Range<u64>, Request)> {
    let taken = core::iter::from_fn(|| source.take(LaneIndex::new(0), u64::MAX));
    taken.map(|Taken { range, request }| (range, request)).collect()
}

#[test]
fn a_lane_with_a_grant_or_a_request_is_named_once() {
    let mut source = source(2);
    assert_eq!(source.take_permitted(), None, "announcements are no permission");
    grant(&mut source, 1, 200);
    assert_eq!((source.take_permitted(), source.take_permitted()), (Some(LaneIndex::new(0)), None));
    assert_eq!(take_all(&mut source), [(0..200, 0)]);
    resend(&mut source, 1, core::slice::from_ref(&(0..100))).unwrap();
    assert_eq!((source.take_permitted(), source.take_permitted()), (Some(LaneIndex::new(0)), None));
    // What a faulty datagram granted before its fault may be sent until the lane is closed.
    let body = [&RecordHeader::Grant { end: 200 }.encode()[..], &[0xff; 32]].concat();
    assert!(hear(&mut source, 3, &body).is_err() && source.take_permitted().is_some());
}

#[test]
fn datagrams_of_other_connections_are_stale() {
    let grant = RecordHeader::Grant { end: 100 }.encode();
    let others = [
        Association { epoch: Epoch::new(6), ..ASSOCIATION },
        Association { source: SourceId::new(2), ..ASSOCIATION },
        Association { builder: BuilderId::new(5), ..ASSOCIATION },
        Association { connection: 0xabcc, ..ASSOCIATION },
    ];
    let mut source = source(1);
    for association in others {
        let header = DatagramHeader { association, ..header(DatagramKind::Records, 1) };
        assert_eq!(
            source.handle_datagram(LaneIndex::new(0), &header, &grant, at(10)),
            Err(DatagramFault::Stale)
        );
    }
    assert_eq!(source.sendable(LaneIndex::new(0)), 0);
    source.handle_lane_disconnected(LaneIndex::new(0));
    assert_eq!(hear(&mut source, 1, &grant), Err(DatagramFault::Stale), "the lane has no connection");
    assert_eq!(source.association(LaneIndex::new(0)), None);
    assert!(source.sealing(LaneIndex::new(0), 0).is_none());
}

#[test]
fn a_builder_sends_neither_data_nor_probes_nor_announcements() {
    let mut source = source(1);
    let mut of_kind = |kind| source.handle_datagram(LaneIndex::new(0), &header(kind, 1), &[], at(10));
    assert_eq!(of_kind(DatagramKind::Data), Err(DatagramFault::WrongDirection));
    assert_eq!(of_kind(DatagramKind::Probe), Err(DatagramFault::WrongDirection));
    assert_eq!(of_kind(DatagramKind::ProbeReply), Ok(()), "the driver handles replies to probes");
    let mut announce = RecordHeader::Announce { count: 1, offset: 0 }.encode().to_vec();
    announce.extend([0; 24]);
    for body in [&announce[..], &RecordHeader::Data { length: 9, offset: 0 }.encode()] {
        assert_eq!(hear(&mut source, 1, body), Err(DatagramFault::WrongDirection));
    }
}

#[test]
fn records_that_are_none_end_the_connection() {
    let mut source = source(1);
    let mut body = BytesMut::new();
    encode_resend(1, &[0..50, 60..100], &mut body);
    for cut in 1..body.len() {
        let cut_off = DatagramFault::Record(RecordError::Truncated);
        assert_eq!(hear(&mut source, 1, &body[..cut]), Err(cut_off), "{cut}");
    }
    let mut backwards = BytesMut::new();
    encode_resend(1, core::slice::from_ref(&Range { start: 9, end: 9 }), &mut backwards);
    let range = DatagramFault::Record(RecordError::Range { start: 9, end: 9 });
    assert_eq!(hear(&mut source, 1, &backwards), Err(range));
    let unnumbered = RecordHeader::Resend { count: 1, request: 0 }.encode();
    let outcome = hear(&mut source, 1, &[&unnumbered[..], &[0; COMMIT_RANGE]].concat());
    assert!(matches!(outcome, Err(DatagramFault::Record(RecordError::Length { .. }))), "{outcome:?}");
}

#[test]
fn a_repeated_commit_lets_go_once() {
    let mut source = source(3);
    grant(&mut source, 1, 300);
    assert_eq!(take_all(&mut source), [(0..300, 0)]);
    let mut commit = BytesMut::new();
    encode_commit(100, core::slice::from_ref(&(200..300)), &mut commit);
    for sequence in [2, 3] {
        hear(&mut source, sequence, &commit).unwrap();
        assert_eq!(source.held_events(LaneIndex::new(0)).map(EventId::number).collect::<Vec<_>>(), [2]);
    }
    assert_eq!((report(&source).committed, source.uncommitted()), (2, 1));
    // This commit is older and covers fewer bytes, so it has no effect.
    let mut old = BytesMut::new();
    encode_commit(0, &[], &mut old);
    hear(&mut source, 2, &old).unwrap();
    assert_eq!(source.uncommitted(), 1);
    // A commit of bytes that were never sent is an error.
    let mut false_commit = BytesMut::new();
    encode_commit(301, &[], &mut false_commit);
    let outcome = hear(&mut source, 4, &false_commit);
    assert!(matches!(outcome, Err(DatagramFault::Lane(LaneError::Outside { .. }))), "{outcome:?}");
}

#[test]
fn what_was_asked_for_again_goes_first_under_its_number() {
    let mut source = source(4);
    grant(&mut source, 1, 300);
    assert_eq!(source.take(LaneIndex::new(0), 250), Some(Taken { range: 0..250, request: 0 }));
    resend(&mut source, 7, &[120..160, 10..30]).unwrap();
    assert_eq!(source.take(LaneIndex::new(0), 25), Some(Taken { range: 120..145, request: 7 }));
    assert_eq!(take_all(&mut source), [(145..160, 7), (10..30, 7), (250..300, 0)]);
    assert_eq!((report(&source).resends, report(&source).sent_bytes), (2, 360));
    let path = PathReport { builder: BUILDER.number().into(), tcp_retransmits: 9, resends: 2 };
    assert_eq!(source.worst_paths(&[9]), [path]);
}

#[test]
fn only_what_was_sent_and_is_not_committed_is_sent_again() {
    let mut source = source(4);
    grant(&mut source, 1, 350);
    assert_eq!(source.take(LaneIndex::new(0), 220), Some(Taken { range: 0..220, request: 0 }));
    let mut commit = BytesMut::new();
    encode_commit(100, &[], &mut commit);
    hear(&mut source, 2, &commit).unwrap();
    resend(&mut source, 3, core::slice::from_ref(&(50..350))).unwrap();
    assert_eq!(take_all(&mut source), [(100..220, 3), (220..350, 0)]);
    // The payload of a fragment that was committed out of order is gone; its neighbours are kept.
    let mut hole = BytesMut::new();
    encode_commit(100, core::slice::from_ref(&(100..200)), &mut hole);
    let before = source.uncommitted();
    hear(&mut source, 4, &hole).unwrap();
    assert_eq!(before - source.uncommitted(), 1);
    resend(&mut source, 5, core::slice::from_ref(&(100..300))).unwrap();
    assert_eq!(take_all(&mut source), [(200..300, 5)]);
    // Bytes beyond the grant cannot be requested.
    let outcome = resend(&mut source, 6, core::slice::from_ref(&(300..351)));
    assert!(matches!(outcome, Err(DatagramFault::Lane(LaneError::Outside { .. }))), "{outcome:?}");
}

#[test]
fn a_new_request_replaces_an_older_one_for_the_same_bytes() {
    let mut source = source(4);
    grant(&mut source, 1, 400);
    take_all(&mut source);
    resend(&mut source, 2, &[0..100, 200..300]).unwrap();
    resend(&mut source, 3, core::slice::from_ref(&(50..100))).unwrap();
    assert_eq!(take_all(&mut source), [(0..50, 2), (200..300, 2), (50..100, 3)]);
}

#[test]
fn what_is_still_on_its_way_is_not_sent_again() {
    let mut source = source(4);
    grant(&mut source, 1, 200);
    take_all(&mut source);
    hear_at(at(600), &mut source, 2, &RecordHeader::Grant { end: 400 }.encode()).unwrap();
    take_all(&mut source);
    // The round trip time is 1 ms. The first half of the bytes was sent long enough ago to be
    // missed, and the other half was not.
    let mut body = BytesMut::new();
    encode_resend(3, core::slice::from_ref(&(100..400)), &mut body);
    hear_at(at(1000), &mut source, 3, &body).unwrap();
    assert_eq!(take_all(&mut source), [(100..200, 3)]);
    hear_at(at(2000), &mut source, 4, &body).unwrap();
    assert_eq!(take_all(&mut source), [(100..400, 3)]);
}

#[test]
fn so_many_requests_wait_and_no_more() {
    let mut source = source(20);
    grant(&mut source, 1, 2000);
    take_all(&mut source);
    let single = |index: u64| index * 3..index * 3 + 1;
    for request in 0..5u16 {
        let first = u64::from(request) * MAX_RESEND_RANGES as u64;
        let ranges: Vec<_> = (first..first + MAX_RESEND_RANGES as u64).map(single).collect();
        resend(&mut source, request + 1, &ranges).unwrap();
    }
    let taken = take_all(&mut source);
    assert_eq!(taken.len(), 128);
    assert_eq!(taken.last(), Some(&(single(127), 4)));
}

#[test]
fn only_the_latest_datagram_says_which_announcements_are_missing() {
    let mut source = source(4);
    assert!(!wants(&mut source, at(10)));
    let missing = |offset| RecordHeader::Reannounce { offset }.encode();
    hear(&mut source, 5, &RecordHeader::Announced { offset: 200 }.encode()).unwrap();
    hear(&mut source, 4, &missing(100)).unwrap();
    source.write_datagram(LaneIndex::new(0), at(20), &mut BytesMut::new());
    assert_eq!(report(&source).announced, 4, "datagram 4 is older than datagram 5");
    hear(&mut source, 6, &missing(200)).unwrap();
    assert!(wants(&mut source, at(30)));
    let mut datagram = BytesMut::new();
    source.write_datagram(LaneIndex::new(0), at(30), &mut datagram);
    let (_, mut body) = DatagramHeader::open(&datagram).unwrap();
    let (record, _) = next_record(&mut body).unwrap().unwrap();
    assert_eq!(record, RecordHeader::Announce { count: 2, offset: 200 });
    let outcome = hear(&mut source, 7, &missing(500));
    assert!(matches!(outcome, Err(DatagramFault::Lane(LaneError::Outside { .. }))), "{outcome:?}");
}

#[test]
fn announcements_that_nobody_acknowledges_are_made_again() {
    let mut source = source(2);
    let due = source.next_timeout().unwrap();
    assert!(due < at(200_000), "{due:?}");
    source.handle_timeout(due);
    assert!(wants(&mut source, due));
    source.write_datagram(LaneIndex::new(0), due, &mut BytesMut::new());
    assert_eq!(report(&source).announced, 4, "two announcements, sent twice");
    hear(&mut source, 1, &RecordHeader::Announced { offset: 200 }.encode()).unwrap();
    source.write_datagram(LaneIndex::new(0), due, &mut BytesMut::new());
    assert!(source.next_timeout().unwrap() >= at(1_000_000), "only the heartbeat is due");
}
