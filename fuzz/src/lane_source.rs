//! Fuzz target for the source's state machine: readout, the supervisor and the builders may do
//! anything.

use std::{ops::Range, time::Duration};

use arbitrary::Arbitrary;
use bytes::{BufMut as _, BytesMut};
use evb_core::{
    alignment::TriggerCounter,
    fragment::{Checksum, Fragment, Timestamp},
    id::{BuilderId, EventId, SourceId},
    index::LaneIndex,
    lane::Taken,
    source::{Output, SourceCore, SourceCoreConfig, StreamReader, StreamWriter},
    time::Instant,
    units::Bytes,
    wire::{
        control::{Decisions, Heartbeat, MAX_MESSAGE, Message, ReadingsWanted, RoleReport, SourceReport},
        encoding::Encoding as _,
        record::{
            ANNOUNCEMENT, Announcement, MAX_COMMIT_RANGES, RECORD_HEADER, RecordHeader, encode_commit,
            encode_fragment_header,
        },
    },
};

const LANES: usize = 2;
const MAX_FRAGMENT: u64 = 300;
/// Largest number of steps that are performed, to limit the time of a fuzz input.
const STEPS: usize = 400;

/// A step of the test, as seen by the source. The arbitrary numbers of lanes and events are reduced
/// modulo small numbers.
#[derive(Arbitrary, Debug)]
pub enum Step {
    /// Readout pushes a fragment (event, length in bytes).
    Push(u8, u16),
    /// Readout pushes a small fragment with an arbitrary event id.
    PushAny(u64),
    /// Readout pushes the fragment that follows the last one of this kind, but for this number of
    /// events; boards with a trigger counter send its value.
    PushNext(i8),
    /// The supervisor wants the timestamps of the last events (question, event).
    Wanted(u32, u64),
    /// The supervisor sends decisions on sequences of events, starting at the first undecided event
    /// plus this offset.
    Decide(i8, Vec<(u8, u8)>),
    /// A malicious supervisor sends an arbitrary message of decisions.
    Decisions(u64, Vec<u32>),
    /// The supervisor sends a heartbeat with its clock.
    Heartbeat(u64),
    /// An honest builder connects (lane, received, announced); `received` is the fraction of the
    /// unsettled sent bytes that it holds, in units of 1/255.
    Connect(u8, u8, u8),
    /// A malicious builder connects, and claims to hold an arbitrary number of bytes.
    ConnectAny(u8, u64, u64),
    /// The lane connection to a builder breaks.
    Disconnect(u8),
    /// A builder grants this number of additional bytes, but not more than are announced.
    Grant(u8, u16),
    /// A malicious builder grants up to an arbitrary offset.
    GrantAny(u8, u64),
    /// A builder commits this number of additional sent bytes, and ranges (gap, length) above them.
    Commit(u8, u16, Vec<(u8, u8)>),
    /// A malicious builder commits arbitrary ranges.
    CommitAny(u8, u64, Vec<(u64, u64)>),
    /// The shaper allows the source to send this number of bytes.
    Take(u8, u16),
    /// Time passes: this number of milliseconds.
    Pass(u16),
}

/// State of a lane as an honest builder knows it.
#[derive(Debug, Default)]
struct Lane {
    reader: StreamReader,
    writer: StreamWriter,
    /// All announced bytes of the lane.
    content: Vec<u8>,
    /// Start offset of every announced fragment, and the end offset of the last one.
    bounds: Vec<u64>,
    sent: u64,
    granted: u64,
    committed: u64,
    /// Offset below which the source may have freed all bytes, because whole fragments were
    /// committed.
    settled: u64,
    connected: bool,
}

/// The source's state machine, with models of its lanes and the clock.
#[derive(Debug)]
pub struct Bench {
    core: SourceCore,
    lanes: Vec<Lane>,
    now: Instant,
    on_demand: bool,
    /// The counter that readout pushes in place of event ids, and the number of its last trigger.
    counter: Option<TriggerCounter>,
    trigger: u64,
}

