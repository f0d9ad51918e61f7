//! The two ends of one protected lane, with an attacker between them.

use std::{future::poll_fn, task::Poll, time::Duration};

use evb::{
    PresharedKey, Security,
    event::Event,
    fragment::{Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, Peer, RunId, RunNumber, SourceId},
    units::Bytes,
};
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig},
    index::LaneIndex,
    set::SourceSet,
    source::{self, SourceCore, SourceCoreConfig},
    time::Instant,
    wire::{
        control::{Assignments, Decisions, Hello, Verdict, Welcome},
        preamble::ConnectionKind,
    },
};
use evb_net::{
    clock,
    handshake::{Channel, welcomed},
    lane::{BuilderEnd, LaneEnd, ReadBuffers, SourceEnd},
    security::Forged,
};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};
use tokio::{net::TcpListener, net::TcpStream, task::yield_now};

use crate::{
    relay::{Flip, Relay},
    support::content,
};

const EVENTS: u64 = 6;

/// Lengths of the fragments: small fragments share records, and large ones take many parcels.
const LENGTHS: [usize; EVENTS as usize] = [0, 100, 3000, 200_000, 7, 20_000];

/// Time that a transfer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const KIND: ConnectionKind = ConnectionKind::Lane;

/// Returns a source that has fragments of these lengths, for events from 1 on.
fn source_core(lengths: &[usize], now: Instant) -> SourceCore {
    let config = SourceCoreConfig {
        id: SourceId::new(1),
        max_fragment: Bytes::new(200_000),
        orphan_timeout: Duration::from_secs(5),
        heartbeat: Duration::from_secs(1),
        builders: vec![BuilderId::new(1)],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::from_secs(20),
        queue_delay: Duration::from_millis(1),
        report_period: Duration::from_secs(1),
    };
    let mut core = SourceCore::new(config, now);
    let mut decisions = Decisions::starting(EventId::FIRST);
    decisions.extend(lengths.len() as u32, Verdict::Assigned(BuilderId::new(1)));
    core.handle_decisions(&decisions).expect("valid input");
    for (event, length) in (1..).map(EventId::new).zip(lengths) {
        let payload = content(SourceId::new(1), event, *length);
        core.push(Fragment::new(event, Timestamp::default(), payload), now).expect("accepted");
    }
    core
}

fn builder_core(events: usize, now: Instant) -> BuilderCore<Policy> {
    let config = BuilderCoreConfig {
        run_id: RunId::new(1),
        id: BuilderId::new(1),
        run: RunNumber::new(1),
        epoch: Epoch::new(1),
        slots: events,
        deadline: Duration::from_secs(10),
        heartbeat: Duration::from_secs(1),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: vec![SourceId::new(1)],
        max_fragment: vec![Bytes::new(200_000)],
        queue_delay: Duration::from_millis(1),
        report_period: Duration::from_secs(1),
    };
    let mut core = BuilderCore::new(config, Shaping::None.policy(1, PacketCost::tcp(1500, CELL), 0), now);
    core.handle_roster(1, SourceSet::first(1), SourceSet::default(), now);
    let assignments = Assignments {
        roster_version: 1,
        events: vec![1; events],
        triggered_ns: vec![1; events],
        ..Assignments::default()
    };
    core.handle_assignments(&assignments, now).expect("valid input");
    core
}

/// Returns both ends of a lane after their handshake.
async fn ends(flip: Option<Flip>) -> (SourceEnd, BuilderEnd, Relay) {
    let key = Security::Psk(PresharedKey::new([3; 32]));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
    let relay = Relay::to(listener.local_addr().expect("a bound socket"), flip).await;
    let accepting = async {
        let (stream, _) = listener.accept().await.expect("the relay comes");
        let (mut channel, _) = Channel::accept(stream, KIND, &key).await.expect("the right key");
        channel.reply(KIND, &welcomed(Welcome::default())).await.expect("the answer is sent");
        BuilderEnd::new(channel)
    };
    let connecting = async {
        let stream = TcpStream::connect(relay.address).await.expect("the relay listens");
        let hello = Hello::new(Peer::Source(SourceId::new(1)), Peer::Builder(BuilderId::new(1)));
        let (channel, _) = Channel::connect(stream, KIND, &hello, &key).await.expect("the right key");
        SourceEnd::new(channel)
    };
    let (source, builder) = tokio::join!(connecting, accepting);
    (source, builder, relay)
}

