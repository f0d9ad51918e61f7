//! Fuzz target for the builder's state machine with a byte budget: its sources, its supervisor and
//! its sink may do anything.

use std::{collections::VecDeque, time::Duration};

use arbitrary::Arbitrary;
use bytes::{BufMut as _, BytesMut};
use evb_core::{
    alignment::{ClockWrap, DetectorClock, message_of},
    builder::{BuilderCore, BuilderCoreConfig, LARGE_FRAGMENT, Output, StreamReader},
    event::Event,
    fragment::{Checksum, Timestamp},
    grant::GrantPolicy as _,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::StreamFault,
    set::SourceSet,
    time::Instant,
    units::{Bytes, Frequency},
    wire::{
        control::{
            Accounted, Assignments, Begin, BuilderReport, Heartbeat, LaneState, MAX_MESSAGE, Message,
            RoleReport,
        },
        encoding::Encoding as _,
        record::{
            ANNOUNCEMENT, Announcement, COMMIT_RANGE, MAX_DATA, RECORD_HEADER, RecordHeader, decode_range,
            encode_fragment_header,
        },
    },
};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};

const LANES: usize = 3;
const SLOTS: usize = 3;
/// Largest fragment, in bytes; it exceeds the size above which a fragment gets its own allocation.
const MAX_FRAGMENT: u64 = LARGE_FRAGMENT as u64 + 1000;
const BUDGET: Bytes = Bytes::kib(64);
const CHUNK: Bytes = Bytes::kib(8);
const DEADLINE: Duration = Duration::from_secs(2);
/// Largest number of steps that are performed, to limit the time of a fuzz input.
const STEPS: usize = 400;

/// A step of the test, as seen by the builder. The arbitrary numbers of lanes, events and rosters
/// are reduced modulo small numbers.
#[derive(Arbitrary, Debug)]
pub enum Step {
    /// A source connects or reconnects its lane.
    Connect(u8),
    /// The lane connection of a source breaks.
    Disconnect(u8),
    /// A source announces fragments (event, length) at the expected position plus this offset.
    Announce(u8, i8, Vec<(u8, u16)>),
    /// A source sends `length` bytes at the next position plus `shift`, intact or with a damaged
    /// byte. With `own_memory`, they arrive after the record's header, so that the builder reads
    /// the bytes of a large fragment directly into the fragment's memory.
    #[allow(missing_docs)] // just said
    Data { lane: u8, shift: i8, length: u16, damage: Option<u16>, own_memory: bool },
    /// A malicious source sends these raw bytes on its lane.
    Bytes(u8, Vec<u8>),
    /// The supervisor assigns these events to the builder.
    Assign(u8, Vec<u8>),
    /// A malicious supervisor sends an arbitrary assignment message.
    Assignments(u32, Vec<u64>, Vec<u64>),
    /// The supervisor sends a roster with this version and this bit set of connected sources.
    Roster(u8, u8),
    /// The supervisor sends a heartbeat with its clock.
    Heartbeat(u64, u64, u64),
    /// The supervisor takes the present timestamps of a source as right.
    Learn(u8, u8),
    /// Time passes: this number of milliseconds.
    Pass(u16),
    /// The sink finishes an event: it was written, rejected, or could not be written.
    Sink(u8),
}

/// State of a lane as an honest source knows it.
#[derive(Debug, Default)]
struct Lane {
    reader: StreamReader,
    /// All announced bytes of the lane.
    content: Vec<u8>,
    received: u64,
    granted: u64,
    committed: u64,
    connected: bool,
    /// End of the last piece of data that the builder refused; the builder may have accepted the
    /// bytes of this piece that precede the fault.
    refused: u64,
    /// True if some bytes sent on the lane differed from `content`.
    garbled: bool,
}

/// The builder's state machine, with models of its sources, its sink and the clock.
#[derive(Debug)]
pub struct Bench {
    core: BuilderCore<Policy>,
    bound: Bytes,
    lanes: Vec<Lane>,
    events: VecDeque<Event>,
    now: Instant,
}

