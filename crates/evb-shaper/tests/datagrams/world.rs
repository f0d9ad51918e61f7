//! Sources and one builder over a network of datagrams, in simulated time.

use core::time::Duration;
use std::collections::BTreeSet;

use bytes::{Bytes as Payload, BytesMut};
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig, DatagramCounters, Segments},
    event::Event,
    fragment::{Fragment, Timestamp},
    grant::GrantPolicy as _,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::{DatagramFault, Taken},
    rng::Rng,
    set::SourceSet,
    source::{self, DatagramEnd, SourceCore, SourceCoreConfig},
    time::{Instant, earlier},
    units::Bytes,
    wire::{
        control::{Accounted, Assignments, Decisions, Verdict},
        datagram::{Association, DatagramHeader},
    },
};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};

use crate::network::{Conditions, Network, Way};

const BUILDER: BuilderId = BuilderId::new(1);
const EPOCH: Epoch = Epoch::new(77);
const SEGMENT: u64 = 1432;
const DATAGRAM: usize = 1472;
const MAX_FRAGMENT: u64 = 20_000;
/// Simulated time within which every run must end.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    seed: u64,
    sources: usize,
    slots: usize,
    events: u64,
    conditions: Conditions,
    shaping: Shaping,
    budget: Option<Bytes>,
    cuts: f64,
    largest: u64,
    /// Span within which a lane keeps bytes that arrive out of order.
    window: u64,
}

/// The complete state of one schedule: sources, builder, network and results.
pub(crate) struct World {
    plan: Plan,
    rng: Rng,
    now: Instant,
    pub(crate) network: Network,
    builder: BuilderCore<Policy>,
    sources: Vec<SourceCore>,
    ends: Vec<DatagramEnd>,
    connected: Vec<bool>,
    next_event: u64,
    open: BTreeSet<u64>,
    built: BTreeSet<u64>,
    sink: Vec<Event>,
    connections: u32,
    pub(crate) stale: u64,
    /// Number of datagrams that were handled together with the preceding one.
    pub(crate) joined: u64,
    pub(crate) reconnects: u64,
}

impl Plan {
    pub(crate) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut pick = |choices: &[f64]| choices[rng.below(choices.len() as u64) as usize];
        let conditions = Conditions {
            loss: pick(&[0.0, 0.001, 0.01, 0.05, 0.3]),
            copies: pick(&[0.0, 0.0, 0.02, 0.2]),
            damage: pick(&[0.0, 0.0, 0.01, 0.1]),
            delay: Duration::from_secs_f64(pick(&[0.0, 50e-6, 1e-3, 99e-3])),
            jitter: Duration::from_secs_f64(pick(&[0.0, 0.0, 100e-6, 3e-3, 40e-3])),
        };
        let cuts = pick(&[0.0, 0.0, 0.002]);
        let largest = pick(&[40.0, 1455.0, 5000.0, 20_000.0]) as u64;
        let mode = rng.below(8);
        let budget = Bytes::new(3100 + rng.below(40_000));
        let chunk = Bytes::new(SEGMENT * (1 + rng.below(9)));
        let (shaping, budget) = match mode {
            0 => (Shaping::None, None),
            1 => (Shaping::Window { window: Bytes::new(SEGMENT + rng.below(20_000)) }, None),
            2 => (
                Shaping::Credit { budget, groups: Vec::new(), chunk, sources_at_once: Some(1) },
                Some(budget),
            ),
            _ => (Shaping::Credit { budget, groups: Vec::new(), chunk, sources_at_once: None }, Some(budget)),
        };
        Self {
            seed,
            sources: 1 + rng.below(4) as usize,
            slots: 1 + rng.below(5) as usize,
            events: 1 + rng.below(12),
            conditions,
            shaping,
            budget,
            cuts,
            largest,
            window: 2000 + rng.below(60_000),
        }
    }
}