/// Performs the steps on a source, and checks the invariants of its state machine after each step.
/// If `bits` are those of a trigger counter, readout pushes its values in place of event ids.
///
/// # Panics
/// Panics if the state machine violates an invariant.
pub fn run(on_demand: bool, bits: Option<u8>, steps: &[Step]) {
    let now = Instant::from_nanos(1_000_000_000);
    let config = SourceCoreConfig {
        id: SourceId::new(3),
        max_fragment: Bytes::new(MAX_FRAGMENT),
        orphan_timeout: Duration::from_secs(5),
        heartbeat: Duration::from_millis(250),
        builders: vec![BuilderId::new(1), BuilderId::new(4)],
        on_demand,
        decided: EventId::default(),
        deadline: Duration::from_secs(20),
        queue_delay: Duration::from_millis(1),
        report_period: Duration::from_secs(1),
    };
    let lanes = (0..LANES).map(|_| Lane { bounds: vec![0], ..Lane::default() }).collect();
    // The content of a fragment follows from the last 8 bits of its event id, which are those of
    // its counter.
    let counter = bits.map(TriggerCounter::new).filter(|counter| counter.check().is_ok() && !on_demand);
    let mut core = SourceCore::new(config, now);
    counter.into_iter().for_each(|counter| core.set_counter(counter));
    let mut bench = Bench { core, lanes, now, on_demand, counter, trigger: 0 };
    for step in steps.iter().take(STEPS) {
        bench.step(step);
        bench.settle();
        bench.core.invariants();
    }
}

