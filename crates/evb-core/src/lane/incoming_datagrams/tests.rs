use super::*;
use crate::{
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, SourceId},
    index::SlotIndex,
    lane::round_trip::RoundTrip,
    wire::{
        datagram::{IPV6_UDP, MIN_MTU},
        record::{Announcement, COMMIT_RANGE, decode_range, next_record},
    },
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

fn datagrams() -> IncomingDatagrams {
    IncomingDatagrams::new(ASSOCIATION, None, Bytes::kib(64), at(0))
}

/// Returns a lane with 100 fragments of 84 bytes; with its header, each takes 100 bytes of the
/// lane. No bytes are granted.
fn lane() -> IncomingLane {
    let mut lane = IncomingLane::new(1000);
    lane.handle_connected();
    for event in 1..=100 {
        let announcement = Announcement {
            event: EventId::new(event),
            timestamp: Timestamp::new(event),
            length: 84,
            lost_packets: 0,
        };
        lane.push(announcement, Some(SlotIndex::new(event as usize)));
    }
    lane
}

fn from_source(kind: DatagramKind, sequence: u32, heard: u32) -> DatagramHeader {
    DatagramHeader { kind, request: 0, association: ASSOCIATION, sequence, heard, offset: 0 }
}

/// Records, each with its ranges.
type Said = Vec<(RecordHeader, Vec<Range<u64>>)>;

/// Makes the builder write a datagram. Returns the datagram's header and records.
fn write(datagrams: &mut IncomingDatagrams, lane: &mut IncomingLane, now: Instant) -> (DatagramHeader, Said) {
    let mut bytes = BytesMut::new();
    datagrams.write(lane, &mut Vec::new(), now, &mut bytes);
    assert!(bytes.len() <= MIN_MTU - IPV6_UDP, "{} bytes: not every path carries them", bytes.len());
    let (header, mut body) = DatagramHeader::open(&bytes).unwrap();
    assert_eq!((header.kind, header.association), (DatagramKind::Records, ASSOCIATION));
    let records = core::iter::from_fn(|| {
        let (record, items) = next_record(&mut body).unwrap()?;
        let ranges = items.as_chunks::<COMMIT_RANGE>().0.iter().map(|range| decode_range(range).unwrap());
        Some((record, ranges.collect()))
    });
    (header, records.collect())
}

fn commits(said: &Said) -> usize {
    said.iter().filter(|(record, _)| matches!(record, RecordHeader::Commit { .. })).count()
}

#[test]
fn a_request_is_never_called_0() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    datagrams.sequence = 0xfffe;
    let sequences = [0xffff, 0x1_0001, 0x1_0002];
    assert_eq!(sequences.map(|_| write(&mut datagrams, &mut lane, at(0)).0.sequence), sequences);
    datagrams.sequence = u32::MAX;
    assert_eq!(write(&mut datagrams, &mut lane, at(0)).0.sequence, 1, "the sequence wraps around");
}

#[test]
fn a_datagram_asks_for_as_many_ranges_as_it_holds() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    lane.grant(10_000);
    datagrams.recovery.permit(0..10_000, 1, at(0));
    // In every 200 bytes, the second hundred has arrived.
    for start in (100..10_000).step_by(200) {
        let header = from_source(DatagramKind::Data, 1, 0);
        datagrams.recovery.handle_arrival(&(start..start + 100), &header, true, at(10), |_, _| {});
    }
    datagrams.recovery.expire(0, datagrams.reassembly.here(), at(1000), |_, _| {});
    for number in 0..MAX_RESEND_RANGES as u64 {
        let lost = datagrams.lost().unwrap();
        assert_eq!((lost.start, lost.end, lost.request), (number * 200, number * 200 + 100, 1));
        datagrams.ask(lost.start..lost.end, at(1000));
    }
    assert_eq!(datagrams.lost(), None, "the datagram is full");
    let (header, said) = write(&mut datagrams, &mut lane, at(1000));
    let (resend, ranges) = said.last().unwrap();
    assert_eq!(*resend, RecordHeader::Resend { count: 32, request: 1 });
    assert_eq!(header.sequence, 1);
    assert_eq!((ranges.len(), ranges[31].clone()), (32, 6200..6300));
    let next = datagrams.lost().unwrap();
    assert_eq!((next.start, next.request), (6400, 2));
    let (_, said) = write(&mut datagrams, &mut lane, at(1001));
    assert!(said.iter().all(|(record, _)| !matches!(record, RecordHeader::Resend { .. })), "{said:?}");
}

