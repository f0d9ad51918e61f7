//! Tests of a builder whose lane uses datagrams.

use core::{ops::Range, time::Duration};

use bytes::BytesMut;

use crate::{
    builder::{BuilderCore, BuilderCoreConfig, Output},
    event::Event,
    fragment::{Checksum, Timestamp},
    grant::{Fate, Grant, GrantCounters, GrantPolicy, LaneDemand},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::{DatagramFault, LaneError, RecoveryCounters, Request},
    set::SourceSet,
    time::Instant,
    units::Bytes,
    wire::{
        control::{Accounted, Assignments},
        datagram::{Association, DatagramHeader, DatagramKind},
        record::{
            Announcement, COMMIT_RANGE, MAX_ANNOUNCEMENTS, RecordError, RecordHeader, decode_range,
            encode_fragment_header, next_record,
        },
    },
};

const BUILDER: BuilderId = BuilderId::new(1);
const ASSOCIATION: Association =
    Association { epoch: Epoch::new(7), source: SourceId::new(3), builder: BUILDER, connection: 0xabcd };
const WINDOW: Bytes = Bytes::new(2000);

/// A policy that grants everything at once, and records the end of each transmission.
#[derive(Debug, Default)]
struct GrantAll {
    counters: GrantCounters,
    ended: Vec<(Range<u64>, Request, Fate)>,
}

impl GrantPolicy for GrantAll {
    fn poll(&mut self, lanes: &[LaneDemand], _now: Instant) -> Option<Grant> {
        let demand = lanes[0];
        if !demand.connected {
            return None;
        }
        if let Some(lost) = demand.lost {
            return Some(Grant {
                lane: LaneIndex::new(0),
                start: lost.start,
                end: lost.end,
                request: lost.request,
            });
        }
        let new = Grant { lane: LaneIndex::new(0), start: demand.granted, end: demand.ready, request: 0 };
        (new.start < new.end).then_some(new)
    }

    fn handle_accounted(
        &mut self,
        _: LaneIndex,
        range: Range<u64>,
        request: Request,
        fate: Fate,
        _: Instant,
    ) {
        self.ended.push((range, request, fate));
    }

    fn handle_received(&mut self, _lane: LaneIndex, _received: u64, _now: Instant) {}
    fn handle_reset(&mut self, _lane: LaneIndex, _received: u64, _now: Instant) {}
    fn handle_gone(&mut self, _lane: LaneIndex, _now: Instant) {}
    fn handle_timeout(&mut self, _now: Instant) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn outstanding(&self) -> Bytes {
        Bytes::ZERO
    }

    fn counters(&self) -> &GrantCounters {
        &self.counters
    }
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

/// A builder with one source, and all bytes that the source has put on its lane.
struct Bench {
    core: BuilderCore<GrantAll>,
    lane: Vec<u8>,
    /// Sequence number of the source's next datagram.
    sequence: u32,
    events: Vec<Event>,
}

/// Records in a datagram of the builder.
type Said = Vec<(RecordHeader, Vec<Range<u64>>)>;

impl Bench {
    fn new() -> Self {
        let config = BuilderCoreConfig {
            run_id: RunId::new(1),
            id: BUILDER,
            run: RunNumber::new(1),
            epoch: Epoch::new(7),
            slots: 8,
            deadline: Duration::from_secs(100),
            heartbeat: Duration::from_secs(100),
            shared_clock: true,
            lease: Duration::ZERO,
            sources: vec![SourceId::new(3)],
            max_fragment: vec![Bytes::kib(64)],
            queue_delay: Duration::ZERO,
            report_period: Duration::ZERO,
        };
        let mut core = BuilderCore::new(config, GrantAll::default(), at(0));
        core.handle_roster(1, SourceSet::first(1), SourceSet::default(), at(0));
        core.handle_lane_connected(LaneIndex::new(0), at(0));
        core.associate(LaneIndex::new(0), ASSOCIATION, None, WINDOW, at(0));
        Self { core, lane: Vec::new(), sequence: 0, events: Vec::new() }
    }

