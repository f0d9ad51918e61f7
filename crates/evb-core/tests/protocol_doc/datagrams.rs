//! Tests of the datagrams in docs/reference/protocol.md: a source and a builder replay the example,
//! in which one segment is lost.

use core::ops::Range;
use std::time::Duration;

use bytes::BytesMut;
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig},
    event::Event,
    fragment::{Fragment, Timestamp},
    grant::{Fate, Grant, GrantCounters, GrantPolicy, LaneDemand},
    id::{BuilderId, EventId, RunNumber, SourceId},
    index::LaneIndex,
    lane::{DatagramFault, Request, Taken},
    set::SourceSet,
    source::{self, DatagramEnd, SourceCore, SourceCoreConfig},
    time::Instant,
    units::Bytes,
    wire::{
        control::{Accounted, Assignments, Decisions, Verdict},
        datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind},
        record::{COMMIT_RANGE, RecordHeader, decode_range, next_record},
    },
};

use super::{EPOCH, RUN_ID};

const SOURCE: SourceId = SourceId::new(3);
const BUILDER: BuilderId = BuilderId::new(1);
const ASSOCIATION: Association =
    Association { epoch: EPOCH, source: SOURCE, builder: BUILDER, connection: 0x0a1b_2c3d };

/// A policy that grants everything at once, lost bytes first.
#[derive(Debug, Default)]
struct GrantAll(GrantCounters);