impl Bench {
    fn step(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Push(event, length) => {
                let fragment = fragment(EventId::new((event % 64).into()), u32::from(*length) % 310);
                let _ = self.core.push(fragment, now);
            }
            Step::PushAny(event) => {
                let _ = self.core.push(fragment(EventId::new(*event), 3), now);
            }
            Step::PushNext(shift) => {
                self.trigger = self.trigger.wrapping_add(1).wrapping_add_signed((*shift).into());
                let event = EventId::new(self.trigger);
                let value = self.counter.and_then(|counter| counter.value_of(event));
                let _ = self.core.push(fragment(value.map_or(event, EventId::new), 5), now);
            }
            Step::Wanted(question, event) => {
                self.core.handle_readings_wanted(ReadingsWanted { question: *question, event: *event }, now);
            }
            Step::Decide(shift, runs) => {
                let first = self.core.undecided().number().saturating_add_signed((*shift).into());
                let pairs = runs.iter().flat_map(|(count, verdict)| {
                    [u32::from(count % 8), [0, 1, 3, 6, 6, 3, 2, 9][usize::from(verdict % 8)]]
                });
                let _ = self.core.handle_decisions(&Decisions { first, runs: pairs.collect() });
            }
            Step::Decisions(first, runs) => {
                let _ = self.core.handle_decisions(&Decisions { first: *first, runs: runs.clone() });
            }
            Step::Heartbeat(sent_ns) => {
                self.core.handle_heartbeat(&Heartbeat { sent_ns: *sent_ns, ..Heartbeat::default() }, now);
            }
            Step::Pass(millis) => {
                self.now += Duration::from_millis((*millis).into());
                self.core.handle_timeout(self.now);
            }
            other => self.lane_step(other),
        }
    }

    fn lane_step(&mut self, step: &Step) {
        let of = |lane: &u8| usize::from(*lane) % LANES;
        match step {
            Step::Connect(lane, received, announced) => {
                self.connect(LaneIndex::new(of(lane)), *received, *announced)
            }
            Step::ConnectAny(lane, received, announced) => {
                let lane = of(lane);
                self.core.handle_lane_disconnected(LaneIndex::new(lane));
                let accepted =
                    self.core.handle_lane_connected(LaneIndex::new(lane), *received, *announced).is_ok();
                let model = &mut self.lanes[lane];
                model.connected = accepted;
                if accepted {
                    assert!(*received <= *announced && *announced <= model.content.len() as u64);
                    assert!(*received >= model.settled, "accepted a builder that needs freed bytes");
                    model.rewind(*received, *announced);
                }
            }
            Step::Disconnect(lane) => {
                self.core.handle_lane_disconnected(LaneIndex::new(of(lane)));
                self.lanes[of(lane)].connected = false;
            }
            Step::Grant(lane, more) => {
                let model = &self.lanes[of(lane)];
                let end = model.granted.saturating_add((*more).into()).min(model.content.len() as u64);
                self.grant(LaneIndex::new(of(lane)), end);
            }
            Step::GrantAny(lane, end) => self.grant(LaneIndex::new(of(lane)), *end),
            Step::Commit(lane, more, gaps) => {
                let model = &self.lanes[of(lane)];
                let offset = model.committed.saturating_add((*more).into()).min(model.sent);
                let (mut ranges, mut at) = (Vec::new(), offset);
                for (gap, length) in gaps {
                    let start = at.saturating_add((*gap).into()).min(model.sent);
                    at = start.saturating_add((*length).into()).min(model.sent);
                    ranges.extend((start < at).then_some(start..at));
                }
                assert!(
                    self.commit(LaneIndex::new(of(lane)), offset, &ranges),
                    "an honest commit is refused"
                );
            }
            Step::CommitAny(lane, offset, ranges) => {
                let ordered = ranges.iter().filter(|(start, end)| start < end);
                let ranges: Vec<_> = ordered.map(|(start, end)| *start..*end).collect();
                self.commit(LaneIndex::new(of(lane)), *offset, &ranges);
            }
            Step::Take(lane, limit) => self.take(LaneIndex::new(of(lane)), (*limit).into()),
            _ => {}
        }
    }

    /// Connects an honest builder, which holds a part of the sent bytes and at least the
    /// announcements of the fragments in this part.
    fn connect(&mut self, lane: LaneIndex, received: u8, announced: u8) {
        self.core.handle_lane_disconnected(lane);
        let model = &mut self.lanes[lane];
        let part = (model.sent - model.settled) * u64::from(received) / 255;
        let received = model.settled + part;
        let known: Vec<u64> = model.bounds.iter().copied().filter(|bound| *bound >= received).collect();
        let announced = known[usize::from(announced) % known.len()];
        let result = self.core.handle_lane_connected(lane, received, announced);
        assert_eq!(result, Ok(()), "an honest builder is refused: {received} of {announced}, {model:?}");
        model.connected = true;
        model.rewind(received, announced);
    }

    fn grant(&mut self, lane: LaneIndex, end: u64) {
        let model = &mut self.lanes[lane];
        if !model.connected {
            return;
        }
        model.reader.read_target().put_slice(&RecordHeader::Grant { end }.encode());
        match model.reader.filled(&mut self.core, lane) {
            Ok(()) => {
                assert!(end <= model.content.len() as u64, "accepted a grant beyond the announced bytes");
                model.granted = model.granted.max(end);
            }
            Err(_) => self.break_off(lane),
        }
    }

    /// Passes a builder's commit to the source, and returns true if the source accepted it or the
    /// lane is not connected.
    fn commit(&mut self, lane: LaneIndex, offset: u64, ranges: &[Range<u64>]) -> bool {
        let model = &mut self.lanes[lane];
        if !model.connected {
            return true;
        }
        let ranges = &ranges[..ranges.len().min(MAX_COMMIT_RANGES)];
        encode_commit(offset, ranges, model.reader.read_target());
        let accepted = model.reader.filled(&mut self.core, lane).is_ok();
        if accepted {
            let highest = ranges.iter().map(|range| range.end).max().unwrap_or(0).max(offset);
            assert!(highest <= model.sent, "accepted a commit of bytes that were not sent");
            model.committed = model.committed.max(offset);
            model.settle(ranges);
        } else {
            self.break_off(lane);
        }
        accepted
    }

    fn take(&mut self, lane: LaneIndex, limit: u64) {
        let Some(Taken { range, .. }) = self.core.take(lane, limit) else { return };
        let model = &mut self.lanes[lane];
        assert!(model.connected && range.start == model.sent && range.end <= model.granted);
        model.sent = range.end;
        let (mut at, mut written) = (range.start, Vec::new());
        model.writer.send(range);
        while let Some(slices) = model.writer.gather(&self.core, lane) {
            let before = written.len();
            let most = 1 + limit as usize % 999;
            written.extend(slices.iter().flat_map(|slice| slice.iter().copied()).take(most));
            drop(slices);
            assert!(written.len() > before, "the source lacks bytes that it may send");
            model.writer.sent(written.len() - before);
        }
        let mut rest = &written[..];
        while let Some((head, after)) = rest.split_first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*head).expect("a record of our own");
            let RecordHeader::Data { length, offset } = header else { panic!("{header:?}") };
            let (bytes, after) = after.split_at(length as usize);
            let announced = &model.content[at as usize..][..bytes.len()];
            assert!(offset == at && bytes == announced, "other bytes than announced");
            at += u64::from(length);
            rest = after;
        }
        assert!(rest.is_empty() && at == model.sent);
    }

    /// Disconnects a builder that violated the protocol, as a driver does.
    fn break_off(&mut self, lane: LaneIndex) {
        self.core.handle_lane_disconnected(lane);
        self.lanes[lane].connected = false;
    }

    fn settle(&mut self) {
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Announce(lane) => self.announcements(lane),
                Output::Wanted(event) => {
                    assert!(self.on_demand);
                    let length = event.number() as u32 % 300;
                    let _ = self.core.push(fragment(event, length), self.now);
                }
                Output::Supervisor(control) => assert!(control.encoded_len() <= MAX_MESSAGE),
            }
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            let sendable = if lane.connected { lane.granted.saturating_sub(lane.sent) } else { 0 };
            assert_eq!(self.core.sendable(LaneIndex::new(index)), sendable);
        }
        let report = self.core.report(0, None).message;
        let Some(Message::Report(report)) = report else { panic!("no report: {report:?}") };
        let Some(RoleReport::Source(report)) = report.report else { panic!("no source's report") };
        let SourceReport { pushed, committed, inhibited, closed, unexpected, uncommitted, .. } = report;
        let repeated = report.repeats + report.repeats_not_compared + report.contradictions;
        assert_eq!(
            pushed,
            committed + inhibited + closed + unexpected + repeated + uncommitted,
            "{report:?}"
        );
    }

    fn announcements(&mut self, lane: LaneIndex) {
        let mut written = BytesMut::new();
        self.core.announce(lane, self.now, &mut written);
        let model = &mut self.lanes[lane];
        let mut rest = &written[..];
        while let Some((head, after)) = rest.split_first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*head).expect("a record of our own");
            let RecordHeader::Announce { offset, .. } = header else { panic!("{header:?}") };
            assert_eq!(offset, model.content.len() as u64, "announcements leave a gap");
            let (body, after) = after.split_at(header.body());
            for item in body.as_chunks::<ANNOUNCEMENT>().0 {
                model.append(&Announcement::decode(item));
            }
            rest = after;
        }
    }
}

