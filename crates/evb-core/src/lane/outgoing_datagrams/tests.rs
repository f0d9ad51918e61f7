use super::*;
use crate::{
    fragment::{Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, SourceId},
    wire::record::{RecordHeader, next_record},
};

const ASSOCIATION: Association = Association {
    epoch: Epoch::new(7),
    source: SourceId::new(3),
    builder: BuilderId::new(1),
    connection: 0xabcd,
};

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

/// Returns a lane of fragments that take `length` lane bytes each.
fn lane(fragments: u64, length: usize) -> OutgoingLane {
    let mut lane = OutgoingLane::default();
    append(&mut lane, fragments, length);
    lane
}

fn append(lane: &mut OutgoingLane, fragments: u64, length: usize) {
    for event in 1..=fragments {
        lane.append(Fragment::new(EventId::new(event), Timestamp::new(event), vec![7; length - 16]));
    }
}

fn announcing() -> Announcing {
    Announcing::new(ASSOCIATION.source, Duration::MAX, Duration::ZERO)
}

fn datagrams(datagram: usize) -> OutgoingDatagrams {
    OutgoingDatagrams::new(ASSOCIATION, None, datagram, 0, announcing())
}

fn from_builder(sequence: u32) -> DatagramHeader {
    let kind = DatagramKind::Records;
    DatagramHeader { kind, request: 0, association: ASSOCIATION, sequence, heard: 0, offset: 0 }
}

fn write(
    datagrams: &mut OutgoingDatagrams,
    lane: &mut OutgoingLane,
    now: Instant,
) -> (DatagramHeader, Option<RecordHeader>, usize) {
    let mut bytes = BytesMut::new();
    datagrams.write(lane, now, &mut bytes);
    let (header, mut body) = DatagramHeader::open(&bytes).unwrap();
    let record = next_record(&mut body).unwrap().map(|(record, _)| record);
    assert!(body.is_empty(), "there is at most one record");
    (header, record, bytes.len())
}

#[test]
fn what_was_heard_is_said_within_ten_milliseconds() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(0, 16));
    assert!(datagrams.is_due(&lane, at(0)), "the builder needs the source's address");
    write(&mut datagrams, &mut lane, at(0));
    assert!(!datagrams.is_due(&lane, at(0)));
    datagrams.handle_header(&from_builder(5), at(0));
    assert_eq!(datagrams.next_timeout(), Some(at(10_000)));
    // A later datagram does not extend the time limit of the acknowledgement.
    datagrams.handle_header(&from_builder(6), at(900));
    assert!(!datagrams.is_due(&lane, at(9999)) && datagrams.is_due(&lane, at(10_000)));
    let (header, record, length) = write(&mut datagrams, &mut lane, at(10_000));
    assert_eq!((header.sequence, header.heard, record, length), (2, 6, None, DATAGRAM_HEADER));
    assert_eq!(datagrams.next_timeout(), None);
}

/// The builder knows all announcements from an earlier connection, and the first datagram of this
/// one is lost.
#[test]
fn the_first_datagram_is_repeated_until_the_builder_answers() {
    let mut lane = lane(3, 100);
    lane.announce(&mut BytesMut::new());
    let mut datagrams = OutgoingDatagrams::new(ASSOCIATION, None, 1472, lane.announced(), announcing());
    let mut now = at(0);
    for sequence in 1..4 {
        assert!(datagrams.is_due(&lane, now));
        assert_eq!(write(&mut datagrams, &mut lane, now).0.sequence, sequence);
        now = datagrams.next_timeout().expect("the first datagram has no answer");
    }
    assert!(now < at(500_000) && !datagrams.is_silent(now));
    assert!(datagrams.is_silent(at(0) + SILENCE), "the path is gone");
    datagrams.handle_header(&from_builder(1), now);
    datagrams.handle_announced(lane.announced(), &lane, now);
    assert_eq!(datagrams.next_timeout(), Some(now + ACKNOWLEDGE_WITHIN));
    write(&mut datagrams, &mut lane, now + ACKNOWLEDGE_WITHIN);
    assert_eq!(datagrams.next_timeout(), None);
    assert!(!datagrams.is_silent(now + SILENCE));
}

