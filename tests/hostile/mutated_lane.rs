//! Corrupted lane streams at a builder's end of a real connection.

use std::{future::poll_fn, time::Duration};

use bytes::BytesMut;
use evb::{
    event::Event,
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    units::Bytes,
};
use evb_core::{
    builder::{BuilderCore, BuilderCoreConfig, Output},
    index::LaneIndex,
    set::SourceSet,
    time::Instant,
    wire::{
        control::{Accounted, Assignments},
        record::{Announcement, RecordHeader, encode_fragment_header},
    },
};
use evb_net::{
    clock,
    lane::{BuilderEnd, LaneEnd, ReadBuffers},
};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};
use proptest::prelude::*;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    task::yield_now,
};

use crate::support::content;

const EVENTS: u64 = 6;

/// Lengths of the fragments: small fragments share records, and the largest is read into memory of
/// its own.
const LENGTHS: [usize; EVENTS as usize] = [0, 100, 3000, 20_000, 7, 500];

fn payload(source: u16, event: u64) -> Vec<u8> {
    content(SourceId::new(source), EventId::new(event), LENGTHS[event as usize - 1])
}

/// Returns a source's records for all events, in an order in which it may send them.
fn records(source: u16) -> Vec<Vec<u8>> {
    let (mut records, mut lane, mut sent) = (Vec::new(), Vec::new(), 0);
    for (events, pieces) in [(1..=3, 2), (4..=EVENTS, 3)] {
        let count = events.clone().count() as u16;
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&RecordHeader::Announce { count, offset: lane.len() as u64 }.encode());
        for event in events {
            let payload = payload(source, event);
            let (event, timestamp) = (EventId::new(event), Timestamp::new(event));
            Announcement { event, timestamp, length: payload.len() as u32, lost_packets: 0 }
                .encode(&mut bytes);
            lane.extend_from_slice(&encode_fragment_header(event, Checksum::of(&payload)));
            lane.extend_from_slice(&payload);
        }
        records.push(bytes.to_vec());
        for piece in lane[sent..].chunks((lane.len() - sent).div_ceil(pieces)) {
            let header = RecordHeader::Data { length: piece.len() as u32, offset: sent as u64 }.encode();
            records.push([&header[..], piece].concat());
            sent += piece.len();
        }
    }
    records
}

/// A builder of two sources with all events assigned, and the events that it has built.
struct Bench {
    core: BuilderCore<Policy>,
    events: Vec<Event>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let config = BuilderCoreConfig {
            run_id: RunId::new(1),
            id: BuilderId::new(1),
            run: RunNumber::new(1),
            epoch: Epoch::new(1),
            slots: EVENTS as usize,
            deadline: Duration::from_secs(1),
            heartbeat: Duration::from_secs(1),
            shared_clock: true,
            lease: Duration::ZERO,
            sources: vec![SourceId::new(1), SourceId::new(2)],
            max_fragment: vec![Bytes::new(20_000); 2],
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let now = clock::now();
        let mut core = BuilderCore::new(config, Shaping::None.policy(2, PacketCost::tcp(1500, CELL), 0), now);
        core.handle_roster(1, SourceSet::first(2), SourceSet::default(), now);
        let assignments = Assignments {
            roster_version: 1,
            events: vec![1; EVENTS as usize],
            triggered_ns: vec![1; EVENTS as usize],
            ..Assignments::default()
        };
        core.handle_assignments(&assignments, now).expect("valid input");
        Self { core, events: Vec::new(), now }
    }

