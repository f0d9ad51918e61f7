//! Sources, one builder, a supervisor's decisions and a sink, whose actions happen in a random
//! order that depends on a seed.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::IoSlice,
};

use bytes::{BufMut, Bytes, BytesMut};
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig},
    event::Event,
    fragment::{Fragment, Timestamp},
    grant::GrantPolicy,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::Taken,
    rng::Rng,
    set::SourceSet,
    source::{self, SourceCore, SourceCoreConfig},
    time::Instant,
    units::Bytes as Amount,
    wire::{
        control::{
            Accounted, Assignments, BuilderReport, Decisions, Message, RoleReport, SourceReport, Verdict,
        },
        record::RecordHeader,
    },
};
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};

use crate::pipe::Pipe;

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
const MAX_FRAGMENT: Amount = Amount::kib(40);
const BUILDER: BuilderId = BuilderId::new(1);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) sources: usize,
    pub(crate) slots: usize,
    pub(crate) events: u64,
    pub(crate) shaping: Shaping,
    pub(crate) budget: Option<Amount>,
    pub(crate) faults: Faults,
}

/// The faults that may happen in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// True if connections may break.
    pub(crate) connections_break: bool,
    /// True if readout may leave out fragments or push them twice.
    pub(crate) sloppy_readout: bool,
    /// True if the last source dies in the middle of the run.
    pub(crate) loses_a_source: bool,
}