#[test]
fn a_request_is_heard_when_its_bytes_are_handed_out() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(3, 100));
    lane.announce(&mut BytesMut::new());
    lane.handle_grant(300).unwrap();
    lane.take(300).unwrap();
    datagrams.handle_header(&from_builder(1), at(0));
    assert_eq!(datagrams.sealing(DatagramKind::Data, 0, &lane).header(0, 0).heard, 1);
    datagrams.handle_header(&from_builder(2), at(10));
    lane.handle_resend(50..250, u64::MAX, 2).unwrap();
    assert_eq!(write(&mut datagrams, &mut lane, at(20)).0.heard, 1);
    let taken = lane.take(100).unwrap();
    assert_eq!(datagrams.sealing(DatagramKind::Data, taken.request, &lane).header(0, 50).heard, 1);
    let taken = lane.take(100).unwrap();
    let header = datagrams.sealing(DatagramKind::Data, taken.request, &lane).header(0, 150);
    assert_eq!((header.heard, header.request), (2, 2));
}

#[test]
fn an_old_datagram_does_not_take_back_what_was_heard() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(0, 16));
    assert!(datagrams.handle_header(&from_builder(9), at(0)));
    assert!(!datagrams.handle_header(&from_builder(4), at(0)), "datagram 4 is older");
    assert!(!datagrams.handle_header(&from_builder(9), at(0)), "datagram 9 came before");
    assert_eq!(write(&mut datagrams, &mut lane, at(0)).0.heard, 9);
}

#[test]
fn only_what_was_sent_is_counted() {
    let (mut datagrams, lane) = (datagrams(1472), lane(0, 16));
    let sealing = datagrams.sealing(DatagramKind::Data, 0, &lane);
    assert_eq!([0, 1, 2].map(|index| sealing.header(index, 0).sequence), [1, 2, 3]);
    // The socket accepted the first two datagrams, so the third number is used again.
    datagrams.advance(2);
    assert_eq!(datagrams.sealing(DatagramKind::Data, 0, &lane).header(0, 0).sequence, 3);
}

#[test]
fn where_the_builder_has_enough_one_batch_is_under_way() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(1, crate::lane::announcing::ENOUGH as usize));
    write(&mut datagrams, &mut lane, at(0));
    append(&mut lane, datagrams.batch as u64, 16);
    assert!(!datagrams.is_due(&lane, at(1000)), "the first batch is not acknowledged");
    let repeat_at = datagrams.next_timeout().unwrap();
    assert!(repeat_at > at(1000), "no wake-up before the repetition");
    // The datagram was lost, and the source repeats it together with the announcements behind it.
    assert!(datagrams.is_repeat_due(repeat_at));
    lane.reannounce(0).unwrap();
    assert!(datagrams.is_due(&lane, repeat_at));
    write(&mut datagrams, &mut lane, repeat_at);
    assert!(!datagrams.is_due(&lane, repeat_at), "it is not acknowledged either");
    datagrams.handle_announced(lane.announced(), &lane, repeat_at);
    assert!(datagrams.is_due(&lane, repeat_at), "the delay of the rest has ended");
}

/// Each acknowledgement releases one batch of repeated announcements at once, without a timer.
#[test]
fn what_was_lost_of_many_announcements_goes_again_as_answers_come() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(0, 16));
    append(&mut lane, 5 * datagrams.batch as u64, 600);
    while lane.has_announcements() {
        write(&mut datagrams, &mut lane, at(0));
    }
    let lost = datagrams.next_timeout().unwrap();
    assert!(datagrams.is_repeat_due(lost));
    lane.reannounce(0).unwrap();
    let mut batches = 0;
    while lane.announced_next() < lane.announced() {
        assert!(datagrams.is_due(&lane, lost), "batch {batches} is answered");
        write(&mut datagrams, &mut lane, lost);
        assert!(!datagrams.is_due(&lane, lost), "one batch at a time");
        datagrams.handle_announced(lane.announced_next(), &lane, lost);
        batches += 1;
    }
    assert_eq!(batches, 5);
    assert_eq!(datagrams.failures, 1, "answers to repetitions measure no round trip");
}

/// The source had already begun to repeat its announcements when the answer to the first
/// transmission arrived.
#[test]
fn what_the_builder_has_acknowledged_is_not_waited_for_once_more() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(2, 100));
    write(&mut datagrams, &mut lane, at(0));
    let due = datagrams.next_timeout().unwrap();
    assert!(datagrams.is_repeat_due(due));
    lane.reannounce(0).unwrap();
    datagrams.handle_announced(200, &lane, due);
    write(&mut datagrams, &mut lane, due);
    assert!(datagrams.next_timeout().is_some(), "the repetition awaits an answer");
    datagrams.handle_announced(200, &lane, due);
    assert_eq!(datagrams.repeat_at, None);
    assert!(!datagrams.is_silent(due + 2 * SILENCE));
}