    /// Returns a lane with one announced fragment for each length. The fragments' events are
    /// assigned, and their bytes are granted as far as possible.
    fn announced(lengths: &[usize]) -> Self {
        let mut bench = Self::new();
        let body = bench.append(1, lengths);
        bench.records(&body, at(0)).unwrap();
        bench.say(at(0));
        bench
    }

    /// Adds fragments to the lane and assigns their events. Returns the ANNOUNCE record.
    fn append(&mut self, first: u64, lengths: &[usize]) -> Vec<u8> {
        let (count, offset) = (lengths.len() as u16, self.lane.len() as u64);
        let mut body = BytesMut::from(&RecordHeader::Announce { count, offset }.encode()[..]);
        for (event, length) in (first..).zip(lengths) {
            let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
            assignments.add(&mut (EventId::default(), 0), EventId::new(event), at(0).as_nanos());
            self.core.handle_assignments(&assignments, at(0)).unwrap();
            announcement(event, *length).encode(&mut body);
            let payload = payload(event, *length);
            let header = encode_fragment_header(EventId::new(event), Checksum::of(&payload));
            self.lane.extend_from_slice(&header);
            self.lane.extend_from_slice(&payload);
        }
        body.to_vec()
    }

    fn records(&mut self, body: &[u8], now: Instant) -> Result<(), DatagramFault> {
        self.sequence += 1;
        let header = header(DatagramKind::Records, self.sequence);
        self.core.handle_datagram(LaneIndex::new(0), &header, body, now)
    }

    /// Delivers bytes of the source's lane in a datagram that answers `request`.
    fn segment(&mut self, range: Range<usize>, request: Request, now: Instant) -> Result<(), DatagramFault> {
        self.sequence += 1;
        let offset = range.start as u64;
        let header = DatagramHeader { request, offset, ..header(DatagramKind::Data, self.sequence) };
        self.core.handle_datagram(LaneIndex::new(0), &header, &self.lane[range], now)
    }

    /// Advances the time to `now`. Returns all datagrams that the builder sends then.
    fn say(&mut self, now: Instant) -> Vec<Said> {
        let mut all = Vec::new();
        self.core.handle_timeout(now);
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Event(event) => self.events.push(event),
                Output::Supervisor(control) => {
                    if let Some(accounted) = Accounted::of(&control) {
                        self.core.handle_accounted(&accounted).unwrap();
                    }
                }
                Output::Lane(lane) => {
                    let mut datagram = BytesMut::new();
                    self.core.write_datagram(lane, now, &mut datagram);
                    let (_, mut body) = DatagramHeader::open(&datagram).unwrap();
                    let records = core::iter::from_fn(|| {
                        let (record, items) = next_record(&mut body).unwrap()?;
                        let ranges = items.as_chunks::<COMMIT_RANGE>().0.iter();
                        Some((record, ranges.map(|range| decode_range(range).unwrap()).collect()))
                    });
                    all.push(records.collect());
                }
            }
        }
        all
    }

    /// Returns the built events; all of them must be complete.
    fn built(&self) -> Vec<u64> {
        assert!(self.events.iter().all(Event::is_complete), "a fragment is damaged");
        self.events.iter().map(|event| event.id.number()).collect()
    }

    fn ended(&self) -> &[(Range<u64>, Request, Fate)] {
        &self.core.policy().ended
    }

    fn counters(&self) -> RecoveryCounters {
        self.core.datagram_counters(LaneIndex::new(0)).recovery
    }
}

fn payload(event: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| ((event * 31 + index * 7) % 251) as u8).collect()
}

fn announcement(event: u64, length: usize) -> Announcement {
    Announcement {
        event: EventId::new(event),
        timestamp: Timestamp::new(event),
        length: length as u32,
        lost_packets: 0,
    }
}