#[test]
fn the_present_commit_is_said_until_it_was_heard() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    assert_eq!(commits(&write(&mut datagrams, &mut lane, at(0)).1), 1, "datagram 1 of a new connection");
    assert_eq!(commits(&write(&mut datagrams, &mut lane, at(1)).1), 1, "datagram 2 repeats it");
    lane.grant(100);
    lane.advance(100);
    lane.settle(0);
    let (_, said) = write(&mut datagrams, &mut lane, at(2));
    assert_eq!(said[2].0, RecordHeader::Commit { count: 0, offset: 100 });
    datagrams.handle_header(&from_source(DatagramKind::Data, 1, 2), 1, at(3));
    assert_eq!(commits(&write(&mut datagrams, &mut lane, at(3)).1), 1, "datagram 2 had an older commit");
    datagrams.handle_header(&from_source(DatagramKind::Data, 2, 3), 1, at(4));
    assert_eq!(commits(&write(&mut datagrams, &mut lane, at(4)).1), 0);
}

#[test]
fn a_full_datagram_goes_everywhere() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    lane.grant(10_000);
    (0..100).for_each(|_| lane.advance(100));
    // Every second fragment beyond the first uncommitted one is committed.
    (1..100).step_by(2).for_each(|fragment| lane.settle(fragment * 100));
    datagrams.asked = (0..MAX_RESEND_RANGES as u64).map(|number| number * 2..number * 2 + 1).collect();
    let (_, said) = write(&mut datagrams, &mut lane, at(0));
    let RecordHeader::Commit { count, offset: 0 } = said[2].0 else { panic!("{said:?}") };
    assert_eq!((usize::from(count), said[2].1[31].clone()), (COMMIT_RANGES, 6300..6400));
    assert_eq!(said[3].0, RecordHeader::Resend { count: 32, request: 1 });
}

#[test]
fn missing_announcements_are_said_once() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    datagrams.announcements_missing = true;
    let records = [0, 1].map(|micros| write(&mut datagrams, &mut lane, at(micros)).1[1].0);
    assert_eq!(
        records,
        [RecordHeader::Reannounce { offset: 10_000 }, RecordHeader::Announced { offset: 10_000 }]
    );
}

#[test]
fn what_was_not_heard_is_said_again_ever_more_rarely() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    assert_eq!(datagrams.next_timeout(), None);
    let mut now = at(0);
    for doubled in 0..3 {
        write(&mut datagrams, &mut lane, now);
        let due = now + RoundTrip::INITIAL * (1 << doubled) + ACKNOWLEDGE_WITHIN;
        assert_eq!(datagrams.next_timeout(), Some(due));
        assert!(!datagrams.is_repeat_due(Instant::from_nanos(due.as_nanos() - 1)));
        assert!(datagrams.is_repeat_due(due));
        now = due;
    }
    write(&mut datagrams, &mut lane, now);
    datagrams.handle_header(&from_source(DatagramKind::Records, 1, 3), 1, now);
    assert!(datagrams.next_timeout().is_some(), "datagram 4 is not acknowledged");
    datagrams.handle_header(&from_source(DatagramKind::Records, 2, 4), 1, now);
    assert_eq!(datagrams.next_timeout(), None);
    write(&mut datagrams, &mut lane, now);
    assert_eq!(datagrams.next_timeout(), Some(now + RoundTrip::INITIAL + ACKNOWLEDGE_WITHIN));
}

/// While a source searches for a packet size that fits the path, each size without an answer takes
/// time, which is long on paths with a long round trip. The builder must not treat this as silence.
#[test]
fn a_source_that_looks_for_a_path_is_not_silent() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    let second = 1_000_000;
    write(&mut datagrams, &mut lane, at(0));
    assert!(!datagrams.is_silent(at(60 * second)));
    datagrams.handle_header(&from_source(DatagramKind::Records, 1, 0), 1, at(60 * second));
    assert!(!datagrams.is_silent(at(64 * second)));
    assert!(datagrams.is_silent(at(65 * second)), "the source has a path, and acknowledges nothing");
}

