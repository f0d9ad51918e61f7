//! The cost of the state machines per fragment, without sockets: wire formats, a lane from end to
//! end, assembly alone.

#![expect(clippy::unwrap_used, reason = "an error here is a failed measurement")]

use core::time::Duration;
use std::{hint::black_box, io::IoSlice};

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig},
    event::Event,
    fragment::{Checksum, Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::Taken,
    set::SourceSet,
    source::{self, SourceCore, SourceCoreConfig},
    time::Instant,
    units::Bytes as Amount,
    wire::{
        control::{Accounted, Assignments, Completions, Decisions, Verdict},
        record::{
            ANNOUNCEMENT, Announcement, COMMIT_RANGE, RECORD_HEADER, RecordHeader, decode_range,
            encode_commit, encode_fragment_header,
        },
    },
};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const BUILDER: BuilderId = BuilderId::new(1);
/// Number of events that are open at once and decided in one message.
const BATCH: u64 = 16;

fn wire(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wire");
    let announcement = |event| Announcement {
        event: EventId::new(event),
        timestamp: Timestamp::new(event),
        length: 1000,
        lost_packets: 0,
    };
    group.throughput(Throughput::Elements(BATCH));
    let mut into = BytesMut::with_capacity(4096);
    group.bench_function("announcements/encode", |bench| {
        bench.iter(|| {
            into.clear();
            into.extend_from_slice(&RecordHeader::Announce { count: BATCH as u16, offset: 7 }.encode());
            (1..=BATCH).for_each(|event| announcement(event).encode(&mut into));
            black_box(&into);
        });
    });
    let record = into.clone();
    group.bench_function("announcements/decode", |bench| {
        bench.iter(|| {
            black_box(RecordHeader::decode(*record.first_chunk().unwrap()).unwrap());
            let items = black_box(&record[RECORD_HEADER..]).as_chunks::<ANNOUNCEMENT>().0;
            items.iter().map(|item| Announcement::decode(item).lane_length()).sum::<u64>()
        });
    });
    group.bench_function("commit/encode and decode", |bench| {
        let ranges: Vec<_> = (1..=BATCH).map(|n| n * 100..n * 100 + 50).collect();
        bench.iter(|| {
            into.clear();
            encode_commit(7, black_box(&ranges), &mut into);
            let ranges = into[RECORD_HEADER..].as_chunks::<COMMIT_RANGE>().0;
            ranges.iter().map(|range| decode_range(range).unwrap().end).sum::<u64>()
        });
    });
    group.bench_function("decisions", |bench| {
        bench.iter(|| {
            let mut decisions = Decisions::starting(EventId::FIRST);
            (0..BATCH).for_each(|n| decisions.extend(1, Verdict::Assigned(BuilderId::new(n as u16))));
            black_box(decisions).verdicts().unwrap()
        });
    });
    group.bench_function("assignments and completions", |bench| {
        bench.iter(|| {
            let mut assignments = Assignments::default();
            let (mut last, mut done) =
                ((EventId::default(), 0), (Completions::default(), EventId::default()));
            for event in (1..=BATCH).map(EventId::new) {
                assignments.add(&mut last, event, 5);
                done.0.add(&mut done.1, event);
            }
            (black_box(assignments).events().unwrap(), black_box(&done.0).events().count())
        });
    });
    group.finish();
}