    fn drain(&mut self, lane: LaneIndex, end: &mut BuilderEnd) {
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Event(event) => self.events.push(event),
                Output::Lane(dirty) if dirty == lane => self.core.write_records(lane, &mut end.outgoing),
                Output::Lane(_) => {}
                Output::Supervisor(control) => {
                    if let Some(accounted) = Accounted::of(&control) {
                        self.core.handle_accounted(&accounted).expect("what it has completed");
                    }
                }
            }
        }
        end.outgoing.clear();
    }

    /// Sends records on a lane, each after the builder has processed the previous ones.
    async fn play(
        &mut self,
        listener: &TcpListener,
        lane: LaneIndex,
        records: &[Vec<u8>],
    ) -> Result<(), LaneEnd> {
        let mut source =
            TcpStream::connect(listener.local_addr().expect("a bound socket")).await.expect("loopback");
        let (stream, _) = listener.accept().await.expect("loopback");
        let (mut end, mut buffers) = (BuilderEnd::new(stream), ReadBuffers::default());
        self.core.handle_lane_connected(lane, self.now);
        let played = async {
            for record in records {
                let _ = source.write_all(record).await;
                for _ in 0..3 {
                    yield_now().await;
                    let now = self.now;
                    let core = &mut self.core;
                    poll_fn(|cx| end.poll_read(cx, core, lane, &mut buffers, now).into()).await?;
                    self.drain(lane, &mut end);
                }
            }
            Ok(())
        };
        let played = played.await;
        self.core.handle_lane_disconnected(lane, self.now);
        self.drain(lane, &mut end);
        played
    }

    /// Checks that every event was built once, that each present fragment has the content with
    /// which it was made, and that no event lacks source 2.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut ids: Vec<u64> = self.events.iter().map(|event| event.id.number()).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (1..=EVENTS).collect::<Vec<_>>());
        for event in &self.events {
            prop_assert!(!event.is_missing(SourceId::new(2)), "event {} misses source 2", event.id);
            prop_assert_eq!(event.fragments().len() + event.missing.len(), 2);
            for fragment in event.fragments() {
                prop_assert!(fragment.payload == payload(fragment.source.number(), event.id.number()));
            }
        }
        Ok(())
    }
}

/// Applies one error to a stream of records.
fn mutate(records: &mut Vec<Vec<u8>>, (kind, which, at, value): (u8, usize, usize, u64)) {
    let which = which % records.len();
    let record = &mut records[which];
    let at = at % record.len().max(1);
    match kind {
        0 | 1 if !record.is_empty() => record[at] ^= 1 << (value % 8),
        // The error is within the header, where a flipped bit has the most effect.
        2 if record.len() >= 16 => record[at % 16] ^= 1 << (value % 8),
        3 if record.len() >= 16 => record[8..16].copy_from_slice(&value.to_le_bytes()),
        4 if record.len() >= 16 => record[4..8].copy_from_slice(&(value as u32).to_le_bytes()),
        5 => record.truncate(at),
        6 => records.swap_remove(which).clear(),
        7 => records.insert(which, records[which].clone()),
        _ => record.extend_from_slice(&value.to_le_bytes()),
    }
}

async fn play_mutated(mutations: &[(u8, usize, usize, u64)]) -> Result<(), TestCaseError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
    let mut bench = Bench::new();
    let mut mutated = records(1);
    for mutation in mutations {
        if !mutated.is_empty() {
            mutate(&mut mutated, *mutation);
        }
    }
    let played = bench.play(&listener, LaneIndex::new(0), &mutated).await;
    if let Err(error) = &played {
        prop_assert!(!error.to_string().is_empty());
    }
    prop_assert!(bench.core.slots_used() <= EVENTS as usize);
    // The source of the corrupted lane is down now; source 2 sends all its records.
    bench.core.handle_roster(2, [1].into_iter().collect(), SourceSet::default(), bench.now);
    bench.play(&listener, LaneIndex::new(1), &records(2)).await.expect("nothing is wrong with source 2");
    bench.check()
}

#[tokio::test]
async fn the_stream_that_is_mutated_below_is_valid() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
    let mut bench = Bench::new();
    bench.play(&listener, LaneIndex::new(0), &records(1)).await.expect("a valid stream");
    bench.play(&listener, LaneIndex::new(1), &records(2)).await.expect("a valid stream");
    assert!(bench.events.len() == EVENTS as usize && bench.events.iter().all(Event::is_complete));
    bench.check().expect("all is as it was made");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn a_mutated_lane_harms_nobody_else(
        mutations in proptest::collection::vec((0u8..9, any::<usize>(), any::<usize>(), any::<u64>()), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(play_mutated(&mutations))?;
    }
}