#[test]
fn a_path_is_not_gone_because_the_last_datagram_is_always_under_way() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    let second = 1_000_000;
    // The builder sends a datagram every 10 ms, and the source acknowledges each after 300 ms.
    // After 12 s, the acknowledgements stop.
    for step in 1..=1650u32 {
        let now = at(u64::from(step) * 10_000);
        assert!(!datagrams.is_silent(now), "{now:?}");
        write(&mut datagrams, &mut lane, now);
        if (31..=1200).contains(&step) {
            datagrams.handle_header(&from_source(DatagramKind::Data, step - 30, step - 30), 1, now);
        }
    }
    assert!(datagrams.is_silent(at(17 * second)), "5 s after the last acknowledgement");
    // A duplicate of an old datagram acknowledges nothing new.
    datagrams.handle_header(&from_source(DatagramKind::Data, 1165, 1165), 1, at(17 * second));
    assert!(datagrams.is_silent(at(17 * second)));
    datagrams.handle_header(&from_source(DatagramKind::Data, 1171, 1171), 1, at(17 * second));
    assert!(!datagrams.is_silent(at(21 * second)));
    assert!(datagrams.is_silent(at(22 * second)));
}

#[test]
fn absent_is_what_has_not_come_yet() {
    let mut datagrams = datagrams();
    let mut come = |sequence| {
        datagrams.handle_header(&from_source(DatagramKind::Records, sequence, 0), 1, at(0));
        (datagrams.heard.absent(), datagrams.heard.newest())
    };
    assert_eq!([1, 4, 3, 6, 2].map(&mut come), [(0, 1), (2, 4), (1, 4), (2, 6), (1, 6)]);
    assert_eq!(datagrams.segments, 5);
}

#[test]
fn a_round_trip_ends_with_the_first_data_that_heard_of_the_permission() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    write(&mut datagrams, &mut lane, at(0));
    lane.grant(100);
    write(&mut datagrams, &mut lane, at(100));
    // None of these datagrams measures a round trip: the builder's datagram 1 permitted nothing,
    // the data in the source's datagram 2 acknowledges nothing, and datagram 3 had not been sent.
    let before = datagrams.recovery.timeout();
    datagrams.handle_header(&from_source(DatagramKind::Data, 1, 1), 1, at(150));
    datagrams.handle_header(&from_source(DatagramKind::Data, 2, 0), 1, at(160));
    assert_eq!((datagrams.recovery.timeout(), before), (RoundTrip::INITIAL, RoundTrip::INITIAL));
    datagrams.handle_header(&from_source(DatagramKind::Data, 3, 2), 1, at(1100));
    assert_eq!(datagrams.recovery.timeout(), Duration::from_millis(3), "1 ms + 4 · 0.5 ms");
    // A duplicate of a datagram does not measure a round trip.
    datagrams.handle_header(&from_source(DatagramKind::Data, 3, 2), 1, at(90_000));
    assert_eq!(datagrams.recovery.timeout(), Duration::from_millis(3));
    // Of two datagrams that are acknowledged together, only the later one is measured: it is
    // unknown how long the source waited before it acknowledged the earlier one.
    write(&mut datagrams, &mut lane, at(91_000));
    write(&mut datagrams, &mut lane, at(91_500));
    datagrams.handle_header(&from_source(DatagramKind::Data, 4, 4), 1, at(92_100));
    assert_eq!(datagrams.recovery.timeout(), Duration::from_micros(2850), "0.95 ms + 4 · 0.475 ms");
}

#[test]
fn only_the_latest_permissions_are_remembered() {
    let (mut datagrams, mut lane) = (datagrams(), lane());
    for grant in 1..=100 {
        lane.grant(100 * grant);
        write(&mut datagrams, &mut lane, at(grant));
        assert!(datagrams.permits.len() <= REMEMBERED);
    }
    assert_eq!(datagrams.permits.len(), REMEMBERED);
    assert_eq!(datagrams.permits.front().map(|permit| permit.0), Some(100 + 1 - REMEMBERED as u32));
}