impl Lane {
    fn append(&mut self, announced: &Announcement) {
        let fragment = fragment(announced.event, announced.length);
        self.content.extend_from_slice(&encode_fragment_header(announced.event, fragment.checksum));
        self.content.extend_from_slice(&fragment.payload);
        self.bounds.push(self.content.len() as u64);
    }

    /// Resets the lane for a new connection to a builder that holds `received` bytes and knows the
    /// announcements up to `announced`; the source repeats later announcements.
    fn rewind(&mut self, received: u64, announced: u64) {
        self.content.truncate(announced as usize);
        self.bounds.retain(|bound| *bound <= announced);
        self.sent = received;
        self.granted = received;
        (self.reader, self.writer) = (StreamReader::default(), StreamWriter::default());
    }

    /// Records committed ranges: the source may free only fragments that the ranges cover
    /// completely.
    fn settle(&mut self, ranges: &[Range<u64>]) {
        self.settled = self.settled.max(self.committed);
        for range in ranges {
            let first = self.bounds.partition_point(|bound| *bound < range.start);
            let behind = self.bounds.partition_point(|bound| *bound <= range.end);
            if first + 1 < behind {
                self.settled = self.settled.max(self.bounds[behind - 1]);
            }
        }
    }
}

fn fragment(event: EventId, length: u32) -> Fragment {
    let bytes: Vec<u8> =
        (0..u64::from(length)).map(|place| event.number().wrapping_add(place * 13) as u8).collect();
    let checksum = Checksum::of(&bytes);
    Fragment { event, timestamp: Timestamp::default(), payload: bytes.into(), checksum, lost_packets: 0 }
}
