//! Fuzz target for a lane over UDP: a source and a builder with a byte budget, and a network that
//! loses, repeats and reorders datagrams and into which third parties send forged datagrams.

use std::{collections::VecDeque, time::Duration};

use arbitrary::Arbitrary;
use bytes::BytesMut;
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig, DatagramEnds, Noted},
    event::Event,
    fragment::{Checksum, Fragment, Timestamp},
    grant::GrantPolicy as _,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::{Taken, Unbelieved},
    set::SourceSet,
    source::{self, DatagramEnd, SourceCore, SourceCoreConfig},
    time::{Instant, earlier},
    units::Bytes,
    wire::{
        control::{Accounted, Assignments, Decisions, LaneState, Verdict},
        datagram::{Association, DatagramHeader, DatagramKind},
    },
};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};

const EVENTS: u64 = 6;
const MAX_FRAGMENT: u64 = 4000;
const SEGMENT: u64 = 1432;
const DATAGRAM: usize = 1472;
const BUDGET: Bytes = Bytes::new(8000);
const WINDOW: Bytes = Bytes::new(6000);
/// Largest number of datagrams in flight in each direction.
const QUEUE: usize = 64;
/// Largest number of steps that are performed, to limit the time of a fuzz input.
const STEPS: usize = 300;

/// A step of the test. Arbitrary positions in a queue are reduced modulo its length.
#[derive(Arbitrary, Debug)]
#[allow(missing_docs)] // of fields: the steps say what they are
pub enum Step {
    /// A datagram arrives at the builder (`at_builder`) or at the source; if `stays` is true, a
    /// copy remains in the network and can arrive again.
    Arrive { at_builder: bool, place: u8, stays: bool },
    /// The network loses a datagram to the builder (`to_builder`) or to the source.
    Lose { to_builder: bool, place: u8 },
    /// Time passes: this number of microseconds.
    Pass(u32),
    /// The connection between source and builder breaks, and a new connection replaces it.
    Reconnect,
    /// The sink of the builder finishes writing an event.
    Write(u8),
    /// A third party that knows the connection number sends a forged datagram to the builder
    /// (`to_builder`) or to the source; its sequence number, acknowledgement and offset are those
    /// of the last genuine datagram plus these differences.
    Forge { to_builder: bool, kind: u8, request: u16, sequence: i8, heard: i8, offset: i16, body: Vec<u8> },
    /// A peer with an outdated epoch or connection number sends a datagram.
    Stale { to_builder: bool, epoch: u64, connection: u32 },
}

/// The source, the builder, and the network between them.
#[derive(Debug)]
struct World {
    now: Instant,
    builder: BuilderCore<Policy>,
    source: SourceCore,
    ends: DatagramEnds<()>,
    end: DatagramEnd,
    connection: u32,
    held: LaneState,
    to_builder: VecDeque<Vec<u8>>,
    to_source: VecDeque<Vec<u8>>,
    sink: Vec<Event>,
    built: u64,
    /// True if no datagram was forged.
    honest: bool,
}

/// Performs the steps, and checks the invariants of both state machines after each step. If no
/// datagram was forged, all events must be built in the end, even if the network has lost or
/// reordered datagrams.
///
/// # Panics
/// Panics if a state machine violates an invariant.
pub fn run(steps: &[Step]) {
    let mut world = World::new();
    for step in steps.iter().take(STEPS) {
        world.step(step);
        world.pump();
        world.builder.invariants();
        world.source.invariants();
    }
    if world.honest {
        world.end();
    }
}