fn header(kind: DatagramKind, sequence: u32) -> DatagramHeader {
    DatagramHeader { kind, request: 0, association: ASSOCIATION, sequence, heard: 0, offset: 0 }
}

fn resends(said: &[Said]) -> Vec<(u16, Vec<Range<u64>>)> {
    let records = said.iter().flatten();
    let requests = records.filter_map(|(record, ranges)| match record {
        RecordHeader::Resend { request, .. } => Some((*request, ranges.clone())),
        _ => None,
    });
    requests.collect()
}

fn granted(said: &[Said]) -> Vec<u64> {
    let ends = said.iter().flatten().filter_map(|(record, _)| match record {
        RecordHeader::Grant { end } => Some(*end),
        _ => None,
    });
    ends.collect()
}

#[test]
fn datagrams_of_other_connections_are_stale() {
    let mut bench = Bench::announced(&[84]);
    let before = bench.core.datagram_counters(LaneIndex::new(0));
    let others = [
        Association { epoch: Epoch::new(8), ..ASSOCIATION },
        Association { source: SourceId::new(4), ..ASSOCIATION },
        Association { builder: BuilderId::new(2), ..ASSOCIATION },
        Association { connection: 0xabce, ..ASSOCIATION },
    ];
    for association in others {
        let header = DatagramHeader { association, ..header(DatagramKind::Data, 2) };
        let outcome = bench.core.handle_datagram(LaneIndex::new(0), &header, &bench.lane, at(10));
        assert_eq!(outcome, Err(DatagramFault::Stale));
    }
    assert_eq!(bench.core.datagram_counters(LaneIndex::new(0)), before);
    bench.core.handle_lane_disconnected(LaneIndex::new(0), at(20));
    assert_eq!(bench.segment(0..100, 0, at(20)), Err(DatagramFault::Stale), "the lane has no connection");
    assert_eq!(bench.core.association(LaneIndex::new(0)), None);
    assert!(bench.say(at(20)).is_empty());
    assert!(bench.built().is_empty());
}

#[test]
fn a_source_announces_and_nothing_else() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.core.handle_datagram(LaneIndex::new(0), &header(DatagramKind::Probe, 0), &[0; 9], at(0)),
        Ok(())
    );
    let outcome =
        bench.core.handle_datagram(LaneIndex::new(0), &header(DatagramKind::ProbeReply, 0), &[], at(0));
    assert_eq!(outcome, Err(DatagramFault::WrongDirection));
    let records = [
        RecordHeader::Data { length: 9, offset: 0 },
        RecordHeader::Grant { end: 0 },
        RecordHeader::Commit { count: 0, offset: 0 },
        RecordHeader::Announced { offset: 0 },
        RecordHeader::Reannounce { offset: 0 },
    ];
    for record in records {
        assert_eq!(bench.records(&record.encode(), at(0)), Err(DatagramFault::WrongDirection), "{record:?}");
    }
    let resend = [&RecordHeader::Resend { count: 1, request: 1 }.encode()[..], &[0; COMMIT_RANGE]].concat();
    assert_eq!(bench.records(&resend, at(0)), Err(DatagramFault::WrongDirection));
}

#[test]
fn records_that_are_none_end_the_connection() {
    let mut bench = Bench::new();
    let body = bench.append(1, &[84, 84]);
    for cut in 1..body.len() {
        let cut_off = DatagramFault::Record(RecordError::Truncated);
        assert_eq!(bench.records(&body[..cut], at(0)), Err(cut_off), "{cut}");
    }
    assert_eq!(bench.records(&[], at(0)), Ok(()), "a datagram without a record is valid");
    let many = RecordHeader::Announce { count: MAX_ANNOUNCEMENTS as u16 + 1, offset: 0 }.encode();
    let outcome = bench.records(&many, at(0));
    assert!(matches!(outcome, Err(DatagramFault::Record(RecordError::Length { .. }))), "{outcome:?}");
}