fn payload(seed: u64, source: usize, event: u64, largest: u64) -> Payload {
    let mut rng = Rng::new(seed ^ (source as u64) << 32 ^ event << 8 ^ 0x5eed);
    let length = rng.below(largest + 1);
    (0..length).map(|_| rng.below(256) as u8).collect()
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let ids: Vec<_> = (1..=plan.sources as u16).map(SourceId::new).collect();
        let heartbeat = Duration::from_secs(1);
        let config = BuilderCoreConfig {
            run_id: RunId::new(1),
            id: BUILDER,
            run: RunNumber::new(1),
            epoch: EPOCH,
            slots: plan.slots,
            deadline: Duration::from_secs(10_000),
            heartbeat,
            shared_clock: true,
            lease: Duration::ZERO,
            sources: ids.clone(),
            max_fragment: vec![Bytes::new(MAX_FRAGMENT); plan.sources],
            // The simulated network has no queues.
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let source = |id: &SourceId| SourceCoreConfig {
            id: *id,
            max_fragment: Bytes::new(MAX_FRAGMENT),
            orphan_timeout: Duration::from_secs(10_000),
            heartbeat,
            builders: vec![BUILDER],
            on_demand: false,
            decided: EventId::default(),
            deadline: Duration::from_secs(20),
            // The simulated network has no queues.
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let policy = plan.shaping.policy(plan.sources, PacketCost::udp(1500, CELL), 1);
        let mut builder = BuilderCore::new(config, policy, now);
        builder.handle_roster(1, SourceSet::first(plan.sources), SourceSet::default(), now);
        Self {
            rng: Rng::new(plan.seed ^ 0xd1ce),
            now,
            network: Network::new(plan.conditions.clone(), Rng::new(plan.seed ^ 0xae7)),
            builder,
            sources: ids.iter().map(|id| SourceCore::new(source(id), now)).collect(),
            ends: ids.iter().map(|_| DatagramEnd::new(DATAGRAM, None)).collect(),
            connected: vec![false; plan.sources],
            next_event: 1,
            open: BTreeSet::new(),
            built: BTreeSet::new(),
            sink: Vec::new(),
            connections: 0,
            stale: 0,
            joined: 0,
            reconnects: 0,
            plan,
        }
    }

    pub(crate) fn counters(&self) -> DatagramCounters {
        let mut sum = DatagramCounters::default();
        for lane in 0..self.plan.sources {
            sum.recovery += self.builder.datagram_counters(LaneIndex::new(lane)).recovery;
        }
        sum
    }

    /// Runs the schedule until every event is built and every source has released all its
    /// fragments.
    pub(crate) fn run(&mut self) {
        let end = self.now + PATIENCE;
        loop {
            self.connect();
            self.trigger();
            loop {
                // The kernel may merge several datagrams into one read, or not.
                let most = [1, 3, 64][self.rng.below(3) as usize];
                let Some((way, run)) = self.network.receive(most, self.now) else { break };
                self.deliver(way, &run);
                self.pump();
                self.builder.invariants();
                self.sources.iter().for_each(SourceCore::invariants);
            }
            self.accept();
            self.pass();
            self.pump();
            let is_done = |source: &SourceCore| source.uncommitted() == 0;
            if self.built.len() as u64 == self.plan.events && self.sources.iter().all(is_done) {
                break;
            }
            assert!(self.now < end, "no end: {} of {} events", self.built.len(), self.plan.events);
            self.wait();
        }
        let events: Vec<u64> = self.built.iter().copied().collect();
        assert_eq!(events, (1..=self.plan.events).collect::<Vec<_>>());
    }

    /// Advances the time to the next timeout or arrival, and sometimes breaks a connection.
    fn wait(&mut self) {
        let timeouts = self.sources.iter().map(SourceCore::next_timeout);
        let next = timeouts.fold(self.builder.next_timeout(), earlier);
        let next = earlier(next, self.network.next_arrival()).expect("there are heartbeats");
        self.now = next.max(self.now + Duration::from_nanos(1));
        if self.rng.uniform() < self.plan.cuts {
            let lane = self.rng.below(self.plan.sources as u64) as usize;
            self.connected[lane] = false;
            self.sources[lane].handle_lane_disconnected(LaneIndex::new(0));
            self.builder.handle_lane_disconnected(LaneIndex::new(lane), self.now);
        }
    }

    fn connect(&mut self) {
        for lane in 0..self.plan.sources {
            if self.connected[lane] {
                continue;
            }
            self.connections += 1;
            self.reconnects += u64::from(self.connections > self.plan.sources as u32);
            let source = SourceId::new(lane as u16 + 1);
            let association =
                Association { epoch: EPOCH, source, builder: BUILDER, connection: self.connections };
            let held = self.builder.handle_lane_connected(LaneIndex::new(lane), self.now);
            self.builder.associate(
                LaneIndex::new(lane),
                association,
                None,
                Bytes::new(self.plan.window),
                self.now,
            );
            self.sources[lane]
                .handle_lane_connected(LaneIndex::new(0), held.received, held.announced)
                .unwrap();
            self.sources[lane].associate(LaneIndex::new(0), association, None, DATAGRAM);
            self.ends[lane] = DatagramEnd::new(DATAGRAM, None);
            self.connected[lane] = true;
        }
    }

    fn trigger(&mut self) {
        while self.next_event <= self.plan.events && self.open.len() < self.plan.slots {
            let event = self.next_event;
            self.next_event += 1;
            self.open.insert(event);
            let id = EventId::new(event);
            let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
            assignments.add(&mut (EventId::default(), 0), id, self.now.as_nanos());
            self.builder.handle_assignments(&assignments, self.now).unwrap();
            let mut decisions = Decisions::starting(id);
            decisions.extend(1, Verdict::Assigned(BUILDER));
            for (index, source) in self.sources.iter_mut().enumerate() {
                source.handle_decisions(&decisions).unwrap();
                let payload = payload(self.plan.seed, index, event, self.plan.largest);
                source.push(Fragment::new(id, Timestamp::new(event), payload), self.now).unwrap();
            }
        }
    }

    fn deliver(&mut self, way: Way, run: &[Vec<u8>]) {
        let mut together: Vec<Segments<'_>> = Vec::new();
        for (header, body) in run.iter().filter_map(|datagram| DatagramHeader::open(datagram).ok()) {
            if !together.last_mut().is_some_and(|segments| segments.join(&header, body)) {
                together.push(Segments::one(header, body));
            }
        }
        for segments in together {
            self.joined += u64::from(segments.count()) - 1;
            let outcome = match way {
                Way::ToBuilder(lane) => {
                    self.builder.handle_datagrams(LaneIndex::new(lane), &segments, self.now)
                }
                Way::ToSource(lane) => {
                    let (header, body) = segments.first();
                    self.sources[lane].handle_datagram(LaneIndex::new(0), header, body, self.now)
                }
            };
            match outcome {
                Ok(()) => {}
                Err(DatagramFault::Stale) => self.stale += 1,
                Err(fault) => panic!("{way:?}: {fault}"),
            }
        }
    }

    fn accept(&mut self) {
        while !self.sink.is_empty() && self.rng.below(4) > 0 {
            let which = self.rng.below(self.sink.len() as u64) as usize;
            let event = self.sink.swap_remove(which);
            assert!(self.open.remove(&event.id.number()));
            self.builder.handle_written(event, self.now);
        }
    }

    fn pass(&mut self) {
        self.builder.handle_timeout(self.now);
        self.sources.iter_mut().for_each(|source| source.handle_timeout(self.now));
    }

    fn pump(&mut self) {
        while let Some(output) = self.builder.poll(self.now) {
            match output {
                builder::Output::Event(event) => self.check(event),
                builder::Output::Lane(lane) => {
                    let mut datagram = BytesMut::new();
                    self.builder.write_datagram(lane, self.now, &mut datagram);
                    assert!(datagram.len() <= 1232, "the datagram is larger than every network path carries");
                    self.network.send(Way::ToSource(lane.get()), &datagram, self.now);
                }
                builder::Output::Supervisor(control) => {
                    if let Some(accounted) = Accounted::of(&control) {
                        self.builder.handle_accounted(&accounted).unwrap();
                    }
                }
            }
            if let Some(budget) = self.plan.budget {
                let outstanding = self.builder.policy().outstanding();
                assert!(outstanding <= budget, "{outstanding} outstanding of {budget}");
            }
        }
        for lane in 0..self.plan.sources {
            self.pump_source(LaneIndex::new(lane));
        }
        let honest = self.plan.conditions.only_loses() && self.plan.cuts == 0.0 && self.stale == 0;
        if let Some(budget) = self.plan.budget.filter(|_| honest) {
            let under_way = Bytes::new(self.network.data);
            assert!(under_way <= budget, "{under_way} really under way, of {budget}");
        }
    }

    fn pump_source(&mut self, lane: LaneIndex) {
        let (source, end) = (&mut self.sources[lane], &mut self.ends[lane]);
        loop {
            while let Some(output) = source.poll(self.now) {
                if let source::Output::Announce(_) = output {
                    end.announce(source, LaneIndex::new(0), self.now);
                }
            }
            for datagram in end.send_all(source, LaneIndex::new(0)) {
                assert!(datagram.len() <= DATAGRAM);
                self.network.send(Way::ToBuilder(lane.get()), &datagram, self.now);
            }
            let limit = SEGMENT * (1 + self.rng.below(20));
            let Some(Taken { range, request }) = source.take(LaneIndex::new(0), limit) else { break };
            assert_eq!(
                source.pieces(LaneIndex::new(0), range.clone(), usize::MAX, |_| ()),
                range.end - range.start
            );
            end.send(range, request, self.now);
        }
    }

    fn check(&mut self, event: Event) {
        let id = event.id.number();
        assert!(event.is_complete(), "event {id} lacks {:?}", event.missing);
        assert!(self.built.insert(id), "event {id} is built twice");
        for (index, fragment) in event.fragments().enumerate() {
            let expected = payload(self.plan.seed, index, id, self.plan.largest);
            assert!(fragment.payload == expected, "event {id}, source {}: other bytes", index + 1);
        }
        self.sink.push(event);
    }
}