impl World {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let heartbeat = Duration::from_secs(1000);
        let config = BuilderCoreConfig {
            run_id: RunId::new(1),
            id: BuilderId::new(1),
            run: RunNumber::new(1),
            epoch: Epoch::new(77),
            slots: EVENTS as usize,
            deadline: Duration::from_secs(1_000_000),
            heartbeat,
            shared_clock: true,
            lease: Duration::ZERO,
            sources: vec![SourceId::new(1)],
            max_fragment: vec![Bytes::new(MAX_FRAGMENT)],
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let shaping = Shaping::Credit {
            budget: BUDGET,
            groups: Vec::new(),
            chunk: Bytes::new(2 * SEGMENT),
            sources_at_once: None,
        };
        let mut builder = BuilderCore::new(config, shaping.policy(1, PacketCost::udp(1500, CELL), 0), now);
        builder.handle_roster(1, SourceSet::first(1), SourceSet::default(), now);
        let config = SourceCoreConfig {
            id: SourceId::new(1),
            max_fragment: Bytes::new(MAX_FRAGMENT),
            orphan_timeout: Duration::from_secs(1_000_000),
            heartbeat,
            builders: vec![BuilderId::new(1)],
            on_demand: false,
            decided: EventId::default(),
            deadline: Duration::from_secs(20),
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let mut source = SourceCore::new(config, now);
        let mut decisions = Decisions::starting(EventId::FIRST);
        decisions.extend(EVENTS as u32, Verdict::Assigned(BuilderId::new(1)));
        assert!(source.handle_decisions(&decisions).is_ok());
        let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
        let mut last = (EventId::default(), 0);
        for event in 1..=EVENTS {
            let id = EventId::new(event);
            assignments.add(&mut last, id, now.as_nanos());
            assert!(source.push(Fragment::new(id, Timestamp::new(event), payload(id)), now).is_ok());
        }
        assert!(builder.handle_assignments(&assignments, now).is_ok());
        let (to_builder, to_source, sink) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let (ends, end) = (DatagramEnds::new(vec![SourceId::new(1)]), DatagramEnd::new(DATAGRAM, None));
        let (held, connection, built, honest) = (LaneState::default(), 0, 0, true);
        let mut world = Self {
            now,
            builder,
            source,
            ends,
            end,
            connection,
            held,
            to_builder,
            to_source,
            sink,
            built,
            honest,
        };
        world.connect();
        world.pump();
        world
    }

    fn association(&self) -> Association {
        let (source, builder) = (SourceId::new(1), BuilderId::new(1));
        Association { epoch: Epoch::new(77), source, builder, connection: self.connection }
    }

    fn connect(&mut self) {
        if self.connection > 0 {
            self.source.handle_lane_disconnected(LaneIndex::new(0));
            self.builder.handle_lane_disconnected(LaneIndex::new(0), self.now);
        }
        self.connection += 1;
        let held = self.builder.handle_lane_connected(LaneIndex::new(0), self.now);
        let LaneState { received, announced, committed } = self.held;
        assert!(held.received >= received && held.announced >= announced && held.committed >= committed);
        assert!(held.committed <= held.received && held.received <= held.announced);
        self.held = held;
        let association = self.association();
        self.builder.associate(LaneIndex::new(0), association, None, WINDOW, self.now);
        let accepted = self.source.handle_lane_connected(LaneIndex::new(0), held.received, held.announced);
        assert!(accepted.is_ok() || !self.honest, "{accepted:?}");
        self.source.associate(LaneIndex::new(0), association, None, DATAGRAM);
        self.ends.open(LaneIndex::new(0), None);
        self.end = DatagramEnd::new(DATAGRAM, None);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Arrive { at_builder, place, stays } => {
                let Some(datagram) = self.pick(*at_builder, *place, *stays) else { return };
                self.deliver(*at_builder, &datagram);
            }
            Step::Lose { to_builder, place } => drop(self.pick(*to_builder, *place, false)),
            Step::Pass(micros) => self.pass(Duration::from_micros((micros % 1_000_000).into())),
            Step::Reconnect => self.connect(),
            Step::Write(place) if !self.sink.is_empty() => {
                let event = self.sink.remove(usize::from(*place) % self.sink.len());
                self.builder.handle_written(event, self.now);
            }
            Step::Write(_) => {}
            Step::Forge { to_builder, kind, request, sequence, heard, offset, body } => {
                let known = if *to_builder { &self.to_builder } else { &self.to_source };
                let last = known.back().and_then(|datagram| Some(DatagramHeader::open(datagram).ok()?.0));
                let kinds = [
                    DatagramKind::Data,
                    DatagramKind::Records,
                    DatagramKind::Probe,
                    DatagramKind::ProbeReply,
                ];
                let header = DatagramHeader {
                    kind: kinds[usize::from(*kind) % kinds.len()],
                    request: *request,
                    association: self.association(),
                    sequence: last.map_or(1, |last| last.sequence).wrapping_add_signed((*sequence).into()),
                    heard: last.map_or(1, |last| last.heard).wrapping_add_signed((*heard).into()),
                    offset: last.map_or(0, |last| last.offset).saturating_add_signed((*offset).into()),
                };
                self.honest = false;
                self.deliver(*to_builder, &[&header.seal([&body[..]])[..], body].concat());
            }
            Step::Stale { to_builder, epoch, connection } => {
                let association =
                    Association { epoch: Epoch::new(*epoch), connection: *connection, ..self.association() };
                let is_ours = association == self.association();
                let (kind, request, sequence, heard, offset) = (DatagramKind::Records, 0, 1, 1, 0);
                let header = DatagramHeader { kind, request, association, sequence, heard, offset };
                self.honest &= !is_ours;
                self.deliver(*to_builder, &header.seal([]));
            }
        }
    }

    fn pick(&mut self, to_builder: bool, place: u8, stays: bool) -> Option<Vec<u8>> {
        let queue = if to_builder { &mut self.to_builder } else { &mut self.to_source };
        let place = usize::from(place) % queue.len().max(1);
        if stays { queue.get(place).cloned() } else { queue.remove(place) }
    }