#[test]
fn an_answer_after_a_gap_is_no_round_trip() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(2, 100));
    write(&mut datagrams, &mut lane, at(0));
    datagrams.handle_missing();
    lane.reannounce(0).unwrap();
    write(&mut datagrams, &mut lane, at(90));
    datagrams.handle_announced(200, &lane, at(100));
    assert_eq!(datagrams.round_trip.least(), RoundTrip::new(None).least());
}

#[test]
fn announcements_fill_a_datagram_and_no_more() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(100, 20));
    let (_, record, length) = write(&mut datagrams, &mut lane, at(0));
    assert_eq!((record, length), (Some(RecordHeader::Announce { count: 59, offset: 0 }), 40 + 16 + 59 * 24));
    let (_, record, _) = write(&mut datagrams, &mut lane, at(0));
    assert_eq!(record, Some(RecordHeader::Announce { count: 41, offset: 59 * 20 }));
}

#[test]
fn announcements_are_repeated_until_the_builder_knows_them() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(2, 100));
    write(&mut datagrams, &mut lane, at(0));
    let due = at(0) + RoundTrip::INITIAL + ANSWER_WITHIN;
    assert_eq!(datagrams.next_timeout(), Some(due));
    assert!(!datagrams.is_repeat_due(at(50_000)) && datagrams.is_repeat_due(due));
    // The driver repeats the announcement. The time until the next repetition is twice as long.
    lane.reannounce(datagrams.acknowledged).unwrap();
    let (_, record, _) = write(&mut datagrams, &mut lane, due);
    assert_eq!(record, Some(RecordHeader::Announce { count: 2, offset: 0 }));
    assert_eq!(datagrams.next_timeout(), Some(due + RoundTrip::INITIAL * 2 + ANSWER_WITHIN));
    // The builder knows the first announcement, and the time for the other one begins again.
    datagrams.handle_announced(100, &lane, due);
    assert_eq!(datagrams.next_timeout(), Some(due + RoundTrip::INITIAL * 2 + ANSWER_WITHIN));
    datagrams.handle_announced(200, &lane, due);
    assert_eq!((datagrams.repeat_at, datagrams.acknowledged), (None, 200));
    // A late answer with a lower offset has no effect.
    datagrams.handle_announced(100, &lane, due);
    assert_eq!((datagrams.repeat_at, datagrams.acknowledged), (None, 200));
}

#[test]
fn the_answer_to_an_announcement_is_a_round_trip() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(1, 100));
    write(&mut datagrams, &mut lane, at(0));
    datagrams.handle_announced(100, &lane, at(40_000));
    append(&mut lane, 1, 100);
    write(&mut datagrams, &mut lane, at(50_000));
    let patience = Duration::from_millis(120) + ANSWER_WITHIN;
    assert_eq!(datagrams.next_timeout(), Some(at(50_000) + patience), "40 ms + 4 · 20 ms");
}

/// If answers to repetitions were measured, the next announcements would be repeated too soon, and
/// fill a full port even more.
#[test]
fn the_answer_to_a_repetition_is_none() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(1, 100));
    write(&mut datagrams, &mut lane, at(0));
    let due = datagrams.next_timeout().unwrap();
    assert!(datagrams.is_repeat_due(due));
    lane.reannounce(0).unwrap();
    write(&mut datagrams, &mut lane, due);
    // The late answer to the first transmission arrives.
    datagrams.handle_announced(100, &lane, due + Duration::from_micros(10));
    append(&mut lane, 1, 100);
    write(&mut datagrams, &mut lane, at(200_000));
    let patience = RoundTrip::INITIAL * 2 + ANSWER_WITHIN;
    assert_eq!(datagrams.next_timeout(), Some(at(200_000) + patience), "the timer is still doubled");
    datagrams.handle_announced(200, &lane, at(320_000));
    append(&mut lane, 1, 100);
    write(&mut datagrams, &mut lane, at(400_000));
    let patience = Duration::from_millis(360) + ANSWER_WITHIN;
    assert_eq!(datagrams.next_timeout(), Some(at(400_000) + patience), "120 ms + 4 · 60 ms");
}