/// The complete state of one run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    now: Instant,
    pub(crate) builder: BuilderCore<Policy>,
    pub(crate) sources: Vec<SourceCore>,
    pipes: Vec<Pipe>,
    dead: BTreeSet<usize>,
    /// For each source, the decisions that it has not received yet.
    decisions: Vec<VecDeque<Decisions>>,
    next_push: Vec<u64>,
    assignments: VecDeque<Assignments>,
    roster: u32,
    next_event: u64,
    outstanding: BTreeSet<u64>,
    pub(crate) assigned: BTreeSet<u64>,
    pub(crate) withheld: BTreeSet<(usize, u64)>,
    sink: Vec<Event>,
    pub(crate) built: BTreeMap<u64, Event>,
    accounted: BTreeSet<u64>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let ids: Vec<_> = (1..=plan.sources as u16).map(SourceId::new).collect();
        let config = BuilderCoreConfig {
            run_id: RunId::new(1),
            id: BUILDER,
            run: RunNumber::new(1),
            epoch: Epoch::new(1),
            slots: plan.slots,
            deadline: DEADLINE,
            heartbeat: Duration::from_secs(1),
            shared_clock: true,
            lease: Duration::ZERO,
            sources: ids.clone(),
            max_fragment: vec![MAX_FRAGMENT; plan.sources],
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let source = |id: &SourceId| SourceCoreConfig {
            id: *id,
            max_fragment: MAX_FRAGMENT,
            orphan_timeout: Duration::from_secs(300),
            heartbeat: Duration::from_secs(1),
            builders: vec![BUILDER],
            on_demand: false,
            decided: EventId::default(),
            deadline: Duration::from_secs(20),
            queue_delay: Duration::from_millis(1),
            report_period: Duration::from_secs(1),
        };
        let policy = plan.shaping.policy(plan.sources, PacketCost::tcp(1500, CELL), 1);
        let mut builder = BuilderCore::new(config, policy, now);
        builder.handle_roster(1, SourceSet::first(plan.sources), SourceSet::default(), now);
        Self {
            rng: Rng::new(plan.seed),
            now,
            builder,
            sources: ids.iter().map(|id| SourceCore::new(source(id), now)).collect(),
            pipes: ids.iter().map(|_| Pipe::default()).collect(),
            dead: BTreeSet::new(),
            decisions: vec![VecDeque::new(); plan.sources],
            next_push: vec![1; plan.sources],
            assignments: VecDeque::new(),
            roster: 1,
            next_event: 1,
            outstanding: BTreeSet::new(),
            assigned: BTreeSet::new(),
            withheld: BTreeSet::new(),
            sink: Vec::new(),
            built: BTreeMap::new(),
            accounted: BTreeSet::new(),
            plan,
        }
    }

    /// Takes one random action, and then polls all state machines until they have no output.
    pub(crate) fn step(&mut self) {
        let lane = self.rng.below(self.plan.sources as u64) as usize;
        match self.rng.below(100) {
            0..14 => self.trigger(),
            14..24 => self.deliver_decision(lane),
            24..32 => self.deliver_assignment(),
            32..48 => self.push(lane),
            48..66 => self.deliver_up(LaneIndex::new(lane)),
            66..80 => self.deliver_down(LaneIndex::new(lane)),
            80..88 => self.accept(),
            88..90 if self.plan.faults.connections_break => self.cut(LaneIndex::new(lane)),
            88..96 => self.connect(LaneIndex::new(lane)),
            96 if self.plan.faults.loses_a_source && self.next_event > self.plan.events / 2 => self.lose(),
            97 => self.pass(Duration::from_millis(60)),
            _ => {
                let micros = self.rng.below(500);
                self.pass(Duration::from_micros(micros));
            }
        }
        self.pump();
        self.builder.invariants();
        self.sources.iter().for_each(SourceCore::invariants);
    }

    /// Lets all bytes under way arrive and all deadlines pass, until the run is over.
    pub(crate) fn drain(&mut self) {
        self.plan.faults.connections_break = false;
        for round in 0..4000 {
            self.trigger();
            self.deliver_assignment();
            for lane in 0..self.plan.sources {
                self.connect(LaneIndex::new(lane));
                self.deliver_decision(lane);
                self.push(lane);
                self.pump();
                self.deliver_up(LaneIndex::new(lane));
                self.pump();
                self.deliver_down(LaneIndex::new(lane));
            }
            self.accept();
            self.pump();
            // Time passes beyond the deadline only if no announcements are under way, since the
            // deadline is meant for fragments that are never announced.
            let is_quiet = self.pipes.iter().all(|pipe| pipe.up.is_empty());
            let pause = if is_quiet && round % 100 == 99 { DEADLINE } else { Duration::from_micros(50) };
            self.pass(pause);
            self.pump();
            if self.is_over() {
                // After this time, the bytes of broken connections have left the network and are no
                // longer charged.
                self.pass(Duration::from_secs(1));
                self.pump();
                return;
            }
        }
        panic!("not over: {:?} outstanding, {} built", self.outstanding, self.built.len());
    }

    pub(crate) fn builder_report(&self) -> BuilderReport {
        match self.builder.report().message {
            Some(Message::Report(report)) => match report.report {
                Some(RoleReport::Builder(report)) => report,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn source_report(&self, source: usize) -> SourceReport {
        match self.sources[source].report(0, None).message {
            Some(Message::Report(report)) => match report.report {
                Some(RoleReport::Source(report)) => report,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn is_lost(&self, source: usize) -> bool {
        self.dead.contains(&source)
    }

    fn is_over(&self) -> bool {
        let is_done = |source: usize| {
            self.next_push[source] > self.plan.events
                && self.decisions[source].is_empty()
                && self.sources[source].uncommitted() == 0
        };
        self.next_event > self.plan.events
            && self.outstanding.is_empty()
            && (0..self.plan.sources).all(|source| self.is_lost(source) || is_done(source))
    }

    fn trigger(&mut self) {
        if self.next_event > self.plan.events || self.outstanding.len() == self.plan.slots {
            return;
        }
        let event = self.next_event;
        self.next_event += 1;
        let inhibited = self.rng.below(10) == 0;
        let mut decisions = Decisions::starting(EventId::new(event));
        decisions.extend(1, if inhibited { Verdict::Inhibited } else { Verdict::Assigned(BUILDER) });
        self.decisions.iter_mut().for_each(|queue| queue.push_back(decisions.clone()));
        if !inhibited {
            self.outstanding.insert(event);
            self.assigned.insert(event);
            let mut assignments = Assignments { roster_version: self.roster, ..Assignments::default() };
            assignments.add(&mut (EventId::default(), 0), EventId::new(event), self.now.as_nanos());
            self.assignments.push_back(assignments);
        }
    }

    fn deliver_decision(&mut self, source: usize) {
        if let Some(decisions) = self.decisions[source].pop_front().filter(|_| !self.is_lost(source)) {
            self.sources[source].handle_decisions(&decisions).unwrap();
        }
    }

    fn deliver_assignment(&mut self) {
        if let Some(assignments) = self.assignments.pop_front() {
            self.builder.handle_assignments(&assignments, self.now).unwrap();
        }
    }

    fn push(&mut self, source: usize) {
        let event = self.next_push[source];
        if event > self.plan.events || self.is_lost(source) {
            return;
        }
        self.next_push[source] += 1;
        let payload = payload(self.plan.seed, source, event);
        let times = match self.rng.below(12) {
            0 if self.plan.faults.sloppy_readout => 0,
            1 if self.plan.faults.sloppy_readout => 2,
            _ => 1,
        };
        for _ in 0..times {
            let fragment = Fragment::new(EventId::new(event), Timestamp::new(event * 7), payload.clone());
            self.sources[source].push(fragment, self.now).unwrap();
        }
        if times == 0 {
            self.withheld.insert((source, event));
        }
    }

    fn deliver_up(&mut self, lane: LaneIndex) {
        let limit = 1 + self.rng.below(3000) as usize;
        if self.pipes[lane].is_up {
            self.pipes[lane].feed_builder(&mut self.builder, lane, limit, self.now);
        }
    }

    fn deliver_down(&mut self, lane: LaneIndex) {
        let limit = 1 + self.rng.below(300) as usize;
        if !self.pipes[lane].is_up || self.pipes[lane].welcome.is_some() {
            return;
        }
        let held = |source: &SourceCore| {
            source.held_events(LaneIndex::new(0)).map(EventId::number).collect::<BTreeSet<_>>()
        };
        let before = held(&self.sources[lane]);
        self.pipes[lane].feed_source(&mut self.sources[lane], limit);
        for event in before.difference(&held(&self.sources[lane])) {
            assert!(self.accounted.contains(event), "event {event} was forgotten before it was accepted");
        }
    }

    fn connect(&mut self, lane: LaneIndex) {
        if self.is_lost(lane.get()) {
            return;
        }
        if !self.pipes[lane].is_up {
            let state = self.builder.handle_lane_connected(lane, self.now);
            self.pipes[lane].connect(state);
        } else if let Some(state) = self.pipes[lane].welcome.take() {
            self.sources[lane]
                .handle_lane_connected(LaneIndex::new(0), state.received, state.announced)
                .unwrap();
        }
    }

    fn cut(&mut self, lane: LaneIndex) {
        if self.pipes[lane].is_up {
            self.pipes[lane].cut();
            self.sources[lane].handle_lane_disconnected(LaneIndex::new(0));
            self.builder.handle_lane_disconnected(lane, self.now);
        }
    }

    fn lose(&mut self) {
        let last = self.plan.sources - 1;
        if self.dead.insert(last) {
            self.cut(LaneIndex::new(last));
            self.roster += 1;
            let up = (0..last).collect();
            self.builder.handle_roster(self.roster, up, SourceSet::default(), self.now);
        }
    }

    fn accept(&mut self) {
        if self.sink.is_empty() {
            return;
        }
        let which = self.rng.below(self.sink.len() as u64) as usize;
        let event = self.sink.swap_remove(which);
        assert!(self.accounted.insert(event.id.number()), "accounted twice");
        match self.rng.below(10) {
            0 => self.builder.handle_rejected(event, self.now),
            1 => self.builder.handle_failed(event, "disk full", self.now),
            _ => self.builder.handle_written(event, self.now),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.builder.handle_timeout(self.now);
        self.sources.iter_mut().for_each(|source| source.handle_timeout(self.now));
    }

    fn pump(&mut self) {
        for lane in 0..self.plan.sources {
            self.pump_source(LaneIndex::new(lane));
        }
        while let Some(output) = self.builder.poll(self.now) {
            match output {
                builder::Output::Event(event) => {
                    assert!(self.built.insert(event.id.number(), event.clone()).is_none(), "built twice");
                    self.sink.push(event);
                }
                builder::Output::Lane(lane) => {
                    let mut written = BytesMut::new();
                    self.builder.write_records(lane, &mut written);
                    if self.pipes[lane].is_up {
                        self.pipes[lane].note_written(&written);
                        self.pipes[lane].down.put_slice(&written);
                    }
                }
                builder::Output::Supervisor(message) => {
                    if let Some(accounted) = Accounted::of(&message) {
                        self.builder.handle_accounted(&accounted).unwrap();
                    }
                    if let Some(Message::Completions(completions)) = message.message {
                        let complete = completions.events().map(EventId::number);
                        for event in complete.chain(completions.exceptions.iter().map(|e| e.event)) {
                            assert!(self.outstanding.remove(&event), "completed twice");
                        }
                    }
                }
            }
        }
        assert!(self.builder.slots_used() <= self.plan.slots);
        if let Some(budget) = self.plan.budget {
            assert!(self.builder.policy().outstanding() <= budget, "budget exceeded");
        }
    }

    fn pump_source(&mut self, lane: LaneIndex) {
        let source = &mut self.sources[lane];
        let up = &mut self.pipes[lane].up;
        while let Some(output) = source.poll(self.now) {
            if matches!(output, source::Output::Announce(_)) {
                source.announce(LaneIndex::new(0), self.now, up);
            }
        }
        let limit = 1 + self.rng.below(9000);
        while let Some(Taken { range, .. }) = source.take(LaneIndex::new(0), limit) {
            let length = (range.end - range.start) as u32;
            up.put_slice(&RecordHeader::Data { length, offset: range.start }.encode());
            let mut at = range.start;
            while at < range.end {
                let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(4);
                let count = source.gather(LaneIndex::new(0), at..range.end, &mut slices);
                assert!(count > 0 && slices.iter().map(|s| s.len() as u64).sum::<u64>() == count);
                slices.iter().for_each(|slice| up.put_slice(slice));
                at += count;
            }
        }
    }
}

/// Returns the payload of one fragment: the event id, followed by random bytes that differ for
/// every source and event.
pub(crate) fn payload(seed: u64, source: usize, event: u64) -> Bytes {
    let mut rng = Rng::new(seed ^ (source as u64) << 32 ^ event);
    let length = match rng.below(40) {
        0 => 0,
        1 => 16_380 + rng.below(9000),
        2..8 => rng.below(16),
        _ => rng.below(700),
    };
    let mut bytes = event.to_le_bytes().to_vec();
    bytes.resize(length as usize, 0);
    bytes.iter_mut().skip(8).for_each(|byte| *byte = rng.next_u64() as u8);
    bytes.into()
}