    fn deliver(&mut self, to_builder: bool, datagram: &[u8]) {
        let mut outcome = Ok(None);
        if to_builder {
            self.ends.receive(&mut self.builder, (), [datagram], self.now, |noted| match noted {
                Noted::Ignored(fault) => outcome = Ok(Some(fault)),
                Noted::Ended(_, fault) => outcome = Err(fault),
            });
        } else {
            outcome = self.end.receive(&mut self.source, LaneIndex::new(0), datagram, self.now);
        }
        self.ends.take_replies().for_each(drop);
        match outcome {
            Ok(None) => {}
            Ok(Some(fault)) => {
                assert_eq!(fault, Unbelieved::Stale);
                let (header, _) = DatagramHeader::open(datagram).expect("it is whole");
                assert_ne!(header.association, self.association());
            }
            Err(fault) => {
                assert!(!self.honest, "a fault without forged datagrams: {fault}");
                self.connect();
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.builder.handle_timeout(self.now);
        self.source.handle_timeout(self.now);
    }

    /// Fetches and handles all outputs that both state machines have at the current time.
    fn pump(&mut self) {
        while let Some(output) = self.builder.poll(self.now) {
            match output {
                builder::Output::Event(event) => self.look_at(event),
                builder::Output::Lane(lane) => {
                    let mut datagram = BytesMut::new();
                    if self.ends.write(&mut self.builder, lane, self.now, &mut datagram).is_some() {
                        assert!(datagram.len() <= DATAGRAM);
                        send(&mut self.to_source, datagram.to_vec());
                    }
                }
                builder::Output::Supervisor(control) => {
                    if let Some(accounted) = Accounted::of(&control) {
                        self.builder.handle_accounted(&accounted).unwrap();
                    }
                }
            }
        }
        assert!(self.builder.policy().outstanding() <= BUDGET, "more than the budget is outstanding");
        loop {
            while let Some(output) = self.source.poll(self.now) {
                if let source::Output::Announce(lane) = output {
                    self.end.announce(&mut self.source, lane, self.now);
                }
            }
            for datagram in self.end.send_all(&mut self.source, LaneIndex::new(0)) {
                assert!(datagram.len() <= DATAGRAM);
                send(&mut self.to_builder, datagram);
            }
            let Some(Taken { range, request }) = self.source.take(LaneIndex::new(0), 4 * SEGMENT) else {
                break;
            };
            let covered = self.source.pieces(LaneIndex::new(0), range.clone(), usize::MAX, |_| ());
            // Only a forged request can ask for bytes that the builder has already committed, which
            // the source no longer holds.
            assert!(covered == range.end - range.start || !self.honest, "{covered} bytes of {range:?}");
            self.end.send(range, request, self.now);
        }
    }

    fn look_at(&mut self, event: Event) {
        for fragment in event.fragments() {
            assert_eq!(Checksum::of(fragment.payload), fragment.checksum);
            assert!(!self.honest || fragment.payload == payload(event.id), "event {}: other bytes", event.id);
        }
        assert!(!self.honest || event.is_complete(), "event {} lacks its fragment", event.id);
        self.built += 1;
        self.sink.push(event);
        assert!(self.built <= EVENTS, "an event is built twice");
    }

    /// Runs the lane to its end without further losses, and checks that all events are built and
    /// that the source has released all fragments.
    fn end(&mut self) {
        for _ in 0..2000 {
            while let Some(datagram) = self.to_builder.pop_front() {
                self.deliver(true, &datagram);
            }
            while let Some(datagram) = self.to_source.pop_front() {
                self.deliver(false, &datagram);
            }
            for event in std::mem::take(&mut self.sink) {
                self.builder.handle_written(event, self.now);
            }
            self.pump();
            if self.built == EVENTS && self.source.uncommitted() == 0 {
                return;
            }
            let next = earlier(self.builder.next_timeout(), self.source.next_timeout());
            let idle = self.to_builder.is_empty() && self.to_source.is_empty();
            let next = next.filter(|_| idle).unwrap_or(self.now).max(self.now + Duration::from_micros(50));
            self.pass(next.since(self.now));
            self.pump();
        }
        panic!("{} of {EVENTS} events, and {} are held", self.built, self.source.uncommitted());
    }
}

/// Puts a datagram into the queue of the network, which loses it if the queue is full.
fn send(queue: &mut VecDeque<Vec<u8>>, datagram: Vec<u8>) {
    if queue.len() < QUEUE && !datagram.is_empty() {
        queue.push_back(datagram);
    }
}

/// Returns the payload of an event's fragment; the payloads of even events are longer than a
/// datagram.
fn payload(event: EventId) -> Vec<u8> {
    let length = if event.number() % 2 == 0 { 3500 } else { event.number() * 40 };
    (0..length).map(|place| (event.number() * 31 + place * 13) as u8).collect()
}