/// Outcome of a transfer.
#[derive(Debug)]
enum Outcome {
    Built,
    /// An end waits for the rest of a parcel whose length field was changed, as if the network
    /// delayed the rest.
    Waits,
    Ended(LaneEnd),
}

/// Runs both ends of a lane until one end fails or all events are built. Returns the events, the
/// outcome, and the number of changed bits.
async fn play(flip: Option<Flip>) -> (Vec<Event>, Outcome, u64) {
    let now = clock::now();
    let (mut source, mut builder) = (source_core(&LENGTHS, now), builder_core(LENGTHS.len(), now));
    let (from, to, relay) = ends(flip).await;
    let patience = if flip.is_some() { Duration::from_millis(500) } else { PATIENCE };
    let (events, outcome, _) = connect(&mut source, &mut builder, (from, to), LENGTHS.len(), patience).await;
    for event in &events {
        let fragment = event.fragments().next().expect("a fragment");
        let length = LENGTHS[event.id.number() as usize - 1];
        assert!(fragment.payload == content(SourceId::new(1), event.id, length), "event {}", event.id);
    }
    (events, outcome, relay.flips())
}

/// Connects a lane, and runs both ends until one end fails, `wanted` events are built or
/// `patience` has passed. Returns the events, the outcome, and the most events that one turn of
/// reading completed.
async fn connect(
    source: &mut SourceCore,
    builder: &mut BuilderCore<Policy>,
    (mut from, mut to): (SourceEnd, BuilderEnd),
    wanted: usize,
    patience: Duration,
) -> (Vec<Event>, Outcome, usize) {
    let lane = LaneIndex::new(0);
    let now = clock::now();
    let state = builder.handle_lane_connected(lane, now);
    source.handle_lane_connected(lane, state.received, state.announced).expect("what the builder has");
    let mut events = Vec::new();
    let mut most = 0;
    let mut buffers = ReadBuffers::default();
    let began = std::time::Instant::now();
    let end = loop {
        if began.elapsed() > patience {
            break Outcome::Waits;
        }
        let turn = poll_fn(|cx| {
            let mut turn = || -> Result<(), LaneEnd> {
                let before = events.len();
                to.poll_read(cx, builder, lane, &mut buffers, now)?;
                while let Some(output) = builder.poll(now) {
                    match output {
                        builder::Output::Event(event) => {
                            events.push(event);
                        }
                        builder::Output::Lane(_) => builder.write_records(lane, &mut to.outgoing),
                        _ => {}
                    }
                }
                most = most.max(events.len() - before);
                if let Poll::Ready(flushed) = to.poll_flush(cx) {
                    flushed?;
                }
                from.poll_recv(cx, source, lane)?;
                while let Some(output) = source.poll(now) {
                    if let source::Output::Announce(_) = output {
                        source.announce(lane, now, &mut from.writer.announcements);
                    }
                }
                while let Some(taken) = source.take(lane, u64::MAX) {
                    from.writer.send(taken.range);
                }
                if let Poll::Ready(flushed) = from.poll_flush(cx, source, lane) {
                    flushed?;
                }
                Ok(())
            };
            Poll::Ready(turn())
        });
        match turn.await {
            Err(end) => break Outcome::Ended(end),
            Ok(()) if events.len() == wanted => break Outcome::Built,
            Ok(()) => yield_now().await,
        }
        tokio::time::sleep(Duration::from_micros(50)).await;
    };
    source.handle_lane_disconnected(lane);
    builder.handle_lane_disconnected(lane, now);
    (events, end, most)
}