#[test]
fn what_was_not_granted_ends_the_connection() {
    let mut bench = Bench::new();
    let body = bench.append(1, &[84]);
    let not_granted = |end, granted| Err(DatagramFault::Lane(LaneError::NotGranted { end, granted }));
    bench.records(&body, at(0)).unwrap();
    assert_eq!(bench.segment(0..1, 0, at(0)), not_granted(1, 0), "announced, and not granted");
    assert_eq!(granted(&bench.say(at(0))), [100]);
    bench.lane.push(0);
    assert_eq!(bench.segment(50..101, 0, at(0)), not_granted(101, 100));
    let far = DatagramHeader { offset: u64::MAX, ..header(DatagramKind::Data, 9) };
    let outcome = bench.core.handle_datagram(LaneIndex::new(0), &far, &[0; 9], at(0));
    assert_eq!(outcome, not_granted(u64::MAX, 100), "the end must not overflow");
    assert_eq!(bench.segment(0..100, 0, at(0)), Ok(()));
}

#[test]
fn a_gap_in_the_announcements_is_asked_for() {
    let mut bench = Bench::new();
    let (first, second) = (bench.append(1, &[84]), bench.append(2, &[84]));
    bench.records(&second, at(0)).unwrap();
    let said = bench.say(at(0));
    assert!(said[0].contains(&(RecordHeader::Reannounce { offset: 0 }, vec![])), "{said:?}");
    bench.records(&first, at(10)).unwrap();
    bench.records(&second, at(10)).unwrap();
    bench.records(&first, at(10)).unwrap();
    let said = bench.say(at(10));
    assert_eq!(granted(&said), [200]);
    assert!(said[0].contains(&(RecordHeader::Announced { offset: 200 }, vec![])), "{said:?}");
    // A repeated announcement that ends beyond the known ones is an error.
    let mut body = BytesMut::from(&RecordHeader::Announce { count: 1, offset: 150 }.encode()[..]);
    announcement(2, 84).encode(&mut body);
    let mismatch = DatagramFault::Lane(LaneError::AnnouncementMismatch { offset: 150 });
    assert_eq!(bench.records(&body, at(20)), Err(mismatch));
}

#[test]
fn bytes_are_delivered_once_and_in_order() {
    let mut bench = Bench::announced(&[84, 184]);
    for range in [200..250, 60..150, 0..40, 0..40, 30..70, 250..300, 140..210, 60..150] {
        bench.segment(range, 0, at(0)).unwrap();
    }
    bench.say(at(0));
    assert_eq!(bench.built(), [1, 2]);
    for event in &bench.events {
        let mut fragments = event.fragments();
        assert!(
            fragments.all(|fragment| fragment.payload == payload(event.id.number(), fragment.payload.len()))
        );
    }
    // Each byte was accounted for once, although some arrived twice.
    let mut ended: Vec<_> = bench.ended().to_vec();
    ended.sort_by_key(|(range, ..)| range.start);
    assert!(ended.iter().all(|(_, request, fate)| (*request, *fate) == (0, Fate::Arrived)));
    assert!(ended.windows(2).all(|pair| pair[0].0.end == pair[1].0.start), "{ended:?}");
    assert_eq!((ended[0].0.start, ended[ended.len() - 1].0.end), (0, 300));
    assert_eq!(bench.counters(), RecoveryCounters { duplicates: 2, ..RecoveryCounters::default() });
}