/// A permission was lost, and the builder requests its bytes before the source has ever sent them.
/// If the source acknowledged the request before it sends the bytes, the builder would declare them
/// lost.
#[test]
fn records_do_not_hear_of_a_request_before_it_is_answered() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(2, 1000));
    write(&mut datagrams, &mut lane, at(0));
    lane.handle_grant(2000).unwrap();
    datagrams.handle_header(&from_builder(7), at(10));
    lane.handle_resend(0..2000, u64::MAX, 7).unwrap();
    let heard = |datagrams: &mut OutgoingDatagrams, lane: &OutgoingLane, kind| {
        datagrams.sealing(kind, 0, lane).header(0, 0).heard
    };
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Records), 0);
    lane.take(1000).unwrap();
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Data), 7, "first transmissions answer the request");
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Records), 0, "half of the answer is missing");
    lane.take(1000).unwrap();
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Records), 7);
}

/// The datagram with a request may have been lost while a later datagram grants the same bytes. So
/// bytes that are sent again acknowledge the grant only when all granted bytes are sent.
#[test]
fn what_is_sent_again_does_not_hear_of_what_waits_to_be_sent_for_the_first_time() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(3, 1000));
    write(&mut datagrams, &mut lane, at(0));
    lane.handle_grant(1000).unwrap();
    datagrams.handle_header(&from_builder(7), at(10));
    lane.take(1000).unwrap();
    let heard = |datagrams: &mut OutgoingDatagrams, lane: &OutgoingLane, kind, request| {
        datagrams.sealing(kind, request, lane).header(0, 0).heard
    };
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Data, 7), 7);
    lane.handle_grant(3000).unwrap();
    datagrams.handle_header(&from_builder(9), at(20));
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Data, 8), 7, "it answers another request");
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Records, 0), 7);
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Data, 0), 9);
    lane.take(1000).unwrap();
    datagrams.handle_header(&from_builder(10), at(30));
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Records, 0), 7);
    lane.take(1000).unwrap();
    assert_eq!(heard(&mut datagrams, &lane, DatagramKind::Records, 0), 10);
}

#[test]
fn what_left_within_a_flight_cannot_be_missed() {
    let mut datagrams =
        OutgoingDatagrams::new(ASSOCIATION, Some(Duration::from_millis(1)), 1472, 0, announcing());
    datagrams.note_sent(100, at(0));
    datagrams.note_sent(300, at(700));
    let known = [700, 749, 750, 1449, 1450].map(|micros| datagrams.can_be_missed(at(micros)));
    assert_eq!(known, [100, 100, 300, 300, u64::MAX]);
    (0..1000).for_each(|sent| datagrams.note_sent(sent, at(2000)));
    assert_eq!((datagrams.sent.len(), datagrams.can_be_missed(at(2000))), (REMEMBERED, 936));
}

/// The simulator found a source that repeated bytes after a millisecond, on a lane that had come
/// back and whose round trip of 40 ms was not measured yet.
#[test]
fn on_a_path_of_unknown_length_what_left_just_now_cannot_be_missed() {
    let mut datagrams = OutgoingDatagrams::new(ASSOCIATION, None, 1472, 0, announcing());
    datagrams.note_sent(100, at(0));
    let known = [1000, 74_999, 75_000].map(|micros| datagrams.can_be_missed(at(micros)));
    assert_eq!(known, [100, 100, u64::MAX]);
    datagrams.round_trip.sample(Duration::from_millis(40));
    let known = [29_999, 30_000].map(|micros| datagrams.can_be_missed(at(micros)));
    assert_eq!(known, [100, u64::MAX]);
}

/// The builder commits bytes while their announcement waits to be repeated. The simulator found a
/// double count in this case.
#[test]
fn what_is_committed_while_it_waits_to_be_announced_again_is_not_counted_twice() {
    let (mut datagrams, mut lane) = (datagrams(1472), lane(8, 100));
    write(&mut datagrams, &mut lane, at(0));
    lane.handle_grant(500).unwrap();
    while lane.take(u64::MAX).is_some() {}
    lane.reannounce(0).unwrap();
    lane.handle_commit(500, &[]).unwrap();
    append(&mut lane, 2, 100);
    let (_, record, _) = write(&mut datagrams, &mut lane, at(1));
    assert_eq!(record, Some(RecordHeader::Announce { count: 5, offset: 500 }));
    assert_eq!((lane.announced(), lane.unannounced()), (1000, 0));
    lane.check_announced(1000).unwrap();
}