#[tokio::test]
async fn a_lane_in_parcels_brings_everything() {
    let (events, end, _) = play(None).await;
    assert!(matches!(end, Outcome::Built), "{end:?}");
    assert_eq!(events.len(), EVENTS as usize);
}

#[tokio::test]
async fn a_changed_bit_ends_the_lane_and_nothing_of_it_is_believed() {
    // The bytes of each direction begin with preamble, agreement and greeting: 58 bytes and about
    // 30 more.
    let lane_bytes: usize = LENGTHS.iter().sum();
    let there = (100..140).chain((140..lane_bytes).step_by(lane_bytes / 40)).map(|byte| (true, byte));
    let mut ended = 0;
    let all: Vec<_> = there.chain((100..130).map(|byte| (false, byte))).collect();
    for (is_there, byte) in all.iter().copied() {
        let (events, outcome, flips) = play(Some(Flip { is_there, byte })).await;
        assert_eq!(flips, 1, "byte {byte}");
        assert!(!is_there || events.len() < EVENTS as usize, "byte {byte}");
        match outcome {
            Outcome::Ended(LaneEnd::Forged(Forged)) => ended += 1,
            Outcome::Waits => {}
            other => panic!("byte {byte}: {other:?}"),
        }
    }
    // All changes are detected except the few that change a length.
    assert!(ended + 8 >= all.len(), "{ended} of {} were seen", all.len());
}

#[tokio::test]
async fn after_a_changed_bit_the_next_connection_brings_all_that_is_missing() {
    for byte in [120, 500, 20_000, 150_000] {
        let now = clock::now();
        let (mut source, mut builder) = (source_core(&LENGTHS, now), builder_core(LENGTHS.len(), now));
        let (from, to, relay) = ends(Some(Flip { is_there: true, byte })).await;
        let (mut events, outcome, _) =
            connect(&mut source, &mut builder, (from, to), LENGTHS.len(), PATIENCE).await;
        assert!(matches!(outcome, Outcome::Ended(LaneEnd::Forged(Forged))), "byte {byte}: {outcome:?}");
        assert_eq!(relay.flips(), 1);
        let (from, to, _relay) = ends(None).await;
        let missing = LENGTHS.len() - events.len();
        let (more, outcome, _) = connect(&mut source, &mut builder, (from, to), missing, PATIENCE).await;
        assert!(matches!(outcome, Outcome::Built), "byte {byte}: {outcome:?}");
        events.extend(more);
        events.sort_by_key(|event| event.id);
        for ((event, number), length) in events.iter().zip(1..).zip(LENGTHS) {
            let fragment = event.fragments().next().expect("a fragment");
            assert_eq!(event.id, EventId::new(number), "byte {byte}");
            assert!(fragment.payload == content(SourceId::new(1), event.id, length), "byte {byte}");
        }
    }
}

/// Other lanes must have their turn although this source sends as fast as it can.
#[tokio::test]
async fn a_turn_of_one_lane_ends_after_a_limit_of_bytes() {
    let lengths = vec![10_000; 800];
    let now = clock::now();
    let (mut source, mut builder) = (source_core(&lengths, now), builder_core(lengths.len(), now));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
    let from = TcpStream::connect(listener.local_addr().expect("a bound socket")).await.expect("it listens");
    let (to, _) = listener.accept().await.expect("a connection");
    let both = (SourceEnd::new(from), BuilderEnd::new(to));
    let (events, outcome, most) = connect(&mut source, &mut builder, both, lengths.len(), PATIENCE).await;
    assert!(matches!(outcome, Outcome::Built) && events.len() == lengths.len(), "{outcome:?}");
    // docs/reference/limits.md: 1 MiB in one turn of a lane, and 128 KiB per read.
    assert!(most <= ((1 << 20) + (128 << 10)) / 10_000 + 1, "{most} events in one turn");
}