/// Performs the steps on a builder, and checks the invariants of its state machine after each step.
///
/// # Panics
/// Panics if the state machine violates an invariant.
pub fn run(turns: bool, steps: &[Step]) {
    let mut bench = Bench::new(turns.then_some(2));
    for step in steps.iter().take(STEPS) {
        bench.step(step);
        bench.settle();
        bench.core.invariants();
    }
    bench.end();
}

impl Bench {
    fn new(sources_at_once: Option<usize>) -> Self {
        let config = BuilderCoreConfig {
            run_id: RunId::new(1),
            id: BuilderId::new(1),
            run: RunNumber::new(1),
            epoch: Epoch::new(1),
            slots: SLOTS,
            deadline: DEADLINE,
            heartbeat: Duration::from_secs(1),
            shared_clock: false,
            lease: Duration::ZERO,
            sources: (1..=LANES as u16).map(SourceId::new).collect(),
            max_fragment: vec![Bytes::new(MAX_FRAGMENT); LANES],
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let shaping = Shaping::Credit { budget: BUDGET, groups: Vec::new(), chunk: CHUNK, sources_at_once };
        let policy = shaping.policy(LANES, PacketCost::tcp(1500, CELL), 1);
        let now = Instant::from_nanos(1_000_000_000);
        let bound = BuilderCore::<Policy>::memory_bound(&config);
        let mut core = BuilderCore::new(config, policy, now);
        core.handle_roster(1, SourceSet::first(LANES), SourceSet::default(), now);
        // A rate of 1 kHz is that of the timestamps of `announcement`.
        let clock = DetectorClock::new(Frequency::from_hertz(1e3).expect("a rate"), ClockWrap::Bits(16));
        let clocks = (1..=LANES as u16).map(|source| message_of(SourceId::new(source), &clock)).collect();
        core.guard(&Begin { clocks, ..Begin::default() });
        let lanes = (0..LANES).map(|_| Lane::default()).collect();
        let mut bench = Self { core, bound, lanes, events: VecDeque::new(), now };
        (0..LANES).for_each(|lane| bench.connect(LaneIndex::new(lane)));
        bench
    }

    fn step(&mut self, step: &Step) {
        let lane_of = |lane: &u8| usize::from(*lane) % LANES;
        match step {
            Step::Connect(lane) => self.connect(LaneIndex::new(lane_of(lane))),
            Step::Disconnect(lane) => self.disconnect(LaneIndex::new(lane_of(lane))),
            Step::Announce(lane, shift, fragments) => {
                let ready = self.lanes[lane_of(lane)].content.len() as u64;
                let announced =
                    fragments.iter().take(32).map(|(event, length)| announcement(*event, *length));
                self.announce(
                    LaneIndex::new(lane_of(lane)),
                    ready.saturating_add_signed((*shift).into()),
                    announced.collect(),
                );
            }
            Step::Data { lane, shift, length, damage, own_memory } => {
                self.data(LaneIndex::new(lane_of(lane)), *shift, *length, *damage, *own_memory);
            }
            Step::Bytes(lane, bytes) => self.bytes(LaneIndex::new(lane_of(lane)), bytes),
            Step::Assign(roster, events) => {
                let mut assignments =
                    Assignments { roster_version: u32::from(roster % 4), ..Assignments::default() };
                let mut last = (EventId::default(), 0);
                for event in events.iter().take(SLOTS + 1) {
                    assignments.add(&mut last, EventId::new((event % 16).into()), self.now.as_nanos());
                }
                let _ = self.core.handle_assignments(&assignments, self.now);
            }
            Step::Assignments(roster_version, events, triggered_ns) => {
                let (events, triggered_ns) = (events.clone(), triggered_ns.clone());
                let assignments = Assignments {
                    roster_version: roster_version % 4,
                    events,
                    triggered_ns,
                    ..Assignments::default()
                };
                let _ = self.core.handle_assignments(&assignments, self.now);
            }
            Step::Roster(version, up) => {
                let up = (0..LANES).filter(|lane| up >> lane & 1 == 1).collect();
                self.core.handle_roster(u32::from(version % 4), up, SourceSet::default(), self.now);
            }
            Step::Heartbeat(sent_ns, echo_ns, echo_delay_ns) => {
                let (sent_ns, echo_ns, echo_delay_ns) = (*sent_ns, *echo_ns, *echo_delay_ns);
                self.core.handle_heartbeat(
                    &Heartbeat { sent_ns, echo_ns, echo_delay_ns, ..Heartbeat::default() },
                    self.now,
                );
            }
            Step::Learn(source, after) => {
                self.core.learn(SourceId::new((*source).into()), EventId::new((*after).into()));
            }
            Step::Pass(millis) => {
                self.now += Duration::from_millis((*millis).into());
                self.core.handle_timeout(self.now);
            }
            Step::Sink(verdict) => {
                let Some(event) = self.events.pop_front() else { return };
                match verdict % 3 {
                    0 => self.core.handle_written(event, self.now),
                    1 => self.core.handle_rejected(event, self.now),
                    _ => self.core.handle_failed(event, "no space", self.now),
                }
            }
        }
    }

    fn connect(&mut self, lane: LaneIndex) {
        if self.lanes[lane].connected {
            self.disconnect(lane);
        }
        let held: LaneState = self.core.handle_lane_connected(lane, self.now);
        let lane = &mut self.lanes[lane];
        lane.content.truncate(held.announced as usize);
        assert_eq!(held.announced, lane.content.len() as u64);
        assert!(held.committed <= held.received && held.received <= held.announced, "{held:?}");
        assert!(
            held.received >= lane.received && held.committed >= lane.committed,
            "{held:?} after {lane:?}"
        );
        lane.received = held.received;
        lane.reader = StreamReader::default();
        lane.refused = 0;
        lane.granted = held.received;
        lane.connected = true;
    }

    fn disconnect(&mut self, lane: LaneIndex) {
        self.core.handle_lane_disconnected(lane, self.now);
        self.lanes[lane].connected = false;
        assert!(!self.core.is_lane_connected(lane));
    }

    /// Disconnects a lane whose record the builder refused, as a driver does.
    fn refuse(&mut self, lane: LaneIndex, fault: StreamFault) {
        assert!(!fault.to_string().is_empty());
        self.disconnect(lane);
    }

    /// Lets the builder read the front of `bytes`, as one system call does. Returns the number of
    /// bytes that were read.
    fn read(&mut self, lane: LaneIndex, bytes: &[u8]) -> Result<usize, StreamFault> {
        let (reader, mut rest) = (&mut self.lanes[lane].reader, bytes);
        let filled = reader.read_target(&mut self.core, lane).read_from(&mut rest);
        reader.filled(&mut self.core, lane, filled, self.now)?;
        Ok(bytes.len() - rest.len())
    }

    fn announce(&mut self, lane: LaneIndex, offset: u64, announced: Vec<Announcement>) {
        if !self.lanes[lane].connected || announced.is_empty() {
            return;
        }
        let mut record = BytesMut::new();
        record.put_slice(&RecordHeader::Announce { count: announced.len() as u16, offset }.encode());
        announced.iter().for_each(|item| item.encode(&mut record));
        let result = self.read(lane, &record);
        let (mut start, content) = (offset, &mut self.lanes[lane].content);
        for item in &announced {
            let refused = item.event.number() == 0 || u64::from(item.length) > MAX_FRAGMENT;
            if start == content.len() as u64 {
                if refused {
                    break;
                }
                append(content, lane, item);
            }
            start = start.saturating_add(item.lane_length());
        }
        if let Err(fault) = result {
            self.refuse(lane, fault);
        }
    }

    fn data(&mut self, lane: LaneIndex, shift: i8, length: u16, damage: Option<u16>, own_memory: bool) {
        let Lane { content, received, granted, connected, .. } = &self.lanes[lane];
        if !connected {
            return;
        }
        let offset = received.saturating_add_signed(shift.into());
        let most = if shift == 0 { granted - received } else { u64::MAX };
        let end = offset.saturating_add(most.min(length.into())).min(content.len() as u64);
        let mut bytes = content.get(offset as usize..end as usize).unwrap_or_default().to_vec();
        if let Some(place) = damage
            && !bytes.is_empty()
        {
            let place = usize::from(place) % bytes.len();
            bytes[place] ^= 0x10;
            self.lanes[lane].garbled = true;
        }
        if !bytes.is_empty() {
            self.record(lane, offset, &bytes, own_memory);
        }
    }

    /// Sends a data record to the builder, which reads it in several pieces.
    fn record(&mut self, lane: LaneIndex, offset: u64, bytes: &[u8], own_memory: bool) {
        let (length, start) = (bytes.len() as u32, self.lanes[lane].received);
        let is_valid = self.core.check_data(lane, offset, length).is_ok();
        assert!(!is_valid || offset == start);
        let record = [&RecordHeader::Data { length, offset }.encode()[..], bytes].concat();
        let mut sent = 0;
        while sent < record.len() {
            let most = match (own_memory, sent) {
                (true, 0) => RECORD_HEADER,
                (true, _) => 5000,
                (false, _) => record.len(),
            };
            let piece = &record[sent..record.len().min(sent + most)];
            let read = self.read(lane, piece);
            assert!(is_valid || read.is_err(), "accepted an invalid record");
            sent += read.unwrap_or(piece.len());
            let reached = start + sent.saturating_sub(RECORD_HEADER) as u64;
            let model = &mut self.lanes[lane];
            match read {
                Ok(_) => model.received = reached,
                Err(fault) => {
                    model.refused = model.refused.max(if is_valid { reached } else { 0 });
                    return self.refuse(lane, fault);
                }
            }
        }
    }

    fn bytes(&mut self, lane: LaneIndex, mut bytes: &[u8]) {
        while self.lanes[lane].connected {
            let Some((head, rest)) = bytes.split_first_chunk::<RECORD_HEADER>() else { break };
            let Ok(header) = RecordHeader::decode(*head) else { return self.disconnect(lane) };
            let Some((body, mut rest)) = rest.split_at_checked(header.body()) else { break };
            match header {
                RecordHeader::Announce { offset, .. } => {
                    let items = body.as_chunks::<ANNOUNCEMENT>().0.iter().map(Announcement::decode);
                    // Only the first 32 announcements count, because this model stores all
                    // announced bytes in memory.
                    let items: Vec<_> = items.take(32).collect();
                    self.announce(lane, offset, items);
                }
                RecordHeader::Data { length, offset } => {
                    let data = &rest[..rest.len().min(length as usize)];
                    self.lanes[lane].garbled = true;
                    if !data.is_empty() {
                        self.record(lane, offset, data, length % 2 == 1);
                    }
                    rest = &rest[data.len()..];
                }
                _ => return self.disconnect(lane),
            }
            bytes = rest;
        }
    }

    /// Fetches the outputs of the builder's state machine, and checks that they are allowed.
    fn settle(&mut self) {
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Event(event) => {
                    self.look_at(&event);
                    self.events.push_back(event);
                }
                Output::Lane(lane) => self.records(lane.get()),
                Output::Supervisor(control) => {
                    assert!(control.encoded_len() <= MAX_MESSAGE);
                    if let Some(accounted) = Accounted::of(&control) {
                        self.core.handle_accounted(&accounted).unwrap();
                    }
                }
            }
        }
        assert!(self.core.policy().outstanding() <= BUDGET, "more than the budget is outstanding");
        assert!(self.core.slots_used() <= SLOTS && self.events.len() <= self.core.slots_used());
    }

    /// Checks the grants and commits that the builder sends to a source: they never decrease,
    /// grants cover only announced bytes, and commits only sent bytes.
    fn records(&mut self, index: usize) {
        let mut written = BytesMut::new();
        self.core.write_records(LaneIndex::new(index), &mut written);
        let lane = &mut self.lanes[index];
        let mut rest = &written[..];
        while let Some((head, after)) = rest.split_first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*head).expect("a record of our own");
            let (body, after) = after.split_at(header.body());
            match header {
                RecordHeader::Grant { end } => {
                    assert!(end > lane.granted && end <= lane.content.len() as u64, "granted up to {end}");
                    lane.granted = end;
                }
                RecordHeader::Commit { offset, .. } => {
                    let taken = lane.received.max(lane.refused);
                    assert!((lane.committed..=taken).contains(&offset), "committed {offset}");
                    lane.committed = offset;
                    let mut above = offset;
                    for range in body.as_chunks::<COMMIT_RANGE>().0 {
                        let range = decode_range(range).expect("a range of our own");
                        assert!(above <= range.start && range.end <= taken, "committed {range:?}");
                        above = range.end;
                    }
                }
                other => assert!(!matches!(other, RecordHeader::Data { .. } | RecordHeader::Announce { .. })),
            }
            rest = after;
        }
        assert!(rest.is_empty());
    }

    fn look_at(&self, event: &Event) {
        assert!(event.fragments().len() + event.missing.len() <= 2 * LANES);
        for fragment in event.fragments() {
            assert_eq!(Checksum::of(fragment.payload), fragment.checksum);
            let lane = usize::from(fragment.source.number()) - 1;
            assert!(!event.is_missing(fragment.source));
            let written = payload(LaneIndex::new(lane), event.id, fragment.payload.len());
            assert!(self.lanes[lane].garbled || fragment.payload == written, "bytes of another fragment");
        }
    }

    /// Ends all open events by their deadline, and checks that every event is counted and every
    /// slot is free again.
    fn end(mut self) {
        for _ in 0..SLOTS + 4 {
            self.now += 2 * DEADLINE;
            (0..LANES).for_each(|lane| self.disconnect(LaneIndex::new(lane)));
            self.core.handle_timeout(self.now);
            self.settle();
            while let Some(event) = self.events.pop_front() {
                self.core.handle_written(event, self.now);
            }
            self.settle();
        }
        assert_eq!(self.core.slots_used(), 0, "a slot is never given back");
        let report = self.core.report().message;
        let Some(Message::Report(report)) = report else { panic!("no report: {report:?}") };
        let Some(RoleReport::Builder(report)) = report.report else { panic!("no builder's report") };
        let BuilderReport { written, complete, incomplete, memory_peak_bytes, .. } = report;
        assert_eq!(written, complete + incomplete);
        assert!(memory_peak_bytes <= self.bound.count(), "{memory_peak_bytes} B of {}", self.bound);
    }
}

