//! Fragments that readout makes when they leave, and makes again when they must leave once more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use evb::{
    fragment::{Fragment, Timestamp},
    id::{EventId, SourceId},
    source::{Readout, Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig},
    units::Bytes,
};
use evb_core::wire::{
    control::{LaneState, Welcome},
    record::{ANNOUNCEMENT, Announcement, RECORD_HEADER, RecordHeader},
};
use evb_net::lane::LaneOptions;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    by_hand::ByHand,
    support::{begin, content, plan},
};

const LENGTH: usize = 300_000;

/// Makes the same fragment as often as it is asked for, and counts.
struct Maker {
    made: Arc<AtomicUsize>,
    let_go: Arc<AtomicUsize>,
}

impl Readout for Maker {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(Fragment::new(event, Timestamp::default(), content(SourceId::new(1), event, LENGTH)))
    }

    fn promise(&mut self, _event: EventId) -> Option<(Timestamp, u32)> {
        Some((Timestamp::default(), LENGTH as u32))
    }

    fn makes_again(&self) -> bool {
        true
    }

    fn recycle(&mut self, _payload: bytes::Bytes) {
        self.let_go.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads a lane's records: the lane offset that announcements reach, and the data from `received` up to `end`, which is
/// granted once it is announced.
async fn read_lane(stream: &mut TcpStream, received: u64, mut announced: u64, end: u64) -> (u64, Vec<u8>) {
    let mut data = Vec::new();
    let mut is_granted = false;
    while received + (data.len() as u64) < end {
        if announced >= end && !is_granted {
            is_granted = true;
            stream.write_all(&RecordHeader::Grant { end }.encode()).await.expect("the source listens");
        }
        let mut header = [0; RECORD_HEADER];
        stream.read_exact(&mut header).await.expect("the source goes on");
        match RecordHeader::decode(header).expect("that is a record") {
            RecordHeader::Announce { count, offset } => {
                announced = offset;
                for _ in 0..count {
                    let mut item = [0; ANNOUNCEMENT];
                    stream.read_exact(&mut item).await.expect("the source goes on");
                    announced += Announcement::decode(&item).lane_length();
                }
            }
            RecordHeader::Data { length, offset } => {
                assert_eq!(offset, received + data.len() as u64);
                let from = data.len();
                data.resize(from + length as usize, 0);
                stream.read_exact(&mut data[from..]).await.expect("the source goes on");
            }
            other => panic!("{other:?} from a source"),
        }
    }
    (announced, data)
}

/// docs/protocol.md LANE-20: over a new connection the source repeats what did not arrive, though it kept none of it.
#[tokio::test]
async fn what_can_be_made_again_is_not_kept_and_comes_again() {
    // The system's, which may take it all at once, and one that does not.
    for send_buffer in [None, Some(Bytes::kib(16))] {
        let lane = LaneOptions { send_buffer, ..LaneOptions::default() };
        timeout(Duration::from_secs(20), made_again(lane)).await.expect("in time");
    }
}

async fn made_again(lane: LaneOptions) {
    const WHOLE: u64 = LENGTH as u64 + 16;
    let bound = SupervisorConfig::new("127.0.0.1:0", plan(1, 1, u64::MAX));
    let supervisor = Supervisor::bind(bound).await.expect("loopback has a port");
    let address = supervisor.addr().to_string();
    let run = tokio::spawn(supervisor.run());
    let builder = ByHand::register(&address).await;
    let (made, let_go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let readout = Maker { made: Arc::clone(&made), let_go: Arc::clone(&let_go) };
    let config = SourceConfig { lane, ..SourceConfig::new(SourceId::new(1), &address) };
    let _source = Source::on_demand(config, readout).await.expect("it joins");
    let mut stream = builder.let_in(&builder.truth).await;
    let (announced, first) = read_lane(&mut stream, 0, 0, 3 * WHOLE).await;
    assert_eq!(made.load(Ordering::Relaxed), 3, "only what leaves is made");
    while let_go.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    // It has the first fragment and half of the second.
    let received = WHOLE + WHOLE / 2;
    let lane = Some(LaneState { received, announced, committed: 0 });
    let mut stream = builder.let_in(&Welcome { lane, ..builder.truth }).await;
    let (_, again) = read_lane(&mut stream, received, announced, 3 * WHOLE).await;
    assert!(again == first[received as usize..], "other bytes than the first time");
    assert_eq!(made.load(Ordering::Relaxed), 5, "what had arrived is not made again");
    for event in 1..=3 {
        let from = (event - 1) * WHOLE as usize + 16;
        let expected = content(SourceId::new(1), EventId::new(event as u64), LENGTH);
        assert!(first[from..from + LENGTH] == expected, "event {event}");
    }
    run.abort();
}

/// Promises more than it makes, for every fifth event.
struct Boaster;

impl Readout for Boaster {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        let made = Fragment::new(event, Timestamp::default(), content(SourceId::new(1), event, 50_000));
        (!event.number().is_multiple_of(5)).then_some(made)
    }

    fn promise(&mut self, _event: EventId) -> Option<(Timestamp, u32)> {
        Some((Timestamp::default(), 50_000))
    }
}

#[tokio::test]
async fn promised_fragments_are_made_when_they_leave_and_a_broken_promise_is_named() {
    let mut system = begin(plan(1, 2, 50)).await;
    let config = SourceConfig::new(SourceId::new(1), &system.address);
    system.sources.push(Source::on_demand(config, Boaster).await.expect("the source joins"));
    let (built, report) = system.finish().await;
    for event in &built {
        match event.fragment(SourceId::new(1)) {
            Some(made) => {
                assert!(made.payload == content(made.source, event.id, 50_000), "event {}", event.id)
            }
            None => assert_eq!((event.id.number() % 5, &event.missing[..]), (0, &[SourceId::new(1)][..])),
        }
    }
    assert_eq!((report.events.complete, report.events.incomplete), (40, 10));
    assert_eq!((report.sources[0].crc_errors, report.sources[0].refused), (10, 10));
    assert_eq!(report.events.open(), Some(0));
}

/// Makes one fragment that is larger than agreed.
struct Exceeding;

impl Readout for Exceeding {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        let length = if event.number() == 7 { 101 } else { 100 };
        Some(Fragment::new(event, Timestamp::default(), content(SourceId::new(1), event, length)))
    }
}

#[tokio::test]
async fn a_fragment_that_is_refused_is_counted_and_its_source_is_named() {
    let mut system = begin(RunPlan { deadline: Duration::from_millis(300), ..plan(1, 1, 20) }).await;
    let config = SourceConfig {
        max_fragment: Bytes::new(100),
        ..SourceConfig::new(SourceId::new(1), &system.address)
    };
    system.sources.push(Source::on_demand(config, Exceeding).await.expect("the source joins"));
    let (built, report) = system.finish().await;
    assert_eq!((built.len(), report.events.incomplete, report.exit_code), (20, 1, 1));
    assert_eq!((report.sources[0].pushed, report.sources[0].refused), (19, 1));
    let said = report.problems.join("\n");
    assert!(said.contains("source 1 refused 1 fragments of its readout"), "{said}");
}