#[test]
fn a_loss_is_asked_for_and_what_comes_late_does_not_count() {
    let mut bench = Bench::announced(&[84, 84, 84]);
    bench.segment(0..100, 0, at(1000)).unwrap();
    bench.segment(200..300, 0, at(1010)).unwrap();
    assert!(resends(&bench.say(at(1020))).is_empty(), "the bytes may only be late");
    let due = bench.core.next_timeout().unwrap();
    assert!(due < at(3000), "{due:?}");
    let said = bench.say(due);
    let [(request, ranges)] = &resends(&said)[..] else { panic!("{said:?}") };
    assert_eq!(ranges[..], [Range { start: 100, end: 200 }]);
    // The first transmission arrives late, and the requested one after it.
    bench.segment(100..200, 0, at(5000)).unwrap();
    bench.segment(100..200, *request, at(5010)).unwrap();
    bench.say(at(5010));
    assert_eq!(bench.built(), [1, 2, 3]);
    let of_the_lost = bench.ended().iter().filter(|(range, ..)| *range == (100..200));
    let fates: Vec<_> = of_the_lost.map(|(_, request, fate)| (*request, *fate)).collect();
    assert_eq!(fates, [(0, Fate::Lost), (*request, Fate::Arrived)]);
    let counters = bench.counters();
    assert_eq!((counters.lost_bytes, counters.resends, counters.late_after_loss), (100, 1, 1));
}

#[test]
fn the_end_of_a_grant_is_missed_by_a_timer() {
    let mut bench = Bench::announced(&[84, 84]);
    bench.segment(0..100, 0, at(1000)).unwrap();
    bench.say(at(1000));
    let mut now = at(1000);
    while bench.counters().timeouts == 0 {
        now = bench.core.next_timeout().unwrap();
        let said = bench.say(now);
        assert_eq!(resends(&said).len() as u64, bench.counters().timeouts, "{said:?}");
    }
    assert!(at(100_000) < now && now < at(200_000), "{now:?}: no round trip was measured yet");
}

#[test]
fn no_more_is_granted_than_can_be_kept() {
    let mut bench = Bench::new();
    let body = bench.append(1, &[9984]);
    bench.records(&body, at(0)).unwrap();
    assert_eq!(granted(&bench.say(at(0))), [2000]);
    // All bytes of the window except the first arrive, and the lane can keep no more.
    bench.segment(1..2000, 0, at(10)).unwrap();
    assert!(granted(&bench.say(at(10))).iter().all(|end| *end == 2000));
    bench.segment(0..1, 0, at(20)).unwrap();
    assert_eq!(granted(&bench.say(at(20))), [4000]);
}

#[test]
fn pieces_beyond_the_limit_are_as_if_lost() {
    let mut bench = Bench::new();
    bench.core.associate(LaneIndex::new(0), ASSOCIATION, None, Bytes::kib(64), at(0));
    let body = bench.append(1, &[9984]);
    bench.records(&body, at(0)).unwrap();
    bench.say(at(0));
    let mut piece = |index: usize| {
        let at_byte = 1 + 2 * index;
        bench.segment(at_byte..at_byte + 1, 0, at(10)).unwrap();
        bench.ended().len()
    };
    let counted: Vec<_> = (0..1030).map(&mut piece).collect();
    assert_eq!((counted[1023], counted[1029]), (1024, 1024));
    // Bytes that fill the first gap are accepted, however many pieces the lane keeps.
    bench.segment(0..1, 0, at(20)).unwrap();
    assert_eq!(bench.ended().len(), 1025);
}

#[test]
fn many_losses_take_several_requests() {
    let mut bench = Bench::announced(&[1984]);
    for start in (10..1990).step_by(20) {
        bench.segment(start..start + 10, 0, at(1000)).unwrap();
    }
    let mut requests = Vec::new();
    while bench.core.next_timeout().unwrap() < at(10_000) {
        let now = bench.core.next_timeout().unwrap();
        requests.extend(resends(&bench.say(now)));
    }
    assert_eq!(requests.iter().map(|(_, ranges)| ranges.len()).collect::<Vec<_>>(), [32, 32, 32, 3]);
    let asked: Vec<_> = requests.iter().flat_map(|(_, ranges)| ranges.clone()).collect();
    assert!((0..99).map(|index| index * 20..index * 20 + 10).eq(asked));
    assert!(requests.windows(2).all(|pair| pair[0].0 < pair[1].0), "request numbers ascend");
}