const _: () = assert!(CHUNK.count() < MAX_DATA as u64);

fn announcement(event: u8, length: u16) -> Announcement {
    // Most of these lengths and event ids are valid; a few lengths are slightly too large, and the
    // invalid event id 0 occurs.
    let length = u32::from(length) % (MAX_FRAGMENT as u32 + 2);
    // The fragments of an event belong together, unless an event id or a length is very large.
    let ticks = u64::from(event % 16) * 1000 + u64::from(event / 128) * 300 + u64::from(length / 4096);
    Announcement {
        event: EventId::new((event % 16).into()),
        timestamp: Timestamp::new(ticks),
        length,
        lost_packets: 0,
    }
}

fn append(content: &mut Vec<u8>, lane: LaneIndex, announced: &Announcement) {
    let payload = payload(lane, announced.event, announced.length as usize);
    content.extend_from_slice(&encode_fragment_header(announced.event, Checksum::of(&payload)));
    content.extend_from_slice(&payload);
}

fn payload(lane: LaneIndex, event: EventId, length: usize) -> Vec<u8> {
    let first = event.number().wrapping_mul(31).wrapping_add(lane.get() as u64 * 7);
    (0..length as u64).map(|place| first.wrapping_add(place.wrapping_mul(13)) as u8).collect()
}
