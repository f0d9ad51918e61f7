//! A registered source that sends false records on its lane.

use std::time::Duration;

use bytes::BytesMut;
use evb::{
    fragment::{Checksum, Timestamp},
    id::{BuilderId, EventId, SourceId},
    source::{Source, SourceConfig},
    supervisor::RunPlan,
};
use evb_core::{
    id::Peer,
    wire::{
        control::{Begun, Control, Decisions, Heartbeat, Hello, LaneState, Message, Ready, Verdict, Welcome},
        preamble::ConnectionKind,
        record::{Announcement, RecordHeader, encode_fragment_header},
    },
};
use evb_net::{
    control::{ControlLink, connect},
    handshake::connect_handshake,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::{interval, timeout},
};

use crate::{
    log,
    support::{Numbers, begin, content, plan},
};

const LIMIT: u32 = 1000;

/// A hand-written source whose control connection is correct and whose lane is not.
struct Liar {
    welcome: Welcome,
    builder: String,
    latest: watch::Receiver<u64>,
}

/// One connection of the lying source's lane.
struct Lane {
    stream: TcpStream,
    held: LaneState,
}

impl Liar {
    async fn join(supervisor: &str) -> Self {
        let hello = Hello {
            max_fragment: LIMIT.into(),
            ..Hello::new(Peer::Source(SourceId::new(2)), Peer::Supervisor)
        };
        let (mut link, welcome) = connect(supervisor, None, &hello).await.expect("a planned peer");
        let builder = loop {
            if let Some(Message::Roster(roster)) = link.recv().await.expect("the supervisor speaks").message {
                break roster.builders[0].listen.clone();
            }
        };
        let (tell, latest) = watch::channel(0);
        link.send(&Control { message: Some(Message::Ready(Ready {})) }).expect("room");
        tokio::spawn(keep_alive(link, tell));
        Self { welcome, builder, latest }
    }

    async fn lane(&self) -> Lane {
        let (source, builder) = (Peer::Source(SourceId::new(2)), Peer::Builder(BuilderId::new(1)));
        let hello = Hello {
            run_id: self.welcome.run_id,
            incarnation: self.welcome.incarnation,
            to_incarnation: 1,
            ..Hello::new(source, builder)
        };
        for _ in 0..100 {
            let mut stream = TcpStream::connect(&self.builder).await.expect("the builder listens");
            // The builder may not have noticed the end of the previous connection.
            if let Ok(welcome) = connect_handshake(&mut stream, ConnectionKind::Lane, &hello).await {
                return Lane { stream, held: welcome.lane.expect("a builder says what it holds") };
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the builder never lets the liar in again");
    }

    /// Returns an event that was assigned a moment ago.
    async fn fresh_event(&mut self) -> EventId {
        self.latest.mark_unchanged();
        self.latest.changed().await.expect("the run goes on");
        EventId::new(*self.latest.borrow())
    }
}

/// Sends heartbeats, and notes the event that was decided last.
async fn keep_alive(mut link: ControlLink, tell: watch::Sender<u64>) {
    let mut beat = interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            _ = beat.tick() => {
                let heartbeat = Message::Heartbeat(Heartbeat { sent_ns: 1, ..Heartbeat::default() });
                if link.send(&Control { message: Some(heartbeat) }).is_err() { return }
            }
            message = link.recv() => match message {
                Ok(Control { message: Some(Message::Decisions(decisions)) }) => note(&decisions, &tell),
                Ok(Control { message: Some(Message::RunEnd(_)) }) | Err(_) => return,
                Ok(Control { message: Some(Message::Begin(_)) }) => {
                    let begun = Message::Begun(Begun::default());
                    if link.send(&Control { message: Some(begun) }).is_err() { return }
                }
                Ok(_) => {}
            }
        }
    }
}

fn note(decisions: &Decisions, tell: &watch::Sender<u64>) {
    for (first, count, verdict) in decisions.verdicts().expect("the supervisor is honest") {
        if verdict == Verdict::Assigned(BuilderId::new(1)) {
            tell.send_replace(first.number() + u64::from(count) - 1);
        }
    }
}