impl GrantPolicy for GrantAll {
    fn poll(&mut self, lanes: &[LaneDemand], _now: Instant) -> Option<Grant> {
        let demand = lanes[0];
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

    fn handle_received(&mut self, _lane: LaneIndex, _received: u64, _now: Instant) {}
    fn handle_accounted(&mut self, _: LaneIndex, _: Range<u64>, _: Request, _: Fate, _: Instant) {}
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
        &self.0
    }
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

fn a_source() -> SourceCore {
    let config = SourceCoreConfig {
        id: SOURCE,
        max_fragment: Bytes::new(100),
        orphan_timeout: Duration::from_secs(5),
        heartbeat: Duration::from_secs(1),
        builders: vec![BUILDER],
        on_demand: false,
        decided: EventId::new(41),
        deadline: Duration::MAX,
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut source = SourceCore::new(config, at(0));
    let mut decisions = Decisions::starting(EventId::new(42));
    decisions.extend(3, Verdict::Assigned(BUILDER));
    source.handle_decisions(&decisions).unwrap();
    for (event, timestamp, payload) in
        [(42, 0x0102, "123456789"), (43, 0x0103, ""), (44, 0x0104, "abcdefghi")]
    {
        let fragment = Fragment::new(EventId::new(event), Timestamp::new(timestamp), payload);
        source.push(fragment, at(0)).unwrap();
    }
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.associate(LaneIndex::new(0), ASSOCIATION, None, 1472);
    source
}

fn a_builder() -> BuilderCore<GrantAll> {
    let config = BuilderCoreConfig {
        run_id: RUN_ID,
        id: BUILDER,
        run: RunNumber::new(7),
        epoch: EPOCH,
        slots: 4,
        deadline: Duration::from_secs(2),
        heartbeat: Duration::from_secs(1),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: vec![SOURCE],
        max_fragment: vec![Bytes::new(100)],
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut builder = BuilderCore::new(config, GrantAll::default(), at(0));
    builder.handle_roster(1, SourceSet::first(1), SourceSet::default(), at(0));
    let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
    assignments.add(&mut (EventId::default(), 0), EventId::new(42), at(0).as_nanos());
    builder.handle_assignments(&assignments, at(0)).unwrap();
    builder.handle_lane_connected(LaneIndex::new(0), at(0));
    builder.associate(LaneIndex::new(0), ASSOCIATION, None, Bytes::kib(64), at(0));
    builder
}

fn probe() -> Vec<u8> {
    let kind = DatagramKind::Probe;
    let header =
        DatagramHeader { kind, request: 0, association: ASSOCIATION, sequence: 0, heard: 0, offset: 0 };
    let padding = [0; 8];
    [&header.seal([&padding[..]])[..], &padding].concat()
}

fn probe_reply(probe: &[u8]) -> Vec<u8> {
    let (header, _) = DatagramHeader::open(probe).unwrap();
    let kind = DatagramKind::ProbeReply;
    DatagramHeader { kind, offset: probe.len() as u64, ..header }.seal([]).to_vec()
}

/// Returns the source's next datagram with records.
fn announce(source: &mut SourceCore, now: Instant) -> Vec<u8> {
    let wants = core::iter::from_fn(|| source.poll(now));
    assert_eq!(wants.filter(|output| matches!(output, source::Output::Announce(_))).count(), 1);
    let mut datagram = BytesMut::new();
    source.write_datagram(LaneIndex::new(0), now, &mut datagram);
    datagram.to_vec()
}

/// Returns a datagram with the next bytes that the source may send, at most `limit` bytes.
fn segment(source: &mut SourceCore, limit: u64) -> Vec<u8> {
    let Taken { range, request } = source.take(LaneIndex::new(0), limit).unwrap();
    let mut end = DatagramEnd::new(1472, None);
    end.send(range, request, Instant::ZERO);
    end.send_all(source, LaneIndex::new(0)).remove(0)
}

fn deliver(builder: &mut BuilderCore<GrantAll>, datagram: &[u8], now: Instant) -> Option<Event> {
    let (header, body) = DatagramHeader::open(datagram).unwrap();
    builder.handle_datagram(LaneIndex::new(0), &header, body, now).unwrap();
    match builder.poll(now) {
        Some(builder::Output::Event(event)) => Some(event),
        _ => None,
    }
}

/// Returns the builder's next datagram.
fn answer(builder: &mut BuilderCore<GrantAll>, now: Instant) -> Vec<u8> {
    builder.handle_timeout(now);
    while let Some(output) = builder.poll(now) {
        if let builder::Output::Supervisor(control) = output
            && let Some(accounted) = Accounted::of(&control)
        {
            builder.handle_accounted(&accounted).unwrap();
        }
    }
    let mut datagram = BytesMut::new();
    builder.write_datagram(LaneIndex::new(0), now, &mut datagram);
    datagram.to_vec()
}

fn hear(source: &mut SourceCore, datagram: &[u8], now: Instant) -> Result<(), DatagramFault> {
    let (header, body) = DatagramHeader::open(datagram).unwrap();
    source.handle_datagram(LaneIndex::new(0), &header, body, now)
}

/// Returns the datagrams of the example, by their names on the page.
pub(crate) fn encoded() -> [(&'static str, Vec<u8>); 6] {
    let (mut source, mut builder) = (a_source(), a_builder());
    let announced = announce(&mut source, at(0));
    deliver(&mut builder, &announced, at(100));
    let granted = answer(&mut builder, at(100));
    hear(&mut source, &granted, at(200)).unwrap();
    let first = segment(&mut source, 25);
    let event = deliver(&mut builder, &first, at(300)).expect("event 42 has its only fragment");
    segment(&mut source, 16);
    let third = segment(&mut source, 100);
    deliver(&mut builder, &third, at(310));
    builder.handle_written(event, at(350));
    let resend = answer(&mut builder, at(2500));
    hear(&mut source, &resend, at(2600)).unwrap();
    let again = segment(&mut source, 100);
    deliver(&mut builder, &again, at(2700));
    let probe = probe();
    let reply = probe_reply(&probe);
    [
        ("probe", probe),
        ("probe-reply", reply),
        ("datagram-announce", announced),
        ("datagram-data", first),
        ("datagram-resend", resend),
        ("datagram-again", again),
    ]
}

fn records(mut body: &[u8]) -> Vec<(RecordHeader, &[u8])> {
    core::iter::from_fn(|| next_record(&mut body).unwrap()).collect()
}

#[test]
fn datagrams_of_the_page_are_understood() {
    let page = super::page();
    let open = |name: &str| DatagramHeader::open(&page[name]).unwrap();
    let header = |kind, request, sequence, heard, offset| DatagramHeader {
        kind,
        request,
        association: ASSOCIATION,
        sequence,
        heard,
        offset,
    };
    assert_eq!(open("probe"), (header(DatagramKind::Probe, 0, 0, 0, 0), &[0; 8][..]));
    assert_eq!(open("probe-reply"), (header(DatagramKind::ProbeReply, 0, 0, 0, 48), &[][..]));
    let (announce, body) = open("datagram-announce");
    assert_eq!(announce, header(DatagramKind::Records, 0, 1, 0, 0));
    assert_eq!(records(body)[0].0, RecordHeader::Announce { count: 3, offset: 0 });
    assert_eq!(open("datagram-data"), (header(DatagramKind::Data, 0, 2, 1, 0), &page["data"][16..41]));
    let (resend, body) = open("datagram-resend");
    assert_eq!(resend, header(DatagramKind::Records, 0, 2, 4, 0));
    let said = records(body);
    let kinds: Vec<_> = said.iter().map(|(record, _)| *record).collect();
    assert_eq!(
        kinds,
        [
            RecordHeader::Grant { end: 66 },
            RecordHeader::Announced { offset: 66 },
            RecordHeader::Commit { count: 0, offset: 25 },
            RecordHeader::Resend { count: 1, request: 2 },
        ]
    );
    assert_eq!(decode_range(said[3].1.first_chunk::<COMMIT_RANGE>().unwrap()), Ok(25..41));
    let (again, body) = open("datagram-again");
    assert_eq!((again, body.len()), (header(DatagramKind::Data, 2, 5, 2, 25), 16));
}

#[test]
fn a_stranger_cannot_use_the_page() {
    for (name, bytes) in super::page() {
        if bytes.first() == Some(&0xeb) {
            let (header, body) = DatagramHeader::open(&bytes).unwrap();
            let mut other = header;
            other.association.connection += 1;
            let other = [&other.seal([body])[..], &bytes[DATAGRAM_HEADER..]].concat();
            assert_eq!(hear(&mut a_source(), &other, at(0)), Err(DatagramFault::Stale), "{name}");
        }
    }
}