fn builder_core(sources: usize) -> BuilderCore<Policy> {
    let config = BuilderCoreConfig {
        run_id: RunId::new(1),
        id: BUILDER,
        run: RunNumber::new(1),
        epoch: Epoch::new(1),
        slots: 2 * BATCH as usize,
        deadline: Duration::from_secs(2),
        heartbeat: Duration::from_secs(3600),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: (1..=sources as u16).map(SourceId::new).collect(),
        max_fragment: vec![Amount::mib(1); sources],
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut core =
        BuilderCore::new(config, Shaping::LOOPBACK.policy(sources, PacketCost::tcp(1500, CELL), 0), NOW);
    core.handle_roster(1, SourceSet::first(sources), SourceSet::default(), NOW);
    core
}

fn source_core(id: u16) -> SourceCore {
    let config = SourceCoreConfig {
        id: SourceId::new(id),
        max_fragment: Amount::mib(1),
        orphan_timeout: Duration::from_secs(5),
        heartbeat: Duration::from_secs(3600),
        builders: vec![BUILDER],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::from_secs(20),
        queue_delay: Duration::from_millis(1),
        report_period: Duration::ZERO,
    };
    SourceCore::new(config, NOW)
}

/// Sources and a builder in memory; events pass in batches, as in production.
struct Lanes {
    sources: Vec<SourceCore>,
    builder: BuilderCore<Policy>,
    next: u64,
    payload: Fragment,
    records: BytesMut,
    assigned: (EventId, u64),
    built: u64,
}

impl Lanes {
    fn new(sources: usize, length: usize) -> Self {
        let mut lanes = Self {
            sources: (1..=sources as u16).map(source_core).collect(),
            builder: builder_core(sources),
            next: 1,
            payload: Fragment::new(EventId::FIRST, Timestamp::default(), vec![7; length]),
            records: BytesMut::with_capacity(1 << 16),
            assigned: (EventId::default(), 0),
            built: 0,
        };
        for (lane, source) in lanes.sources.iter_mut().enumerate() {
            let state = lanes.builder.handle_lane_connected(LaneIndex::new(lane), NOW);
            source.handle_lane_connected(LaneIndex::new(0), state.received, state.announced).unwrap();
        }
        lanes
    }

    /// Takes a batch of events from push to commit.
    fn turn(&mut self) {
        let first = EventId::new(self.next);
        let mut decisions = Decisions::starting(first);
        decisions.extend(BATCH as u32, Verdict::Assigned(BUILDER));
        let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
        self.assigned = (EventId::default(), 0);
        for event in self.next..self.next + BATCH {
            assignments.add(&mut self.assigned, EventId::new(event), NOW.as_nanos());
        }
        self.builder.handle_assignments(&assignments, NOW).unwrap();
        for source in &mut self.sources {
            source.handle_decisions(&decisions).unwrap();
            for event in self.next..self.next + BATCH {
                let fragment = Fragment { event: EventId::new(event), ..self.payload.clone() };
                source.push(fragment, NOW).unwrap();
            }
        }
        self.next += BATCH;
        let target = self.built + BATCH;
        while self.built < target {
            (0..self.sources.len()).for_each(|lane| self.pump_source(LaneIndex::new(lane)));
            self.pump_builder();
        }
    }

    fn pump_source(&mut self, lane: LaneIndex) {
        let source = &mut self.sources[lane];
        while let Some(output) = source.poll(NOW) {
            if let source::Output::Announce(_) = output {
                self.records.clear();
                source.announce(LaneIndex::new(0), NOW, &mut self.records);
                let Some(RecordHeader::Announce { offset, .. }) =
                    self.records.first_chunk().and_then(|header| RecordHeader::decode(*header).ok())
                else {
                    panic!("an announcement");
                };
                let items = self.records[RECORD_HEADER..].as_chunks::<ANNOUNCEMENT>().0;
                let items = items.iter().map(Announcement::decode);
                self.builder.handle_announcements(lane, offset, items, NOW).unwrap();
            }
        }
        while let Some(Taken { mut range, .. }) = source.take(LaneIndex::new(0), 1 << 20) {
            self.builder.check_data(lane, range.start, (range.end - range.start) as u32).unwrap();
            while !range.is_empty() {
                let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(64);
                range.start += source.gather(LaneIndex::new(0), range.clone(), &mut slices);
                for slice in &slices {
                    self.builder.handle_data(lane, slice, NOW).unwrap();
                }
            }
        }
    }

    fn pump_builder(&mut self) {
        while let Some(output) = self.builder.poll(NOW) {
            match output {
                builder::Output::Event(event) => {
                    self.built += 1;
                    assert!(event.is_complete());
                    self.builder.handle_written(event, NOW);
                }
                builder::Output::Lane(lane) => {
                    self.records.clear();
                    self.builder.write_records(lane, &mut self.records);
                    self.hand_to_source(lane);
                }
                builder::Output::Supervisor(control) => {
                    if let Some(accounted) = Accounted::of(black_box(&control)) {
                        self.builder.handle_accounted(&accounted).unwrap();
                    }
                }
            }
        }
    }

    fn hand_to_source(&mut self, lane: LaneIndex) {
        let mut records = &self.records[..];
        while let Some(header) = records.first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*header).unwrap();
            let (body, rest) = records[RECORD_HEADER..].split_at(header.body());
            match header {
                RecordHeader::Grant { end } => {
                    self.sources[lane].handle_grant(LaneIndex::new(0), end).unwrap()
                }
                RecordHeader::Commit { offset, .. } => {
                    let ranges = body.as_chunks::<COMMIT_RANGE>().0;
                    let ranges: Vec<_> = ranges.iter().map(|r| decode_range(r).unwrap()).collect();
                    self.sources[lane].handle_commit(LaneIndex::new(0), offset, &ranges).unwrap();
                }
                _ => panic!("not a builder's"),
            }
            records = rest;
        }
    }
}