impl Lane {
    async fn send(&mut self, bytes: &[u8]) {
        // An error means that the builder closed the lane before it had read all bytes.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads records until the builder grants up to `end`.
    async fn wait_for_grant(&mut self, end: u64) {
        loop {
            let mut header = [0; 16];
            let read = timeout(Duration::from_secs(3), self.stream.read_exact(&mut header)).await;
            read.expect("a grant comes").expect("the lane is open");
            match RecordHeader::decode(header).expect("builders are honest") {
                RecordHeader::Grant { end: granted } if granted >= end => return,
                record => {
                    let mut body = vec![0; record.body()];
                    self.stream.read_exact(&mut body).await.expect("the lane is open");
                }
            }
        }
    }

    /// Waits until the builder closes the lane; returns false if it stays open for 3 s.
    async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        timeout(Duration::from_secs(3), self.stream.read_to_end(&mut rest)).await.is_ok()
    }
}

fn announce(offset: u64, event: EventId, length: u32) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    bytes.extend_from_slice(&RecordHeader::Announce { count: 1, offset }.encode());
    Announcement { event, timestamp: Timestamp::default(), length, lost_packets: 0 }.encode(&mut bytes);
    bytes.to_vec()
}

fn data(offset: u64, event: EventId, checksum: Checksum, payload: &[u8]) -> Vec<u8> {
    let length = 16 + payload.len() as u32;
    let record = RecordHeader::Data { length, offset }.encode();
    [&record[..], &encode_fragment_header(event, checksum), payload].concat()
}

/// Returns lies that need no event, each with a part of the log line that the lie causes.
fn lies(held: LaneState) -> Vec<(&'static str, Vec<u8>)> {
    let first = EventId::FIRST;
    let raw = |kind: u8, flags: u8, count: u16, length: u32| {
        let mut bytes = vec![kind, flags];
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&held.announced.to_le_bytes());
        bytes.extend_from_slice(&[7; 64]);
        bytes
    };
    vec![
        ("at most 1000 were agreed", announce(held.announced, first, LIMIT + 1)),
        ("at most 1000 were agreed", announce(held.announced, first, u32::MAX)),
        ("leave a gap", announce(held.announced + 16, first, 10)),
        ("leave a gap", announce(u64::MAX - 5, first, 10)),
        ("event ids start at 1", announce(held.announced, EventId::default(), 10)),
        ("granted only up to", RecordHeader::Data { length: 50, offset: held.received }.encode().to_vec()),
        ("was expected next", RecordHeader::Data { length: 50, offset: held.received + 1 }.encode().to_vec()),
        ("was expected next", RecordHeader::Data { length: 50, offset: u64::MAX }.encode().to_vec()),
        ("record of the unknown kind 9", raw(9, 0, 0, 0)),
        ("flags 0x80", raw(1, 0x80, 1, 24)),
        ("claims 2 items in 24 bytes", raw(1, 0, 2, 24)),
        ("claims 65535 items", raw(1, 0, u16::MAX, u32::MAX)),
        ("claims 0 items in 4294967295 bytes", raw(2, 0, 0, u32::MAX)),
        ("it may not send on this connection", RecordHeader::Grant { end: 1 << 40 }.encode().to_vec()),
        (
            "it may not send on this connection",
            RecordHeader::Commit { count: 0, offset: 0 }.encode().to_vec(),
        ),
    ]
}

