//! Fuzz target for a lane over a real stream socket: the bytes go to a builder as if from a source,
//! or to a source as if from a builder.

use evb_core::index::LaneIndex;
use std::{future::poll_fn, io::Write as _, net, os::fd::OwnedFd, os::unix::net::UnixStream, time::Duration};

use bytes::BytesMut;
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig},
    fragment::{Checksum, Fragment, Timestamp},
    grant::GrantPolicy as _,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    set::SourceSet,
    source::{self, SourceCore, SourceCoreConfig},
    time::Instant,
    units::Bytes,
    wire::{
        control::{Accounted, Assignments, Decisions, Verdict},
        record::{Announcement, RecordHeader, encode_commit, encode_fragment_header},
    },
};
use evb_net::lane::{BuilderEnd, LaneEnd, Progress, ReadBuffers, SourceEnd};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};
use tokio::net::TcpStream;

use crate::script::{block_on, join, pieces};

const BUDGET: Bytes = Bytes::kib(64);
const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// Sends the input's pieces one after the other to a builder or a source, which reads and reacts
/// after each piece. The kind of the first piece selects the receiver.
///
/// # Panics
/// Panics if a state machine violates an invariant.
pub fn check(data: &[u8]) {
    let builds = data.first().is_none_or(|kind| kind & 1 == 0);
    let _ended = block_on(async { if builds { into_builder(data).await } else { into_source(data).await } });
}

/// Returns a connected pair of sockets: ours as `TcpStream`, and the peer's. The sockets are Unix
/// sockets, which support every operation that a lane uses and need no TCP port.
fn socket() -> Result<(TcpStream, UnixStream), LaneEnd> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((TcpStream::from_std(net::TcpStream::from(OwnedFd::from(ours)))?, theirs))
}

async fn into_builder(data: &[u8]) -> Result<(), LaneEnd> {
    let (stream, mut peer) = socket()?;
    let (mut end, mut buffers) = (BuilderEnd::new(stream), ReadBuffers::default());
    let mut core = builder_core();
    for (_, piece) in pieces(data) {
        // Bytes that the socket does not accept at once are discarded; the remaining bytes are
        // still a valid fuzz input.
        let _ = peer.write(piece);
        tokio::task::yield_now().await;
        while poll_fn(|cx| end.poll_read(cx, &mut core, LaneIndex::new(0), &mut buffers, NOW).into()).await?
            == Progress::More
        {}
        while let Some(output) = core.poll(NOW) {
            match output {
                builder::Output::Lane(lane) => core.write_records(lane, &mut end.outgoing),
                builder::Output::Event(event) => core.handle_written(event, NOW),
                builder::Output::Supervisor(control) => {
                    if let Some(accounted) = Accounted::of(&control) {
                        core.handle_accounted(&accounted).unwrap();
                    }
                }
            }
        }
        assert!(core.policy().outstanding() <= BUDGET);
        // The peer reads nothing, but the socket's buffer has room for all that the builder sends.
        poll_fn(|cx| end.poll_flush(cx).map(|flushed| flushed.map(drop))).await?;
    }
    Ok(())
}

async fn into_source(data: &[u8]) -> Result<(), LaneEnd> {
    let (stream, mut peer) = socket()?;
    let mut end = SourceEnd::new(stream);
    let mut core = source_core();
    for (_, piece) in pieces(data) {
        let _ = peer.write(piece);
        tokio::task::yield_now().await;
        poll_fn(|cx| end.poll_recv(cx, &mut core, LaneIndex::new(0)).into()).await?;
        while let Some(output) = core.poll(NOW) {
            if let source::Output::Announce(lane) = output {
                core.announce(lane, NOW, &mut end.writer.announcements);
            }
        }
        if let Some(taken) = core.take(LaneIndex::new(0), 1000) {
            end.writer.send(taken.range);
        }
        poll_fn(|cx| end.poll_flush(cx, &core, LaneIndex::new(0))).await?;
        assert!(end.is_flushed());
    }
    Ok(())
}

fn builder_core() -> BuilderCore<Policy> {
    let config = BuilderCoreConfig {
        run_id: RunId::new(1),
        id: BuilderId::new(1),
        run: RunNumber::new(1),
        epoch: Epoch::new(1),
        slots: 4,
        deadline: Duration::from_secs(2),
        heartbeat: Duration::from_secs(1),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: vec![SourceId::new(1)],
        max_fragment: vec![Bytes::kib(40)],
        queue_delay: Duration::from_millis(1),
        report_period: Duration::from_secs(1),
    };
    let shaping =
        Shaping::Credit { budget: BUDGET, groups: Vec::new(), chunk: Bytes::kib(32), sources_at_once: None };
    let mut core = BuilderCore::new(config, shaping.policy(1, PacketCost::tcp(1500, CELL), 0), NOW);
    core.handle_roster(1, SourceSet::first(1), SourceSet::default(), NOW);
    core.handle_lane_connected(LaneIndex::new(0), NOW);
    let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
    let mut last = (EventId::default(), 0);
    (1..=4).for_each(|event| assignments.add(&mut last, EventId::new(event), NOW.as_nanos()));
    let assigned = core.handle_assignments(&assignments, NOW);
    assert!(assigned.is_ok());
    core
}

fn source_core() -> SourceCore {
    let config = SourceCoreConfig {
        id: SourceId::new(1),
        max_fragment: Bytes::new(1000),
        orphan_timeout: Duration::from_secs(5),
        heartbeat: Duration::from_secs(1),
        builders: vec![BuilderId::new(1)],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::from_secs(20),
        queue_delay: Duration::from_millis(1),
        report_period: Duration::from_secs(1),
    };
    let mut core = SourceCore::new(config, NOW);
    let mut decisions = Decisions::starting(EventId::FIRST);
    decisions.extend(8, Verdict::Assigned(BuilderId::new(1)));
    assert!(core.handle_decisions(&decisions).is_ok());
    for event in 1..=8 {
        let fragment = Fragment::new(EventId::new(event), Timestamp::default(), vec![event as u8; 100]);
        assert!(core.push(fragment, NOW).is_ok());
    }
    assert!(core.handle_lane_connected(LaneIndex::new(0), 0, 0).is_ok());
    core
}

/// Returns the seed corpus: the data of a source with a small and a large fragment, and grants and
/// commits of a builder.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut announced = BytesMut::new();
    announced.extend_from_slice(&RecordHeader::Announce { count: 2, offset: 0 }.encode());
    let mut lane = Vec::new();
    for (event, length) in [(1, 100), (2, 20_000)] {
        let (event, payload) = (EventId::new(event), vec![7; length]);
        let (timestamp, length) = (Timestamp::default(), length as u32);
        Announcement { event, timestamp, length, lost_packets: 0 }.encode(&mut announced);
        lane.extend(encode_fragment_header(event, Checksum::of(&payload)));
        lane.extend(payload);
    }
    let first = RecordHeader::Data { length: 116, offset: 0 }.encode();
    let rest = RecordHeader::Data { length: 20_016, offset: 116 }.encode();
    let (front, back) = (&lane[116..1000], &lane[1000..]);
    let of_source = [(0, &announced[..]), (0, &first), (0, &lane[..116]), (0, &rest), (0, front), (0, back)];
    let mut committed = BytesMut::new();
    encode_commit(116, &[232..348], &mut committed);
    let [grant, more] = [400, 928].map(|end| RecordHeader::Grant { end }.encode());
    let of_builder = [(1, &[][..]), (1, &grant), (1, &committed), (1, &more)];
    vec![join(&of_source), join(&of_builder)]
}