fn lane(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lane machine");
    for (name, length) in [("1 kB", 1000), ("64 kB", 64_000)] {
        for sources in [1, 4, 32] {
            group.throughput(Throughput::Elements(BATCH * sources as u64));
            group.bench_function(format!("{name}, {sources} sources"), |bench| {
                let mut lanes = Lanes::new(sources, length);
                bench.iter(|| lanes.turn());
            });
        }
    }
    group.finish();
}

/// Measures the builder alone: announcement, data and `handle_written` of events of 4 sources.
fn assembly(criterion: &mut Criterion) {
    const SOURCES: usize = 4;
    let mut group = criterion.benchmark_group("assembly");
    group.throughput(Throughput::Elements(BATCH * SOURCES as u64));
    for (name, length) in [("16 B", 16), ("1 kB", 1000), ("64 kB", 64_000)] {
        group.bench_function(name, |bench| {
            let mut core = builder_core(SOURCES);
            (0..SOURCES).for_each(|lane| {
                core.handle_lane_connected(LaneIndex::new(lane), NOW);
            });
            let payload = Bytes::from(vec![7; length]);
            let checksum = Checksum::of(&payload);
            let (mut next, mut records, mut events) = (1, BytesMut::new(), Vec::<Event>::new());
            let mut offset = 0;
            bench.iter(|| {
                let ids = || (next..next + BATCH).map(EventId::new);
                let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
                let mut last = (EventId::default(), 0);
                ids().for_each(|event| assignments.add(&mut last, event, NOW.as_nanos()));
                core.handle_assignments(&assignments, NOW).unwrap();
                for lane in 0..SOURCES {
                    let items = ids().map(|event| Announcement {
                        event,
                        timestamp: Timestamp::default(),
                        length: length as u32,
                        lost_packets: 0,
                    });
                    core.handle_announcements(LaneIndex::new(lane), offset, items, NOW).unwrap();
                }
                drain(&mut core, &mut records, &mut events);
                for lane in 0..SOURCES {
                    for event in ids() {
                        core.handle_data(LaneIndex::new(lane), &encode_fragment_header(event, checksum), NOW)
                            .unwrap();
                        core.handle_data(LaneIndex::new(lane), &payload, NOW).unwrap();
                    }
                    drain(&mut core, &mut records, &mut events);
                }
                events.drain(..).for_each(|event| core.handle_written(event, NOW));
                drain(&mut core, &mut records, &mut events);
                next += BATCH;
                offset += BATCH * (length as u64 + 16);
            });
        });
    }
    group.bench_function("checksum of 1 kB", |bench| {
        let payload = vec![7; 1000];
        bench.iter(|| {
            (0..BATCH * SOURCES as u64).for_each(|_| {
                black_box(Checksum::of(&payload));
            })
        });
    });
    group.finish();
}

fn drain(core: &mut BuilderCore<Policy>, records: &mut BytesMut, events: &mut Vec<Event>) {
    while let Some(output) = core.poll(NOW) {
        match output {
            builder::Output::Event(event) => events.push(event),
            builder::Output::Lane(lane) => {
                records.clear();
                core.write_records(lane, records);
            }
            builder::Output::Supervisor(control) => {
                if let Some(accounted) = Accounted::of(&control) {
                    core.handle_accounted(&accounted).unwrap();
                }
            }
        }
    }
}

criterion_group!(benches, wire, lane, assembly);
criterion_main!(benches);