async fn tell_lies(liar: &mut Liar) {
    let count = lies(LaneState::default()).len();
    for index in 0..count {
        let mut lane = liar.lane().await;
        let (words, bytes) = lies(lane.held).swap_remove(index);
        lane.send(&bytes).await;
        assert!(lane.is_closed().await, "the lane stays open where the log should say `{words}`");
        // The log shows one line a second on average, so the test waits until it shows each reason.
        let said = || !log::lines(&["the connection (lane) from source 2 is down", words]).is_empty();
        for _ in 0..30 {
            if said() || index >= 5 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(said() || index >= 5, "no line says `{words}`");
    }
    let mut lane = liar.lane().await;
    lane.send(&announce(lane.held.announced, EventId::new(1 << 40), 10)[..20]).await;
    drop(lane);
}

/// Announces fragments of open events, and sends other data than announced.
async fn break_promises(liar: &mut Liar) -> (EventId, EventId) {
    let mut lane = liar.lane().await;
    assert_eq!(lane.held.announced, lane.held.received, "lies leave nothing behind");
    let at = lane.held.announced;
    let damaged = liar.fresh_event().await;
    lane.send(&announce(at, damaged, 10)).await;
    lane.wait_for_grant(at + 26).await;
    // A wrong checksum damages the fragment, but not the lane.
    lane.send(&data(at, damaged, Checksum::of(b"something"), b"0123456789")).await;
    let at = at + 26;
    let swapped = liar.fresh_event().await;
    lane.send(&announce(at, swapped, 10)).await;
    lane.wait_for_grant(at + 26).await;
    lane.send(&data(at, EventId::new(3), Checksum::of(b"0123456789"), b"0123456789")).await;
    assert!(lane.is_closed().await, "the fragment of another event is taken");
    (damaged, swapped)
}

/// Announces fragments of 51 200 events that are not assigned.
async fn flood(liar: &mut Liar) {
    let mut lane = liar.lane().await;
    let mut offset = lane.held.announced;
    for round in 0..50u64 {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&RecordHeader::Announce { count: 1024, offset }.encode());
        for item in 0..1024 {
            let event = EventId::new(10_000_000 + round * 1024 + item);
            let announcement =
                Announcement { event, timestamp: Timestamp::default(), length: LIMIT, lost_packets: 0 };
            offset += announcement.lane_length();
            announcement.encode(&mut bytes);
        }
        lane.send(&bytes).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn a_source_that_lies_harms_itself_alone() {
    log::keep();
    let plan = RunPlan { deadline: Duration::from_millis(60), ..plan(3, 1, u64::MAX) };
    let mut system = begin(plan).await;
    for id in [1, 3] {
        let (source, address) = (SourceId::new(id), &system.address);
        let config = SourceConfig::new(source, address);
        let readout = Numbers { source, length: 3000 };
        system.sources.push(Source::on_demand(config, readout).await.expect("the source joins"));
    }
    let mut liar = Liar::join(&system.address).await;
    let handle = system.supervisor.clone();
    let mut progress = handle.progress();
    let finishing = tokio::spawn(system.finish());
    progress.wait_for(|now| now.events.incomplete > 0).await.expect("the run goes on without it");
    tell_lies(&mut liar).await;
    let (damaged, swapped) = break_promises(&mut liar).await;
    flood(&mut liar).await;
    let before = progress.latest().events.incomplete;
    progress.wait_for(|now| now.events.incomplete > before + 50).await.expect("the run goes on");
    handle.request_run_end("seen enough").await.expect("the run goes on");
    let (events, report) = finishing.await.expect("no panic");

    for (event, number) in events.iter().zip(1..) {
        assert!(
            event.id == EventId::new(number) && event.missing_sources().eq([SourceId::new(2)]),
            "{event:?}"
        );
        for (fragment, id) in event.fragments().zip([1, 3]) {
            let expected = content(SourceId::new(id), event.id, 3000 + number as usize % 97);
            assert!(fragment.source == SourceId::new(id) && fragment.payload == expected, "event {number}");
        }
        assert_eq!(event.fragments().len(), 2);
    }
    let last = events.last().expect("events were built").id;
    assert!(damaged < last && swapped < last, "{damaged} and {swapped} of {last}");
    assert_eq!(
        (report.exit_code, report.events.open(), report.events.lost),
        (1, Some(0), 0),
        "{}",
        report.verdict
    );
    assert_eq!(report.events.incomplete, events.len() as u64);
    assert_eq!((report.sources[1].missing, report.sources[1].crc_errors), (events.len() as u64, 1));
    assert!(report.sources[0].missing == 0 && report.sources[2].missing == 0);
    assert!(report.builders[0].memory_peak_bytes < 4 << 20, "{} bytes", report.builders[0].memory_peak_bytes);
}