#[test]
fn a_new_connection_begins_with_what_is_here_without_gap() {
    let mut bench = Bench::announced(&[84, 84, 84]);
    bench.segment(0..130, 0, at(10)).unwrap();
    bench.segment(200..300, 0, at(10)).unwrap();
    bench.say(at(10));
    let before = bench.core.datagram_counters(LaneIndex::new(0));
    bench.core.handle_lane_disconnected(LaneIndex::new(0), at(20));
    let held = bench.core.handle_lane_connected(LaneIndex::new(0), at(30));
    assert_eq!((held.received, held.announced, held.committed), (130, 300, 0));
    bench.core.associate(LaneIndex::new(0), ASSOCIATION, None, WINDOW, at(30));
    assert_eq!(
        bench.core.datagram_counters(LaneIndex::new(0)),
        before,
        "they are counted over all connections"
    );
    assert_eq!(granted(&bench.say(at(30))), [130], "the source's address is unknown");
    bench.records(&[], at(35)).unwrap();
    assert_eq!(granted(&bench.say(at(35))), [300]);
    bench.segment(130..200, 0, at(40)).unwrap();
    assert_eq!(
        bench.core.lanes.lane(LaneIndex::new(0)).incoming().received(),
        200,
        "early bytes were dropped"
    );
    bench.segment(200..300, 0, at(40)).unwrap();
    bench.say(at(40));
    assert_eq!(bench.built(), [1, 2, 3]);
}

#[test]
fn announcements_are_acknowledged_soon_and_said_again_until_heard() {
    let mut bench = Bench::announced(&[84]);
    bench.segment(0..100, 0, at(10)).unwrap();
    let mut said = 0;
    let mut now = at(10);
    while now < at(400_000) {
        said += bench.say(now).len();
        now = bench.core.next_timeout().unwrap();
    }
    assert_eq!(said, 2, "after 101 and 302 ms");
    // A copy of the announcement arrives, perhaps because the builder's datagram was lost.
    let body = [&RecordHeader::Announce { count: 1, offset: 0 }.encode()[..], &{
        let mut item = BytesMut::new();
        announcement(1, 84).encode(&mut item);
        item
    }]
    .concat();
    bench.records(&body, at(400_000)).unwrap();
    for millis in [400, 401] {
        assert!(bench.say(at(millis * 1000)).is_empty());
        assert_eq!(bench.core.next_timeout(), Some(at((millis + 1) * 1000)), "a tick is half of the wait");
    }
    assert_eq!(bench.say(at(402_000)).len(), 1);
}

#[test]
fn a_path_that_is_gone_is_noticed() {
    let mut bench = Bench::announced(&[84, 84]);
    bench.say(at(0));
    assert_eq!(bench.core.silent_lanes(at(4_999_999)).count(), 0);
    // Records arrive, data does not: the source acknowledges all of the builder's datagrams.
    for second in 1..5 {
        bench.say(at(second * 1_000_000));
        let heard = DatagramHeader {
            heard: u32::from(u16::MAX),
            ..header(DatagramKind::Records, 100 + second as u32)
        };
        bench.core.handle_datagram(LaneIndex::new(0), &heard, &[], at(second * 1_000_000 + 100)).unwrap();
    }
    assert!(bench.core.silent_lanes(at(5_000_000)).eq([LaneIndex::new(0)]));
    // The arrival of data ends the silence.
    let heard = DatagramHeader { heard: u32::from(u16::MAX), ..header(DatagramKind::Data, 200) };
    bench.core.handle_datagram(LaneIndex::new(0), &heard, &bench.lane[..100], at(5_000_000)).unwrap();
    assert_eq!(bench.core.silent_lanes(at(5_000_001)).count(), 0);
}
